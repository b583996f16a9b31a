// Package hold keeps a store's jobs from all nodes: for operators who look before a restored database delivers, and while an
// import lasts. A document of the store is the hold, so it holds for all nodes, and survives their restarts. Pauses of topics
// stay as they are.
package hold

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/store"
)

const (
	// channel tells nodes that the hold has changed.
	channel = "hold"
	// every is how often a node looks, if no message comes.
	every = 5 * time.Second
	// again is when a caller who was given nothing may ask again.
	again       = time.Second
	retryPause  = time.Second
	callTimeout = 5 * time.Second
)

// Store is what a hold needs of a store.
type Store interface {
	store.Documents
	store.Messaging
}

// ErrImport says that an import into the store has not ended.
var ErrImport = errors.New("an import into the store has not ended: run duehook import again, with the same file")

// start is the content of the document of a start that pauses.
type start struct {
	Since job.Instant `json:"since"`
}

// Held says why a store is held.
type Held struct {
	Import bool        // an import has not ended
	Since  job.Instant // of a start that pauses; zero: none did
}

// Reason is the reason, with what to do.
func (h Held) Reason() string {
	if h.Import {
		return ErrImport.Error()
	}
	return fmt.Sprintf("a node was started with --start-paused at %s: look with duehook ls state:waiting,ready,running,retrying due_to:now, then run duehook resume", h.Since.RFC3339())
}

// Documents is the part of a store from which Read reads.
type Documents interface {
	ListDocuments(ctx context.Context, q store.DocumentQuery) ([]store.Document, error)
}

// Read reads the hold; nil: there is none.
func Read(ctx context.Context, s Documents) (*Held, error) {
	docs, err := s.ListDocuments(ctx, store.DocumentQuery{Kind: store.HoldKind})
	if err != nil || len(docs) == 0 {
		return nil, err
	}
	var h Held
	for i := range docs {
		var d start
		if docs[i].Name == store.HoldStart && json.Unmarshal(docs[i].Data, &d) == nil {
			h.Since = d.Since
		}
		h.Import = h.Import || docs[i].Name == store.HoldImport
	}
	return &h, nil
}

// Resume ends the hold of a start that paused, for all nodes. It reports whether there was one. The error is ErrImport if an import
// holds the store.
func Resume(ctx context.Context, s Store) (was bool, err error) {
	h, err := Read(ctx, s)
	switch {
	case err != nil, h == nil:
		return false, err
	case h.Import:
		return false, ErrImport
	}
	d, err := store.ReadDocument(ctx, s, store.HoldKind, store.HoldStart)
	if err == nil {
		err = store.DeleteDocument(ctx, s, d.Kind, d.Name, d.Version)
	}
	if err != nil {
		return false, err
	}
	return true, s.Publish(ctx, channel, nil)
}

// Options of New. Store and Logger are required.
type Options struct {
	Store  Store
	Pause  bool // hold the store first
	Now    func(ctx context.Context) (job.Instant, error)
	Clock  job.Clock // nil: the machine's
	Logger *slog.Logger
}

// Hold is a node's knowledge of the hold. Until it has read the store once, the store is held.
type Hold struct {
	o      Options
	paused bool // Options.Pause is done
	free   atomic.Pointer[chan struct{}]
	mu     sync.Mutex // guards changes of free
	is     bool       // held, as was logged last
}

// New returns a Hold, which follows the store while Run does.
func New(o Options) *Hold {
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	h := &Hold{o: o, paused: !o.Pause}
	closed := make(chan struct{})
	h.free.Store(&closed)
	return h
}

// Free is closed while the store is not held.
func (h *Hold) Free() <-chan struct{} { return *h.free.Load() }

// Run follows the hold until ctx ends.
func (h *Hold) Run(ctx context.Context) error {
	changed := loops.NewSignal()
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() {
		feed.Follow(ctx, h.o.Store, channel, h.o.Clock, h.o.Logger, func([]byte) { changed.Set() })
	})
	loops.NewOutage("reading whether deliveries are held", h.o.Clock, h.o.Logger, nil).Repeat(ctx, loops.Task{
		Every: every, Retry: retryPause, Limit: callTimeout, Wake: changed, Do: h.refresh,
	})
	return nil
}

func (h *Hold) refresh(ctx context.Context) error {
	if !h.paused {
		if err := h.pause(ctx); err != nil {
			return err
		}
		h.paused = true
	}
	held, err := Read(ctx, h.o.Store)
	if err != nil {
		return err
	}
	h.set(held)
	return nil
}

// pause holds the store, unless it is held already.
func (h *Hold) pause(ctx context.Context) error {
	now, err := h.o.Now(ctx)
	if err != nil {
		return err
	}
	data, err := json.Marshal(start{now})
	if err != nil {
		return err
	}
	_, err = store.PutDocument(ctx, h.o.Store, store.Document{Kind: store.HoldKind, Name: store.HoldStart, Data: data})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return err
	}
	return h.o.Store.Publish(ctx, channel, nil)
}

func (h *Hold) set(held *Held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.Free():
		if held != nil {
			open := make(chan struct{})
			h.free.Store(&open)
		}
	default:
		if held == nil {
			close(*h.free.Load())
		}
	}
	switch {
	case held != nil && !h.is:
		h.o.Logger.Warn("deliveries are held: no job is delivered, consumers get none, and rows stay in inboxes", "reason", held.Reason())
	case held == nil && h.is:
		h.o.Logger.Info("deliveries are resumed")
	}
	h.is = held != nil
}

// await waits up to d for the store to be free, and reports whether it is.
func (h *Hold) await(ctx context.Context, d time.Duration) bool {
	free := h.Free()
	select {
	case <-free:
		return true
	default:
	}
	if d <= 0 {
		return false
	}
	t := h.o.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-free:
		return true
	case <-t.C():
	case <-ctx.Done():
	}
	return false
}

// Over is the store, which gives nothing while it is held.
func (h *Hold) Over(s store.Store, lists store.ReadyList) (store.Store, store.ReadyList) {
	if lists != nil {
		lists = heldLists{lists, h}
	}
	return held{s, h}, lists
}

type held struct {
	store.Store
	h *Hold
}

// Take passes a call on whose ctx has ended: it begins no claim.
func (s held) Take(ctx context.Context, shard int, o store.TakeOptions) (store.Taken, error) {
	if ctx.Err() == nil && !s.h.await(ctx, o.Wait) && ctx.Err() == nil {
		return store.Taken{Wait: again}, nil
	}
	return s.Store.Take(ctx, shard, o)
}

type heldLists struct {
	store.ReadyList
	h *Hold
}

func (l heldLists) Carry(ctx context.Context, shard int, o store.CarryOptions) (store.CarryResult, error) {
	if !l.h.await(ctx, 0) {
		return store.CarryResult{Wait: again}, nil
	}
	return l.ReadyList.Carry(ctx, shard, o)
}
