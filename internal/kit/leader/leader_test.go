package leader

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
)

const lasts = 10 * time.Second

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
		node := func(name string) *Leader {
			return New(Options{Store: docs, Task: "digging", Node: name, Clock: job.SystemClock(), Lease: lasts})
		}
		body(t, docs, node("a"), node("b"))
	})
}

func (l *Leader) wants(t *testing.T, want bool) {
	t.Helper()
	if got, err := l.Lead(t.Context()); got != want || err != nil {
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
		a.Resign(t.Context())
		a.wants(t, false)
		b.Resign(t.Context())
		a.wants(t, true)
	})
}

// An unreadable lease may be that of a node of a newer version.
func TestUnreadableLeasesExpire(t *testing.T) {
	inBubble(t, func(t *testing.T, docs *shared, a, b *Leader) {
		if _, err := store.PutDocument(t.Context(), docs, store.Document{Kind: Kind, Name: "digging", Data: []byte("?")}); err != nil {
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
		if mine, err := a.Lead(t.Context()); mine || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%v, error %v", mine, err)
		}
		docs.writing = nil
		a.wants(t, true)
		docs.writing = store.ErrUnavailable
		a.wants(t, true) // the last heartbeat is young
		pass(lasts / youngShare)
		if mine, err := a.Lead(t.Context()); mine || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%v, error %v", mine, err)
		}
		docs.writing, docs.reading = nil, store.ErrUnavailable
		if mine, err := a.Lead(t.Context()); mine || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%v, error %v", mine, err)
		}
		docs.reading = nil
		a.wants(t, true)
		docs.reading = store.ErrUnavailable
		a.wants(t, true) // a heartbeat reads nothing
		a.Resign(t.Context())
		docs.reading = nil
		b.wants(t, false)
	})
}

// A store that lost its data has no lease.
func TestLostLease(t *testing.T) {
	inBubble(t, func(t *testing.T, docs *shared, a, b *Leader) {
		a.wants(t, true)
		pass(lasts / youngShare)
		a.wants(t, true)
		d, err := store.ReadDocument(t.Context(), docs, Kind, "digging")
		if err == nil {
			err = store.DeleteDocument(t.Context(), docs, Kind, "digging", d.Version)
		}
		if err != nil {
			t.Fatal(err)
		}
		b.wants(t, true)
		pass(lasts / youngShare)
		a.wants(t, false)
		pass(lasts)
		a.wants(t, true)
	})
}

func TestHeartbeatsForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHeartbeats(job.SystemClock(), lasts)
		h.Expired(map[string]uint64{"a": 1, "b": 1})
		pass(lasts)
		if got := h.Expired(map[string]uint64{"a": 1}); !got["a"] || got["b"] {
			t.Errorf("expired: %v", got)
		}
		if got := h.Expired(map[string]uint64{"a": 1, "b": 1}); !got["a"] || got["b"] { // it may have been made anew
			t.Errorf("expired: %v", got)
		}
		if got := h.Expired(map[string]uint64{"a": 2}); got["a"] {
			t.Error("a document that was just written has expired")
		}
	})
}
