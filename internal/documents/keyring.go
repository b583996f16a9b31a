package documents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/duehook/duehook/store"
)

// Freshness is the time after which all nodes that can read the store use a change of a Keyring: a
// read that just missed it, a pause, and the next read.
const Freshness = refreshPause + 2*readTimeout

const (
	refreshPause = 3 * time.Second
	readTimeout  = 2 * time.Second
	// changeTimeout bounds all calls of the store for one change.
	changeTimeout = 5 * time.Second
)

// ErrUnread is the error of a Keyring before all documents have been read once.
var ErrUnread = fmt.Errorf("%w: not read yet", store.ErrUnavailable)

// Keyring is documents that a node needs at each request or delivery, such as API keys and
// signing secrets. It answers from a copy, without I/O: during an outage of the store, the known
// documents stay in use. For each document it has a V. Its methods are safe for concurrent use.
type Keyring[T, V any] struct {
	docs    *Collection[T]
	known   *Mirror[T, Held[V]]
	what    string
	of      func(*T) V
	lasting func(name string) bool
	log     *slog.Logger
}

// KeyringOptions describe a Keyring.
type KeyringOptions[T, V any] struct {
	Options[T]
	// What names the documents in errors and in the log, such as "API keys".
	What string
	// Of makes the V of a changed document.
	Of func(v *T) V
	// Lasting are the names of documents that nobody removes. A store without a known one has lost its
	// documents, and a node that knows them writes them back. Nil: there are none.
	Lasting func(name string) bool
	Logger  *slog.Logger
}

// Held is what a Keyring holds of a document.
type Held[V any] struct {
	Value V     // of the last content that this node could read
	Err   error // why it cannot read the stored content; nil: it can
	read  bool
	data  []byte // as stored
}

// Last returns the Value. The error is Err if the node could read no content.
func (h Held[V]) Last() (V, error) {
	if h.read {
		return h.Value, nil
	}
	return h.Value, h.Err
}

// NewKeyring returns an empty Keyring. Load or Run fills it.
func NewKeyring[T, V any](o KeyringOptions[T, V]) *Keyring[T, V] {
	k := &Keyring[T, V]{docs: New(o.Options), what: o.What, of: o.Of, lasting: o.Lasting, log: o.Logger}
	k.known = NewMirror(k.docs, k.hold)
	k.known.Mend = k.restore
	return k
}

// Load reads all documents.
func (k *Keyring[T, V]) Load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := k.known.Refresh(ctx); err != nil {
		return fmt.Errorf("read the %s: %w", k.what, err)
	}
	return nil
}

// Run reads the documents at intervals until ctx ends.
func (k *Keyring[T, V]) Run(ctx context.Context) error {
	return k.known.Run(ctx, Following{
		What: "reading " + k.what + "; known ones stay in use, removed ones too", Every: refreshPause, Limit: readTimeout, Clock: k.docs.clock, Logger: k.log,
	})
}

// Ready returns an error that wraps ErrUnread before all documents have been read once.
func (k *Keyring[T, V]) Ready() error {
	if k.known.Complete() {
		return nil
	}
	return fmt.Errorf("the %s: %w", k.what, ErrUnread)
}

// All returns the known documents by name. Callers must not change the map.
func (k *Keyring[T, V]) All() map[string]Held[V] { return k.known.All() }

// Get reads a document from the store, as Collection.Get does.
func (k *Keyring[T, V]) Get(ctx context.Context, name string) (Document[T], error) {
	return k.docs.Get(ctx, name)
}

// Create is Collection.Create. This node uses the document at once.
func (k *Keyring[T, V]) Create(ctx context.Context, name string, v T) (Document[T], error) {
	return k.changed(ctx, func(ctx context.Context) (Document[T], error) { return k.docs.Create(ctx, name, v) })
}

// Update is Collection.Update. This node uses the document at once.
func (k *Keyring[T, V]) Update(ctx context.Context, name string, change func(d *Document[T]) error, allow ...Allow) (Document[T], error) {
	return k.changed(ctx, func(ctx context.Context) (Document[T], error) { return k.docs.Update(ctx, name, change, allow...) })
}

// Ensure returns a document. The first call of all nodes creates it with what create returns.
func (k *Keyring[T, V]) Ensure(ctx context.Context, name string, create func() (T, error)) (Document[T], error) {
	return k.changed(ctx, func(ctx context.Context) (Document[T], error) { return k.docs.Ensure(ctx, name, create) })
}

func (k *Keyring[T, V]) changed(ctx context.Context, change func(context.Context) (Document[T], error)) (Document[T], error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	d, err := change(ctx)
	// Read again: another call may have written a later version, and kept it, in the meantime. After an error, Run
	// reads the document.
	if err == nil && k.known.Read(ctx, d.Name) != nil {
		k.known.Keep(&d)
	}
	return d, err
}

// Remove is Collection.Remove. This node uses the document no more.
func (k *Keyring[T, V]) Remove(ctx context.Context, name string, allow ...Allow) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	err := k.docs.Remove(ctx, name, allow...)
	if err == nil || errors.Is(err, store.ErrNotFound) {
		k.known.Keep(&Document[T]{Head: Head{Name: name}})
	}
	return err
}

// hold makes the Held of a changed document.
func (k *Keyring[T, V]) hold(d *Document[T], old Held[V]) Held[V] {
	h := Held[V]{Value: old.Value, Err: d.Err, read: old.read, data: d.Data}
	if d.Err == nil {
		h.Value, h.read = k.of(&d.Value), true
		return h
	}
	reason := d.Err
	if errors.Is(d.Err, store.ErrNewer) { // its text could quote the content
		reason = store.ErrNewer
	}
	k.log.Error("a stored document cannot be read: it is damaged, of a newer version, or sealed with another master key", "of", k.what, "name", d.Name, "error", reason)
	return h
}

// restore writes the documents back that the store lost.
func (k *Keyring[T, V]) restore(ctx context.Context, before, now map[string]Held[V]) error {
	missing, lost := maps.Clone(before), false
	maps.DeleteFunc(missing, func(name string, _ Held[V]) bool { _, there := now[name]; return there })
	for name := range missing {
		lost = lost || k.lasting != nil && k.lasting(name)
	}
	if !lost {
		return nil
	}
	for name, h := range missing {
		// A conflict: another node was faster, and the next read finds its document.
		if err := k.docs.restore(ctx, name, h.data); err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
		now[name] = h
	}
	k.log.WarnContext(ctx, "the store lost documents; this node restored the known ones", "of", k.what)
	return nil
}
