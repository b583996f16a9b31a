package recent

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	shop = "https://shop.example:443"
	ms   = time.Millisecond
)

// at is so long after a full minute.
func at(d time.Duration) job.Instant { return job.Instant(1_800_000_000_000).Add(d) }

func outcome(kind job.OutcomeKind, started job.Instant, class string) job.Outcome {
	return job.Outcome{Kind: kind, After: time.Minute, Attempt: &job.Attempt{StartedAt: started, Error: class}}
}

// settled passes an attempt at an endpoint to the recorder, as the feed does.
func settled(r *Recorder, endpoint string, due job.Instant, o job.Outcome) {
	s := job.Settle(&job.Job{NextAt: due}, o, func(int) (time.Duration, bool) { return time.Minute, true })
	s.Lane.Endpoint = endpoint
	r.Subscriber().Settled(func(yield func(*job.Settlement, *store.Settled) bool) { yield(&s, &store.Settled{}) })
}

// attempt counts one that began late.
func attempt(r *Recorder, kind job.OutcomeKind, started job.Instant, late time.Duration) {
	settled(r, shop, started.Add(-late), outcome(kind, started, "http_500"))
}

func activity(t *testing.T, r *Recorder, now job.Instant) Activity {
	t.Helper()
	a, err := r.Activity(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestActivity(t *testing.T) {
	r := New(Options{})
	now := at(90 * time.Minute)
	empty := activity(t, r, now)
	if rate, known := empty.SuccessRate(); known {
		t.Errorf("success rate %v of nothing", rate)
	}
	if late, known := empty.LateBy(0.99); known {
		t.Errorf("nothing is late by %d", late)
	}
	attempt(r, job.OutcomeDelivered, at(30*time.Minute), 0) // more than an hour ago
	attempt(r, job.OutcomeDelivered, at(31*time.Minute), 5*time.Millisecond)
	attempt(r, job.OutcomeDelivered, at(90*time.Minute), 6*time.Millisecond)
	attempt(r, job.OutcomeFailed, at(90*time.Minute), time.Hour)
	attempt(r, job.OutcomeRefused, at(89*time.Minute), -time.Second)
	attempt(r, job.OutcomeSnoozed, at(89*time.Minute), time.Second)
	attempt(r, job.OutcomeDelivered, at(29*time.Minute), 0) // its place is taken

	a := activity(t, r, now)
	want := newActivity(now)
	want.Delivered[0], want.Delivered[59] = 1, 1
	want.Failed[58], want.Failed[59] = 1, 1
	want.Late[0][0], want.Late[58][0], want.Late[58][7], want.Late[59][1], want.Late[59][15] = 1, 1, 1, 1, 1
	if diff := cmp.Diff(want, a); diff != "" || a.From != at(31*time.Minute) {
		t.Errorf("activity since %d (-want +got):\n%s", a.From, diff)
	}
	if rate, _ := a.SuccessRate(); rate != 0.5 {
		t.Errorf("success rate %v", rate)
	}
	for share, want := range map[float64]int64{0.2: 5, 0.4: 5, 0.5: 10, 0.8: 1_000, 0.99: 1_800_000} {
		if late, _ := a.LateBy(share); late != want {
			t.Errorf("%v are late by %d, want %d", share, late, want)
		}
	}
	if diff := cmp.Diff(newActivity(at(5*time.Hour)), activity(t, r, at(5*time.Hour))); diff != "" {
		t.Error(diff)
	}
}

func TestHealth(t *testing.T) {
	r := New(Options{})
	for i, kind := range []job.OutcomeKind{job.OutcomeFailed, job.OutcomeDelivered, job.OutcomeFailed, job.OutcomeRefused} {
		attempt(r, kind, at(time.Duration(i)*ms), 0)
	}
	health := func() Health {
		t.Helper()
		all, err := r.Health(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all[shop]
	}
	if diff := cmp.Diff(Health{Failures: 2, LastError: "http_500", LastFailureAt: at(3 * ms), LastSuccessAt: at(1 * ms)}, health()); diff != "" {
		t.Error(diff)
	}
	attempt(r, job.OutcomeSnoozed, at(9*ms), 0)
	settled(r, shop, 0, outcome(job.OutcomeFailed, at(0), "tls_error")) // slower than those that began later
	if diff := cmp.Diff(Health{Failures: 1, LastError: "http_500", LastFailureAt: at(3 * ms), LastSuccessAt: at(9 * ms)}, health()); diff != "" {
		t.Error(diff)
	}
}

// Endpoints that work are forgotten before those that fail.
func TestManyEndpoints(t *testing.T) {
	r := New(Options{})
	for i := range 20 * maxEndpoints {
		kind := job.OutcomeDelivered
		if i < maxEndpoints/5 {
			kind = job.OutcomeFailed
		}
		settled(r, fmt.Sprint("https://", i), 0, outcome(kind, at(time.Duration(i)*ms), ""))
	}
	all, err := r.Health(t.Context())
	if err != nil || len(all) != maxEndpoints {
		t.Errorf("%d endpoints, %v", len(all), err)
	}
	failing := 0
	for _, h := range all {
		if h.Failures > 0 {
			failing++
		}
	}
	if failing < maxEndpoints/10 {
		t.Errorf("of %d failing endpoints %d are left", maxEndpoints/5, failing)
	}
}

// counting counts writes.
type counting struct {
	store.Documents
	writes atomic.Int64
	down   atomic.Bool
}

func (c *counting) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	c.writes.Add(1)
	if c.down.Load() {
		return nil, store.ErrUnavailable
	}
	return c.Documents.PutDocuments(ctx, docs)
}

// inBubble runs recorders that share documents.
func inBubble(t *testing.T, test func(t *testing.T, docs *counting, start func() (*Recorder, func()))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mem := testenv.Store(t, diskstore.Options{})
		docs := &counting{Documents: mem}
		test(t, docs, func() (*Recorder, func()) {
			r := New(Options{Documents: docs})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			return r, func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		})
	})
}

func pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := job.Sleep(t.Context(), job.SystemClock(), d); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func TestNodesShareTheirFigures(t *testing.T) {
	inBubble(t, func(t *testing.T, docs *counting, start func() (*Recorder, func())) {
		a, stopA := start()
		b, stopB := start()
		defer stopB()
		attempt(a, job.OutcomeDelivered, at(0), 0)
		attempt(b, job.OutcomeDelivered, at(1*ms), 0)
		attempt(b, job.OutcomeFailed, at(2*ms), 0)
		pass(t, publishEvery)
		for _, r := range []*Recorder{a, b} {
			if got := activity(t, r, at(time.Minute)); got.Delivered[58] != 2 || got.Failed[58] != 1 {
				t.Errorf("%d delivered, %d failed", got.Delivered[58], got.Failed[58])
			}
			all, err := r.Health(t.Context())
			want := map[string]Health{shop: {Failures: 1, LastError: "http_500", LastFailureAt: at(2 * ms), LastSuccessAt: at(1 * ms)}}
			if diff := cmp.Diff(want, all); diff != "" || err != nil {
				t.Errorf("%v %s", err, diff)
			}
		}
		// Without attempts nothing is written.
		pass(t, chartEvery*publishEvery) // the series of those above
		before := docs.writes.Load()
		pass(t, time.Hour)
		if now := docs.writes.Load(); now != before {
			t.Errorf("%d writes without an attempt", now-before)
		}
		// What was counted last is written on the way out.
		attempt(a, job.OutcomeDelivered, at(3*ms), 0)
		stopA()
		if got := activity(t, b, at(time.Minute)).Delivered[58]; got != 3 {
			t.Errorf("%d delivered, one by a node that has stopped", got)
		}
	})
}

func TestDeadNodesAreTidiedUp(t *testing.T) {
	inBubble(t, func(t *testing.T, docs *counting, start func() (*Recorder, func())) {
		a, stopA := start()
		attempt(a, job.OutcomeDelivered, at(0), 0)
		stopA()
		if _, err := store.PutDocument(t.Context(), docs, store.Document{Kind: hourKind, Name: "other", Data: []byte("?")}); err != nil {
			t.Fatal(err)
		}
		b, stopB := start()
		defer stopB()
		names := func() int {
			list, err := docs.ListDocuments(t.Context(), store.DocumentQuery{Kind: hourKind})
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		attempt(b, job.OutcomeDelivered, at(time.Minute), 0)
		pass(t, chartEvery*publishEvery)
		if n := names(); n != 2 {
			t.Errorf("%d documents, want those of the node that lives and of the one that ended: the third cannot be read", n)
		}
		for i := range tidyEvery {
			attempt(b, job.OutcomeDelivered, at(2*hourKept+time.Duration(i)*ms), 0)
			pass(t, chartEvery*publishEvery)
		}
		if n := names(); n != 1 {
			t.Errorf("%d documents are left, want that of the node that lives", n)
		}
	})
}

// A store that fails for a while, and one that loses a document.
func TestPublishingFails(t *testing.T) {
	inBubble(t, func(t *testing.T, docs *counting, start func() (*Recorder, func())) {
		a, stopA := start()
		defer stopA()
		b := New(Options{Documents: docs})
		docs.down.Store(true)
		attempt(a, job.OutcomeDelivered, at(0), 0)
		pass(t, publishEvery)
		if got := activity(t, b, at(0)).Delivered[59]; got != 0 {
			t.Errorf("%d delivered: they were written?", got)
		}
		docs.down.Store(false)
		pass(t, publishEvery)
		list, err := docs.ListDocuments(t.Context(), store.DocumentQuery{Kind: hourKind})
		if err != nil || len(list) != 1 {
			t.Fatalf("%d documents, %v", len(list), err)
		}
		if err := store.DeleteDocument(t.Context(), docs, hourKind, list[0].Name, list[0].Version); err != nil {
			t.Fatal(err)
		}
		attempt(a, job.OutcomeDelivered, at(0), 0)
		pass(t, publishEvery)
		if got := activity(t, b, at(0)).Delivered[59]; got != 2 {
			t.Errorf("%d delivered, want 2", got)
		}
	})
}
