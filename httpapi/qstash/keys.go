package qstash

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"sync"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// KeyPair is the keys of deliveries: Current signs, receivers also accept Next, and a rotation makes
// Next the current one.
type KeyPair struct {
	Current string `json:"current"`
	Next    string `json:"next"`
}

// Keys are the keys that sign deliveries.
type Keys interface {
	Keys(ctx context.Context) (KeyPair, error)
	Rotate(ctx context.Context) (KeyPair, error)
}

// DevKeys are the public keys of the SDKs' development mode.
type DevKeys struct{}

// Keys returns them.
func (DevKeys) Keys(context.Context) (KeyPair, error) {
	return KeyPair{Current: "sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r", Next: "sig_5ZB6DVzB1wjE8S6rZ7eenA8Pdnhs"}, nil
}

// Rotate is not possible.
func (DevKeys) Rotate(context.Context) (KeyPair, error) {
	return KeyPair{}, refused("the public keys of the development mode cannot be rotated; start the server with --api-keys")
}

// StoredKeys are the keys of all nodes, sealed in the store. It is safe for concurrent use.
type StoredKeys struct {
	pair *documents.Keyring[KeyPair, KeyPair]
	used func()
	run  <-chan struct{} // closed when the keys are first used
}

// pairName is the name of the only document.
const pairName = "keys"

// NewKeys returns the keys of a store. They are made when they are first needed.
func NewKeys(s store.Documents, seal *documents.Seal, clock job.Clock, log *slog.Logger) *StoredKeys {
	run := make(chan struct{})
	return &StoredKeys{run: run, used: sync.OnceFunc(func() { close(run) }), pair: documents.NewKeyring(documents.KeyringOptions[KeyPair, KeyPair]{
		Options: documents.Options[KeyPair]{Store: s, Kind: "qstash-keys", Seal: seal, Clock: clock},
		What:    "keys of the QStash dialect", Logger: log,
		Of:      func(p *KeyPair) KeyPair { return *p },
		Lasting: func(string) bool { return true },
	})}
}

// Run keeps the keys up to date until ctx ends. It reads nothing before they are first needed.
func (k *StoredKeys) Run(ctx context.Context) error {
	select {
	case <-k.run:
		return k.pair.Run(ctx)
	case <-ctx.Done():
		return nil
	}
}

// Keys returns the keys. The error wraps documents.ErrNoMasterKey, ErrMasterKey or ErrDamaged if they
// cannot be sealed or opened.
func (k *StoredKeys) Keys(ctx context.Context) (KeyPair, error) {
	k.used()
	if known, ok := k.pair.All()[pairName]; ok {
		return known.Last()
	}
	d, err := k.pair.Ensure(ctx, pairName, func() (KeyPair, error) { return KeyPair{newKey(), newKey()}, nil })
	return d.Value, err
}

// Rotate makes the next key the current one, and a new one the next.
func (k *StoredKeys) Rotate(ctx context.Context) (KeyPair, error) {
	if _, err := k.Keys(ctx); err != nil {
		return KeyPair{}, err
	}
	next := newKey()
	d, err := k.pair.Update(ctx, pairName, func(d *documents.Document[KeyPair]) error {
		if d.Value.Next == next { // an earlier try
			return documents.ErrKept
		}
		d.Value = KeyPair{d.Value.Next, next}
		return nil
	})
	return d.Value, err
}

// newKey returns a key of 128 random bits, in more than 32 characters: libraries of JWT warn of
// fewer.
func newKey() string { return "sig_" + rand.Text() + rand.Text()[:8] }

func (a *api) keys(c *httpapi.Call) error { return a.answerKeys(c, Keys.Keys) }

func (a *api) rotateKeys(c *httpapi.Call) error { return a.answerKeys(c, Keys.Rotate) }

func (a *api) answerKeys(c *httpapi.Call, call func(Keys, context.Context) (KeyPair, error)) error {
	if a.Keys == nil {
		return refused("this server does not sign deliveries: --signing is off")
	}
	pair, err := call(a.Keys, c.Context())
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, pair)
}
