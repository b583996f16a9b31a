package signing

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"

	"github.com/duehook/duehook/internal/kit/documents"
)

// KeyPair is how a dialect of the API replaces keys: Current signs, receivers also accept Next,
// and a rotation makes Next the current one. Keys are texts.
type KeyPair struct{ Current, Next string }

// newKey returns a key of 128 random bits, in more than 32 characters: libraries of JWT warn of
// fewer.
func newKey(prefix string) string { return prefix + rand.Text() + rand.Text()[:8] }

// Pair is the stored KeyPair of a dialect. It is safe for concurrent use.
type Pair struct {
	ring         *Keyring
	name, prefix string

	mu sync.Mutex // is held while the keys are made
}

// pairPrefix begins the names of documents that are pairs. No topic has a slash.
const pairPrefix = "signing-keys/"

func isPair(name string) bool { return strings.HasPrefix(name, pairPrefix) }

// Pair returns the pair of a dialect, whose keys begin with a prefix. It makes the keys when they
// are first needed, and seals and reads them as it does secrets.
func (k *Keyring) Pair(dialect, prefix string) *Pair {
	return &Pair{ring: k, name: pairPrefix + dialect, prefix: prefix}
}

// Keys returns the keys. The error wraps ErrNoMasterKey, ErrMasterKey or ErrDamaged if they
// cannot be sealed or opened.
func (p *Pair) Keys(ctx context.Context) (KeyPair, error) {
	if known, ok := p.ring.known.All()[p.name]; ok {
		return known.pair, known.err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.ring.known.All()[p.name]; ok { // another call has made them
		return known.pair, known.err
	}
	return p.update(ctx, func(d *stored) error {
		if d.Version != 0 {
			return documents.ErrKept
		}
		d.Value.Pair = KeyPair{newKey(p.prefix), newKey(p.prefix)}
		return nil
	})
}

// Rotate makes the next key the current one, and a new one the next.
func (p *Pair) Rotate(ctx context.Context) (KeyPair, error) {
	if _, err := p.Keys(ctx); err != nil {
		return KeyPair{}, err
	}
	next := newKey(p.prefix)
	return p.update(ctx, func(d *stored) error {
		if d.Value.Pair.Next == next { // an earlier try
			return documents.ErrKept
		}
		d.Value.Pair = KeyPair{d.Value.Pair.Next, next}
		return nil
	})
}

func (p *Pair) update(ctx context.Context, to func(d *stored) error) (KeyPair, error) {
	d, err := p.ring.update(ctx, p.name, to)
	if err != nil {
		return KeyPair{}, err
	}
	return d.Value.Pair, nil
}
