package hold_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/hold"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
)

// node is a node's view of a store.
type node struct {
	store store.Store
	lists store.ReadyList
	hold  *hold.Hold
}

// lists count the calls that reach them.
type lists struct {
	store.ReadyList
	carries int
}

func (l *lists) Carry(context.Context, int, store.CarryOptions) (store.CarryResult, error) {
	l.carries++
	return store.CarryResult{}, nil
}

// start runs a node until the test ends.
func start(t *testing.T, s store.Store, pause bool, under store.ReadyList) *node {
	t.Helper()
	h := hold.New(hold.Options{
		Store: s, Pause: pause, Now: func(ctx context.Context) (job.Instant, error) { return store.Now(ctx, s) }, Logger: slog.New(slog.DiscardHandler),
	})
	n := &node{hold: h}
	n.store, n.lists = h.Over(s, under)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return n
}

// takes is how many jobs a call gets that waits for them.
func (n *node) takes(t *testing.T, wait time.Duration) int {
	t.Helper()
	taken, err := n.store.Take(t.Context(), 0, store.TakeOptions{Max: 10, Wait: wait, Lease: time.Minute, Limits: store.FlightLimits{HalfOpenLimit: 10}})
	must.OK(t, err)
	return len(taken.Claims)
}

func register(t *testing.T, s store.Store, id string) {
	t.Helper()
	key := job.Key{Topic: "t", ID: id}
	_, err := s.Register(t.Context(), []store.Registration{{Key: key, UID: store.BindUID("01J00000000000000000000000", key), Spec: job.Spec{Destination: "https://example.com"}}})
	must.OK(t, err)
}

func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, under := testenv.Store(t, diskstore.Options{}), &lists{}
		register(t, s, "a")
		running := start(t, s, false, nil)
		must.Equal(t, "jobs without a hold", running.takes(t, 10*time.Second), 1)
		register(t, s, "b")

		first := start(t, s, true, under)
		synctest.Wait()
		for _, n := range []*node{first, running} {
			must.Equal(t, "jobs of a held store", n.takes(t, 10*time.Second), 0)
		}
		_, err := first.lists.Carry(t.Context(), 0, store.CarryOptions{})
		must.OK(t, err)
		must.Equal(t, "calls of carriers", under.carries, 0)
		held, err := hold.Read(t.Context(), s)
		must.OK(t, err)
		must.Equal(t, "an import", held.Import, false)

		got := make(chan int)
		go func() { got <- running.takes(t, time.Hour) }()
		synctest.Wait()
		was, err := hold.Resume(t.Context(), s)
		must.OK(t, err)
		must.Equal(t, "it was held", was, true)
		must.Equal(t, "jobs of a call that waited", <-got, 1)
		synctest.Wait()
		_, err = first.lists.Carry(t.Context(), 0, store.CarryOptions{})
		must.OK(t, err)
		must.Equal(t, "calls of carriers", under.carries, 1)
		was, err = hold.Resume(t.Context(), s)
		must.OK(t, err)
		must.Equal(t, "it was held again", was, false)
	})
}

// An import holds a store, and only its end releases it.
func TestImport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testenv.Store(t, diskstore.Options{})
		register(t, s, "a")
		d, err := store.PutDocument(t.Context(), s, store.Document{Kind: store.HoldKind, Name: store.HoldImport})
		must.OK(t, err)
		n := start(t, s, false, nil)
		must.Equal(t, "jobs", n.takes(t, time.Minute), 0)
		_, err = hold.Resume(t.Context(), s)
		must.Equal(t, "a resume is refused", errors.Is(err, hold.ErrImport), true)
		must.OK(t, store.DeleteDocument(t.Context(), s, d.Kind, d.Name, d.Version))
		must.Equal(t, "jobs, without a message", n.takes(t, time.Minute), 1)
	})
}

// Before a store was read once, it is held. A call whose context has ended reaches the store: it gives back what it has.
func TestUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testenv.Store(t, diskstore.Options{})
		register(t, s, "a")
		h := hold.New(hold.Options{Store: s, Logger: slog.New(slog.DiscardHandler)})
		over, _ := h.Over(s, nil)
		n := &node{store: over}
		must.Equal(t, "jobs", n.takes(t, time.Minute), 0)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		reached := &reach{Store: s}
		over, _ = h.Over(reached, nil)
		_, _ = over.Take(ended, 0, store.TakeOptions{})
		must.Equal(t, "calls", reached.n, 1)
	})
}

type reach struct {
	store.Store
	n int
}

func (r *reach) Take(context.Context, int, store.TakeOptions) (store.Taken, error) {
	r.n++
	return store.Taken{}, nil
}
