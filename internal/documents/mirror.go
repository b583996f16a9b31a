package documents

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/store"
)

// Mirror is a node's copy of a collection. For each document it has a V, which it makes when
// the document has changed. Its methods are safe for concurrent use.
type Mirror[T, V any] struct {
	// Mend gets the values before a Refresh and the new ones, which it may change: a store may
	// have lost documents. After its error, the values before stay. Nil: nothing is mended.
	Mend func(ctx context.Context, before, now map[string]V) error

	docs *Collection[T]
	make func(d *Document[T], old V) V

	values   atomic.Pointer[map[string]V] // immutable
	complete atomic.Bool
	// mu is held while documents are read, so that an older answer never replaces a newer one.
	mu   sync.Mutex
	seen map[string]mark
}

// mark identifies the content of a document. Its version alone does not: versions begin anew in a
// store that lost its documents.
type mark struct{ version, sum uint64 }

var seed = maphash.MakeSeed()

func markOf(version uint64, data []byte) mark { return mark{version, maphash.Bytes(seed, data)} }

// NewMirror returns an empty Mirror. of makes the V of a document, readable or not, of which old
// is the V of an earlier version, or zero.
func NewMirror[T, V any](c *Collection[T], of func(d *Document[T], old V) V) *Mirror[T, V] {
	m := &Mirror[T, V]{docs: c, make: of, seen: map[string]mark{}}
	m.values.Store(&map[string]V{})
	return m
}

// All returns all values by the names of their documents. Callers must not change the map.
func (m *Mirror[T, V]) All() map[string]V { return *m.values.Load() }

// Complete reports whether all documents have been read once.
func (m *Mirror[T, V]) Complete() bool { return m.complete.Load() }

// Refresh reads all documents. It decodes those that changed.
func (m *Mirror[T, V]) Refresh(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	raws, err := m.docs.List(ctx)
	if err != nil {
		return err
	}
	old, next, seen := m.All(), make(map[string]V, len(raws)), make(map[string]mark, len(raws))
	for _, raw := range raws {
		v, ok := old[raw.Name]
		is := markOf(raw.Version, raw.Data)
		if !ok || m.seen[raw.Name] != is {
			d := m.docs.Decode(raw)
			v = m.make(&d, v)
		}
		next[raw.Name], seen[raw.Name] = v, is
	}
	if m.Mend != nil {
		if err := m.Mend(ctx, old, next); err != nil {
			return err
		}
	}
	m.seen = seen
	m.values.Store(&next)
	m.complete.Store(true)
	return nil
}

// Read reads one document. The error is the store's.
func (m *Mirror[T, V]) Read(ctx context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.docs.Get(ctx, name)
	if err != nil && d.Version == 0 && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	m.keep(&d)
	return nil
}

// Keep keeps a document as this node read or wrote it. Version 0: it was deleted.
func (m *Mirror[T, V]) Keep(d *Document[T]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keep(d)
}

func (m *Mirror[T, V]) keep(d *Document[T]) {
	next := maps.Clone(m.All())
	if d.Version == 0 {
		delete(next, d.Name)
		delete(m.seen, d.Name)
	} else {
		next[d.Name], m.seen[d.Name] = m.make(d, next[d.Name]), markOf(d.Version, d.Data)
	}
	m.values.Store(&next)
}

// Wrote notes the content of a document that this node wrote, whose V the caller has changed.
func (m *Mirror[T, V]) Wrote(d *Document[T]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[d.Name] = markOf(d.Version, d.Data)
}

// Clear forgets all.
func (m *Mirror[T, V]) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values.Store(&map[string]V{})
	clear(m.seen)
}

// Following is how a Mirror follows the changes of other nodes. Channel and From may be empty.
type Following struct {
	What                string // that is done, for the log
	From                store.Listener
	Channel             string // carries the names of changed documents
	Every, Retry, Limit time.Duration
	Clock               job.Clock
	Logger              *slog.Logger
	// Refresh reads everything, each Every at least; nil: Mirror.Refresh.
	Refresh func(ctx context.Context) error
}

// Run follows the changes of other nodes until ctx ends.
func (m *Mirror[T, V]) Run(ctx context.Context, f Following) error {
	var listening sync.WaitGroup
	defer listening.Wait()
	changed := loops.NewMailbox[struct{}]()
	if f.Channel != "" {
		listening.Go(func() {
			feed.Follow(ctx, f.From, f.Channel, f.Clock, f.Logger, func(name []byte) { changed.Put(string(name), struct{}{}) })
		})
	}
	if f.Refresh == nil {
		f.Refresh = m.Refresh
	}
	var refreshed time.Time
	loops.NewOutage(f.What, f.Clock, f.Logger, nil).Repeat(ctx, loops.Task{
		Every: f.Every, Retry: f.Retry, Limit: f.Limit, Wake: changed.Wake,
		Do: func(ctx context.Context) error {
			names, now := changed.Take(), f.Clock.Now()
			_, lost := names[""] // the node has just begun to listen: messages may be lost
			if len(names) > 0 && !lost && now.Sub(refreshed) < f.Every && m.readAll(ctx, names) == nil {
				return nil
			}
			refreshed = now
			return f.Refresh(ctx)
		},
	})
	return nil
}

func (m *Mirror[T, V]) readAll(ctx context.Context, names map[string]struct{}) error {
	for name := range names {
		if err := m.Read(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
