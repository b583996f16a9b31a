package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/memstore"
)

const lasts = 10 * time.Second

// documents fail while err is set.
type documents struct {
	*memstore.Store
	reading, writing error
}

func (d *documents) Document(ctx context.Context, kind, name string) (store.Document, error) {
	if d.reading != nil {
		return store.Document{}, d.reading
	}
	return d.Store.Document(ctx, kind, name)
}

func (d *documents) PutDocument(ctx context.Context, doc store.Document) (store.Document, error) {
	if d.writing != nil {
		return store.Document{}, d.writing
	}
	return d.Store.PutDocument(ctx, doc)
}

// inBubble gives nodes that share documents, in virtual time.
func inBubble(t *testing.T, body func(t *testing.T, docs *documents, a, b *Lease)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		docs := &documents{Store: memstore.New(memstore.Options{})}
		defer func() {
			if err := docs.Close(); err != nil {
				t.Error(err)
			}
		}()
		lease := func(node string) *Lease { return New(docs, "lease", "digging", node, job.SystemClock(), lasts) }
		body(t, docs, lease("a"), lease("b"))
	})
}

func (l *Lease) wants(t *testing.T, want bool) {
	t.Helper()
	if got, err := l.Hold(t.Context()); got != want || err != nil {
		t.Errorf("%s has the lease: %v, want %v; error %v", l.node, got, want, err)
	}
}

func pass(d time.Duration) { _ = job.Sleep(context.Background(), job.SystemClock(), d) }

func TestOneNodeAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *documents, a, b *Lease) {
		for range 5 { // as long as it is written
			a.wants(t, true)
			b.wants(t, false)
			pass(lasts - 1)
		}
		b.wants(t, false)
		pass(1)
		b.wants(t, true)
		a.wants(t, false) // a stood still
		a.Leave(t.Context())
		a.wants(t, false)
		b.Leave(t.Context())
		a.wants(t, true)
	})
}

// One that cannot be read may be that of a node of a newer version.
func TestUnreadableLeaseLapsesAsOthersDo(t *testing.T) {
	inBubble(t, func(t *testing.T, docs *documents, a, b *Lease) {
		if _, err := docs.PutDocument(t.Context(), store.Document{Kind: "lease", Name: "digging", Data: []byte("?")}); err != nil {
			t.Fatal(err)
		}
		a.wants(t, false)
		pass(lasts)
		a.wants(t, true)
		b.wants(t, false)
	})
}

func TestFailingStore(t *testing.T) {
	inBubble(t, func(t *testing.T, docs *documents, a, b *Lease) {
		docs.writing = store.ErrConflict
		a.wants(t, false)
		docs.writing = store.ErrUnavailable
		if mine, err := a.Hold(t.Context()); mine || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%v, error %v", mine, err)
		}
		docs.writing = nil
		a.wants(t, true)
		docs.reading = store.ErrUnavailable
		if mine, err := a.Hold(t.Context()); mine || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%v, error %v", mine, err)
		}
		a.Leave(t.Context())
		docs.reading = nil
		b.wants(t, false)
	})
}

func TestWatchForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWatch(job.SystemClock(), lasts)
		one, other := store.Document{Name: "a", Version: 1}, store.Document{Name: "b", Version: 1}
		w.Lapsed(one, other)
		pass(lasts)
		if got := w.Lapsed(one); !got["a"] || got["b"] {
			t.Errorf("lapsed: %v", got)
		}
		if got := w.Lapsed(one, other); !got["a"] || got["b"] { // it may have been made anew
			t.Errorf("lapsed: %v", got)
		}
		one.Version++
		if got := w.Lapsed(one); got["a"] {
			t.Error("one that was just written has lapsed")
		}
	})
}
