package events

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is two nodes on one store, in a bubble.
type rig struct {
	*testing.T
	mem  diskstore.Embedded
	hubs []*Hub
}

func inBubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, mem: testenv.Store(t, diskstore.Options{Retention: time.Hour})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		for range cap(done) {
			h := New(Options{Bus: r.mem})
			r.hubs = append(r.hubs, h)
			go func() { done <- h.Run(ctx) }()
		}
		synctest.Wait() // until they listen
		test(r)
		cancel()
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

func (r *rig) watch(hub int, after string) *Watcher {
	r.Helper()
	w, err := r.hubs[hub].Watch(r.Context(), after)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(w.Close)
	synctest.Wait() // until all nodes have heard of it
	return w
}

// pass lets virtual time pass.
func (r *rig) pass(d time.Duration) {
	r.Helper()
	if err := job.Sleep(r.Context(), job.SystemClock(), d); err != nil {
		r.Fatal(err)
	}
}

// next waits for n events.
func (r *rig) next(w *Watcher, n int) []Event {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	var all []Event
	for len(all) < n {
		events, err := w.Next(ctx)
		if err != nil {
			r.Fatalf("%v after %+v", err, all)
		}
		all = append(all, events...)
	}
	if len(all) > n {
		r.Errorf("%d events, want %d", len(all), n)
	}
	return all
}

func (r *rig) expectNothing(w *Watcher) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	if events, err := w.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		r.Errorf("events %+v, error %v", events, err)
	}
}

func types(events []Event) []Type {
	list := make([]Type, len(events))
	for i := range events {
		list[i] = events[i].Type
	}
	return list
}

func (r *rig) equal(what string, got, want any, options ...cmp.Option) {
	r.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		r.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func registration(id string) store.Registration {
	return store.Registration{Key: job.Key{Topic: "t", ID: id}, UID: "uid-" + id, Spec: job.Spec{
		Destination: "https://shop.example/hook", BizKey: "biz-" + id, Labels: []job.Label{{Key: "shop", Value: "7"}},
		Group: &job.Membership{Group: "all"}, Occurrence: &job.Occurrence{Schedule: "nightly"}, Priority: 2, Dialect: &job.Dialect{Name: "qstash"},
	}}
}

// factsOf are those of a registration.
func factsOf(id string, created job.Instant) Facts {
	return Facts{BizKey: "biz-" + id, Group: "all", Dialect: "qstash", Labels: []job.Label{{Key: "shop", Value: "7"}}, Priority: 2, CreatedAt: created}
}

// Each change that a node makes in the store is an event on all nodes.
func TestChangesAreEvents(t *testing.T) {
	inBubble(t, func(r *rig) {
		w := r.watch(1, "")
		s := feed.Observe(r.mem, r.hubs[0].Subscriber())
		now := job.InstantOf(time.Now())
		for _, id := range []string{"a", "b"} {
			if _, err := s.Register(r.Context(), []store.Registration{registration(id)}); err != nil {
				r.Fatal(err)
			}
		}
		if _, err := s.Register(r.Context(), []store.Registration{registration("a")}); err != nil { // the same again
			r.Fatal(err)
		}
		update := func(id string, change func(j *job.Job, now job.Instant) error) {
			r.Helper()
			if _, err := s.Update(r.Context(), job.Key{Topic: "t", ID: id}, change); err != nil {
				r.Fatal(err)
			}
		}
		update("b", func(j *job.Job, now job.Instant) error { return j.Reschedule(job.When{Delay: time.Hour}, now) })
		update("b", func(j *job.Job, now job.Instant) error {
			_, err := j.Cancel(now)
			return err
		})
		update("b", func(j *job.Job, now job.Instant) error { return j.Replay(now) })
		refused := errors.New("refused")
		_, err := s.Update(r.Context(), job.Key{Topic: "t", ID: "b"}, func(*job.Job, job.Instant) error { return refused })
		if !errors.Is(err, refused) {
			r.Error(err)
		}
		const endpoint = "https://shop.example:443"
		err = errors.Join(s.SetCircuit(r.Context(), endpoint, store.CircuitOpen, time.Minute), s.SetCircuit(r.Context(), endpoint, store.CircuitHalfOpen, 0), s.SetCircuit(r.Context(), endpoint, store.CircuitClosed, 0))
		if err != nil {
			r.Error(err)
		}
		one := func(typ Type, id string) Event {
			return Event{Type: typ, At: now, Topic: "t", JobID: id, UID: "uid-" + id, Endpoint: endpoint, Schedule: "nightly", Facts: factsOf(id, now)}
		}
		due := func(e Event, at job.Instant) Event { e.NextAt = at; return e }
		cancelled := one(Cancelled, "b")
		cancelled.Reason = job.ReasonCancelled
		want := []Event{
			due(one(Registered, "a"), now), due(one(Registered, "b"), now),
			due(one(Changed, "b"), now.Add(time.Hour)), cancelled, due(one(Replayed, "b"), now),
			{Type: CircuitOpened, At: now, Endpoint: endpoint, NextAt: now.Add(time.Minute)},
			{Type: CircuitClosed, At: now, Endpoint: endpoint},
			{Type: CircuitClosed, At: now, Endpoint: endpoint},
		}
		r.equal("events", r.next(w, len(want)), want, cmpopts.IgnoreFields(Event{}, "ID"))
		r.expectNothing(w)
	})
}

func TestSettlements(t *testing.T) {
	attempt := &job.Attempt{Number: 2, Status: 503, Error: "http_503"}
	s := job.Settlement{Key: job.Key{Topic: "t", ID: "1"}, Lane: job.Lane{Topic: "t", Endpoint: "e"}, Attempts: 2, Attempt: attempt}
	claimed := registration("1").Job(3)
	s.Claimed = &claimed
	for to, want := range map[job.State]Type{
		job.Delivered: Delivered, job.Dead: Dead, job.Expired: Expired, job.Cancelled: Cancelled, job.Retrying: Failed,
	} {
		e, ok := settlement(&s, &store.Settled{To: to, Reason: "why", NextAt: 9, Now: 5, UID: "u"})
		wantEvent := Event{Type: want, At: 5, Topic: "t", JobID: "1", UID: "u", Endpoint: "e", Attempts: 2, Status: 503, Error: "http_503", Reason: "why"}
		wantEvent.Schedule, wantEvent.Facts = "nightly", factsOf("1", 3)
		if !to.Final() {
			wantEvent.NextAt = 9
		}
		if diff := cmp.Diff(wantEvent, e); diff != "" || !ok {
			t.Errorf("%v: %v, %s", to, ok, diff)
		}
	}
	s.Reason = job.ReasonSnoozed
	if e, ok := settlement(&s, &store.Settled{To: job.Waiting}); !ok || e.Type != Snoozed {
		t.Errorf("snoozed: %v %v", e.Type, ok)
	}
	s.Attempt, s.Reason = nil, job.ReasonShutdown
	if e, ok := settlement(&s, &store.Settled{To: job.Waiting}); ok {
		t.Errorf("given back without an attempt: %v", e)
	}
}

func TestObservedSettlements(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := feed.Observe(settling{r.mem}, r.hubs[0].Subscriber())
		w := r.watch(0, "")
		if _, err := s.Settle(r.Context(), make([]job.Settlement, 4)); err != nil {
			r.Fatal(err)
		}
		r.equal("events", types(r.next(w, 1)), []Type{Delivered})
	})
}

// settling answers settlements in each way that there is.
type settling struct{ store.Store }

func (settling) Settle(context.Context, []job.Settlement) ([]store.Settled, error) {
	return []store.Settled{
		{Status: store.Stale},
		{Status: store.Applied, To: job.Delivered},
		{Status: store.Missing},
		{Status: store.Applied, Repeated: true, To: job.Delivered},
	}, nil
}

// Without watchers nothing is said, and a while after the last has gone nothing
// is any more.
func TestUnwatched(t *testing.T) {
	inBubble(t, func(r *rig) {
		var count atomic.Int64 // messages
		ctx, cancel := context.WithCancel(r.Context())
		done := make(chan error, 1)
		go func() {
			done <- r.mem.Listen(ctx, eventsChannel, func(m []byte) {
				if m != nil {
					count.Add(1)
				}
			})
		}()
		emit := func() {
			r.hubs[0].Emit(Event{Type: Delivered})
			r.pass(time.Second)
		}
		emit()
		r.equal("messages before", count.Load(), int64(0))
		w, err := r.hubs[1].Watch(r.Context(), "")
		if err != nil {
			r.Fatal(err)
		}
		synctest.Wait()
		emit()
		r.equal("messages while somebody watches", count.Load(), int64(1))
		w.Close()
		r.pass(lingering + watchedFor + watchEvery)
		emit()
		r.equal("messages after", count.Load(), int64(1))
		r.equal("watched", r.hubs[0].Watched(), false)
		cancel()
		if err := <-done; err != nil {
			r.Error(err)
		}
	})
}

// A watcher that comes back sees what it missed, and is told when that is no
// longer known.
func TestResuming(t *testing.T) {
	inBubble(t, func(r *rig) {
		first := r.watch(0, "")
		for i := range 3 {
			r.hubs[1].Emit(Event{Type: Dead, JobID: fmt.Sprint(i)})
		}
		seen := r.next(first, 3)
		first.Close()
		r.equal("events since the first", r.next(r.watch(0, seen[0].ID), 2), seen[1:])
		again := r.watch(0, seen[2].ID)
		r.expectNothing(again)
		r.equal("after an unknown event", types(r.next(r.watch(0, "unknown-1"), 1)), []Type{Gap})
	})
}

// There is a bound on what is told and kept; what is left out is a gap. Routine
// is left out first.
func TestTooMuch(t *testing.T) {
	inBubble(t, func(r *rig) {
		w := r.watch(0, "")
		for range maxPending {
			r.hubs[0].Emit(Event{Type: Delivered})
		}
		r.hubs[0].Emit(Event{Type: Dead})
		got := types(r.next(w, routineShare+2))
		r.equal("the last events", got[routineShare-1:], []Type{Delivered, Dead, Gap})

		for range 3*remembered/routineShare + 1 {
			for range routineShare {
				r.hubs[0].Emit(Event{Type: Failed})
			}
			r.pass(time.Second)
		}
		events, err := w.Next(r.Context())
		if err != nil {
			r.Fatal(err)
		}
		r.equal("what a slow watcher sees first", events[0].Type, Gap)
		if n := len(events); n > 2*remembered+1 {
			r.Errorf("%d events are kept", n)
		}
	})
}

// failing is a bus that is down for a while.
type failing struct {
	store.Messaging
	down chan struct{} // closed when it is back
}

func (f *failing) Listen(ctx context.Context, channel string, receive func(m []byte)) error {
	select {
	case <-f.down:
		return f.Messaging.Listen(ctx, channel, receive)
	default:
		return store.ErrUnavailable
	}
}

// While the bus is down a watcher waits, but no longer than its context.
func TestBusDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testenv.Store(t, diskstore.Options{})
		bus := &failing{Messaging: mem, down: make(chan struct{})}
		h := New(Options{Bus: bus})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		short, end := context.WithTimeout(ctx, 5*time.Second)
		defer end()
		if _, err := h.Watch(short, ""); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("error %v", err)
		}
		close(bus.down)
		w, err := h.Watch(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		// Messages that may have been lost are a gap.
		h.receive(nil)
		events, err := w.Next(ctx)
		if err != nil || len(events) != 1 || events[0].Type != Gap {
			t.Errorf("%+v, %v", events, err)
		}
		h.receive([]byte("no JSON"))
		w.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A watcher that was slow gets what it missed in parts: hundreds of them must not hold all of it each.
func TestSlowWatchersGetEventsInParts(t *testing.T) {
	h := New(Options{})
	w := &Watcher{hub: h}
	for i := range remembered {
		h.in.add(Event{Type: Registered, ID: fmt.Sprint(i)})
	}
	got := 0
	for got < remembered {
		events, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(events) > atOnce {
			t.Fatalf("%d events at once", len(events))
		}
		for _, e := range events {
			if e.ID != fmt.Sprint(got) {
				t.Fatalf("event %s came as the %dth", e.ID, got)
			}
			got++
		}
	}
}
