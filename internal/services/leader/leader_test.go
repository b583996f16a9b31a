package leader

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
)

const (
	lasts = Lease
	dig   = "digging" // a task
)

// shared documents fail while err is set.
type shared struct {
	store.Store
	reading, writing error
}

func (d *shared) ListDocuments(ctx context.Context, q store.DocumentQuery) ([]store.Document, error) {
	if d.reading != nil {
		return nil, d.reading
	}
	return d.Store.ListDocuments(ctx, q)
}

func (d *shared) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	if d.writing != nil {
		return nil, d.writing
	}
	return d.Store.PutDocuments(ctx, docs)
}

// inBubble gives nodes that share documents, in virtual time.
func inBubble(t *testing.T, body func(t *testing.T, docs *shared, a, b *Leader)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		docs := &shared{Store: testenv.Store(t, diskstore.Options{})}
		body(t, docs, node(docs, "a", ""), node(docs, "b", ""))
	})
}

func node(docs *shared, name, rank string) *Leader {
	return New(Options{Store: docs, Node: name, Rank: rank, Clock: job.SystemClock()})
}

func (l *Leader) wants(t *testing.T, want bool) {
	t.Helper()
	if got, err := l.Lead(t.Context(), dig); got != want || err != nil {
		t.Errorf("%s leads: %v, want %v; error %v", l.o.Node, got, want, err)
	}
}

func pass(d time.Duration) { _ = job.Sleep(context.Background(), job.SystemClock(), d) }

func TestOneNodeAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *shared, a, b *Leader) {
		for range 5 { // as long as it is written
			a.wants(t, true)
			b.wants(t, false)
			pass(lasts - 1)
		}
		b.wants(t, false)
		pass(1)
		b.wants(t, true)
		a.wants(t, false) // a stood still
		a.Resign(t.Context(), dig)
		a.wants(t, false)
		b.Resign(t.Context(), dig)
		a.wants(t, true)
	})
}

// An unreadable lease may be that of a node of a newer version.
func TestUnreadableLeasesExpire(t *testing.T) {
	inBubble(t, func(t *testing.T, docs *shared, a, b *Leader) {
		if _, err := store.PutDocument(t.Context(), docs, store.Document{Kind: Kind, Name: name, Data: []byte("?")}); err != nil {
			t.Fatal(err)
		}
		a.wants(t, false)
		pass(lasts)
		a.wants(t, true)
		b.wants(t, false)
	})
}

func TestFailingStore(t *testing.T) {
	inBubble(t, func(t *testing.T, docs *shared, a, b *Leader) {
		docs.writing = store.ErrConflict
		a.wants(t, false)
		docs.writing = store.ErrUnavailable
		if mine, err := a.Lead(t.Context(), dig); mine || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%v, error %v", mine, err)
		}
		docs.writing = nil
		a.wants(t, true)
		docs.writing = store.ErrUnavailable
		a.wants(t, true) // the last heartbeat is young
		pass(young)
		if mine, err := a.Lead(t.Context(), dig); mine || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%v, error %v", mine, err)
		}
		docs.writing, docs.reading = nil, store.ErrUnavailable
		if mine, err := a.Lead(t.Context(), dig); mine || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%v, error %v", mine, err)
		}
		docs.reading = nil
		a.wants(t, true)
		docs.reading = store.ErrUnavailable
		a.wants(t, true) // a heartbeat reads nothing
		a.Resign(t.Context(), dig)
		docs.reading = nil
		b.wants(t, false)
	})
}

// A store that lost its data has no lease.
func TestLostLease(t *testing.T) {
	inBubble(t, func(t *testing.T, docs *shared, a, b *Leader) {
		a.wants(t, true)
		pass(young)
		a.wants(t, true)
		d, err := store.ReadDocument(t.Context(), docs, Kind, name)
		if err == nil {
			err = store.DeleteDocument(t.Context(), docs, Kind, name, d.Version)
		}
		if err != nil {
			t.Fatal(err)
		}
		b.wants(t, true)
		pass(young)
		a.wants(t, false)
		pass(lasts)
		a.wants(t, true)
	})
}

// run runs nodes until stop.
func run(t *testing.T, nodes ...*Leader) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, l := range nodes {
		running.Go(func() { _ = l.Run(ctx) })
	}
	return func() { cancel(); running.Wait() }
}

// The lease is kept for as long as a task has work, and no longer.
func TestTasksShareTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *shared, a, b *Leader) {
		defer run(t, a, b)()
		lead := func(l *Leader, task string, want bool) {
			t.Helper()
			if got, err := l.Lead(t.Context(), task); got != want || err != nil {
				t.Errorf("%s leads for %s: %v, error %v", l.o.Node, task, got, err)
			}
		}
		lead(a, dig, true)
		lead(b, "planting", false)
		for range 5 { // a does not ask, but has work
			pass(2 * lasts)
			lead(b, "planting", false)
			lead(a, dig, true)
		}
		lead(a, "planting", true)
		a.Resign(t.Context(), dig)
		lead(b, "planting", false)
		a.Resign(t.Context(), dig)
		a.Resign(t.Context(), "planting")
		lead(b, "planting", true)
	})
}

// A task that hangs does not stop the others: they go on until another node leads.
func TestATaskThatHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *shared, a, b *Leader) {
		defer run(t, a, b)()
		blocked, ctx := make(chan struct{}), t.Context()
		var hangs sync.WaitGroup
		defer hangs.Wait()
		defer close(blocked)
		hangs.Go(func() {
			if leads, err := a.Lead(ctx, dig); !leads || err != nil {
				t.Errorf("leads: %v, error %v", leads, err)
			}
			<-blocked
		})
		synctest.Wait()
		done := map[*Leader]int{} // rounds of another task
		var first time.Duration   // when b began to lead
		for begun := time.Now(); time.Since(begun) < 2*stuckAfter; pass(time.Second) {
			for _, l := range []*Leader{a, b} {
				leads, err := l.Lead(ctx, "planting")
				if err != nil {
					t.Fatal(err)
				}
				if leads {
					done[l]++
				}
				if leads && l == b && first == 0 {
					first = time.Since(begun)
				}
			}
		}
		if n := done[a] + done[b]; n < 118 || done[a] < 55 {
			t.Errorf("rounds of the other task: %d at a, %d at b", done[a], done[b])
		}
		if first < stuckAfter || first > stuckAfter+2*beatEvery {
			t.Errorf("b leads after %v", first)
		}
	})
}

// A node of a greater rank takes the lease from one of a smaller rank, and never the other way round.
func TestRanks(t *testing.T) {
	inBubble(t, func(t *testing.T, docs *shared, _, _ *Leader) {
		idle, old, fresh := node(docs, "idle", ""), node(docs, "old", "2025c"), node(docs, "fresh", "2026b")
		idle.wants(t, true)
		old.wants(t, true)
		pass(young)
		idle.wants(t, false)
		fresh.wants(t, true)
		pass(young)
		old.wants(t, false)
		for range 3 {
			pass(young)
			fresh.wants(t, true)
			old.wants(t, false)
		}
		pass(lasts - 1)
		old.wants(t, false)
		pass(1)
		old.wants(t, true) // fresh is gone
	})
}

func TestAlone(t *testing.T) {
	var l *Leader
	if leads, err := l.Lead(t.Context(), dig); !leads || err != nil {
		t.Errorf("leads: %v, error %v", leads, err)
	}
	l.Resign(t.Context(), dig)
	run(t, l)()
}
