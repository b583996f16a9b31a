package signing

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/store"
)

// KeyPair is how a dialect of the API replaces keys: Current signs, receivers also accept Next,
// and a rotation makes Next the current one. Keys are texts.
type KeyPair struct{ Current, Next string }

// newKey returns a key of 128 random bits, in more than 32 characters: libraries of JWT warn of
// fewer.
func newKey(prefix string) string { return prefix + rand.Text() + rand.Text()[:8] }

// Pair is the stored KeyPair of a dialect. It is safe for concurrent use. Like a Keyring, it
// reads the store every few seconds; during an outage, the known keys stay in use.
type Pair struct {
	ring         *Keyring
	docs         *documents.Collection[KeyPair]
	name, prefix string

	mu      sync.Mutex // is held while the store is read
	known   KeyPair
	checked time.Time
}

// pairKind is the kind of documents that are pairs, by the names of dialects.
const pairKind = "signing-keys"

// Pair returns the pair of a dialect, whose keys begin with a prefix. It makes the keys when they
// are first needed, and seals them as it does secrets.
func (k *Keyring) Pair(dialect, prefix string, docs store.Documents) *Pair {
	p := &Pair{ring: k, name: dialect, prefix: prefix}
	place := func(name string) string { return pairKind + "/" + name } // no topic has a slash
	p.docs = documents.New(documents.Options[KeyPair]{
		Store: docs, Kind: pairKind, Clock: k.clock,
		Seal: func(name string, plain []byte) ([]byte, error) { return k.keys.Load().seal(place(name), plain) },
		Open: func(name string, data []byte) ([]byte, error) { return k.keys.Load().open(place(name), data) },
	})
	k.pairs = append(k.pairs, p)
	return p
}

// Keys returns the keys. The error wraps ErrNoMasterKey, ErrMasterKey or ErrDamaged if they
// cannot be sealed or opened.
func (p *Pair) Keys(ctx context.Context) (KeyPair, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.known != KeyPair{}
	if known && p.ring.clock.Now().Sub(p.checked) < refreshPause {
		return p.known, nil
	}
	timed, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err := p.update(timed, func(d *documents.Document[KeyPair]) error {
		switch {
		case d.Version != 0:
			return documents.ErrKept
		case known: // the store lost them
			d.Value = p.known
		default:
			d.Value = KeyPair{newKey(p.prefix), newKey(p.prefix)}
		}
		return nil
	})
	if err != nil && !known {
		return KeyPair{}, err
	}
	p.checked = p.ring.clock.Now()
	return p.known, nil
}

// Rotate makes the next key the current one, and a new one the next.
func (p *Pair) Rotate(ctx context.Context) (KeyPair, error) {
	if _, err := p.Keys(ctx); err != nil {
		return KeyPair{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	timed, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	next := newKey(p.prefix)
	err := p.update(timed, func(d *documents.Document[KeyPair]) error {
		if d.Value.Next == next { // an earlier try
			return documents.ErrKept
		}
		d.Value = KeyPair{d.Value.Next, next}
		return nil
	})
	return p.known, err
}

// update changes the document and learns its content.
func (p *Pair) update(ctx context.Context, to func(d *documents.Document[KeyPair]) error) error {
	d, err := p.docs.Update(ctx, p.name, to)
	if err == nil {
		p.known = d.Value
	}
	return err
}
