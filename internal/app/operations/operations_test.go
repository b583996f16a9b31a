package operations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/leader"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
)

// counts are the figures of an operation.
func counts(o Operation) string {
	return fmt.Sprintf("%s: matched %d, changed %d, skipped %d, failed %d", o.State, o.Matched, o.Changed, o.Skipped, o.Failed)
}

func TestReplayAtARate(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		n := r.node("a")
		defer n.end()
		keys := r.dead("t", 1000)
		r.dead("other", 10)
		began := time.Now()
		o := n.create(Draft{Action: "replay", Filter: store.Query{Topic: "t"}, Rate: ptr(200)})
		if o.Estimate == nil || *o.Estimate != 1000 {
			t.Errorf("estimate %v", o.Estimate)
		}
		byReason := Operation{Filter: store.Query{Reason: job.ReasonGone, States: []job.State{job.Dead}}}
		if n, err := n.estimate(t.Context(), &byReason); err != nil || n == nil || *n < 10 {
			t.Errorf("estimate %v, %v", n, err)
		}
		o = n.await(o.ID)
		if got := counts(o); got != "done: matched 1000, changed 1000, skipped 0, failed 0" {
			t.Error(got)
		}
		r.once(keys)
		if diff := cmp.Diff(map[job.State]int64{job.Waiting: 1000}, r.states("t")); diff != "" {
			t.Error(diff)
		}
		// In no second more than the rate and what timers may be late for, and
		// never ahead of the rate since the beginning.
		for i, at := range r.at {
			if since := at.Sub(began); float64(i) > since.Seconds()*200+1 {
				t.Fatalf("%d jobs were changed within %v", i+1, since)
			}
		}
		if took := r.at[len(r.at)-1].Sub(began); took > 5100*time.Millisecond {
			t.Errorf("1000 jobs at 200/s took %v", took)
		}
		if o.EndedAt == 0 || o.EndedAt < o.StartedAt || o.UpdatedAt < o.StartedAt {
			t.Errorf("started %d, updated %d, ended %d", o.StartedAt, o.UpdatedAt, o.EndedAt)
		}
	})
}

// Jobs that die again while an operation replays are not replayed again.
func TestReplayDoesNotLoop(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		n := r.node("a")
		defer n.end()
		keys := r.dead("t", 300)
		o := n.create(Draft{Action: "replay", Filter: store.Query{Topic: "t"}, Rate: ptr(50)})
		died := 0
		for {
			got, err := n.Get(t.Context(), o.ID)
			if err != nil {
				t.Fatal(err)
			}
			if got.State != Running {
				break
			}
			died += r.end(job.OutcomeRefused)
			pass(200 * time.Millisecond)
		}
		if died < 250 {
			t.Errorf("only %d died again during the operation", died)
		}
		r.once(keys)
	})
}

// Nor are jobs run again that failed since, or rescheduled that were already.
func TestRunAndRescheduleDoNotLoop(t *testing.T) {
	for _, d := range []Draft{
		{Action: "run", Filter: store.Query{Topic: "t"}, Rate: ptr(50)},
		{Action: "reschedule", Filter: store.Query{Topic: "t"}, Rate: ptr(50), Delay: ptr(2 * time.Hour)},
		{Action: "reschedule", Filter: store.Query{Topic: "t"}, Rate: ptr(50), Delay: ptr(2 * time.Second)},
		{Action: "reschedule", Filter: store.Query{Topic: "t"}, Rate: ptr(50), At: 1},
	} {
		inBubble(t, func(t *testing.T, r *rig) {
			n := r.node("a")
			defer n.end()
			keys := r.register("t", 300, later)
			pass(time.Second)
			o := n.create(d)
			for {
				got, err := n.Get(t.Context(), o.ID)
				if err != nil {
					t.Fatal(err)
				}
				if got.State != Running {
					if counts(got) != "done: matched 300, changed 300, skipped 0, failed 0" {
						t.Error(counts(got))
					}
					break
				}
				r.end(job.OutcomeFailed)
				pass(200 * time.Millisecond)
			}
			r.once(keys)
		})
	}
}

// A cancel of a job in flight is noted once.
func TestCancelInFlight(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		n := r.node("a")
		defer n.end()
		r.register("t", 1)
		if _, err := r.Take(t.Context(), 0, store.TakeOptions{Max: 10, Lease: time.Hour, Limits: store.FlightLimits{HalfOpenLimit: 1}}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"done: matched 1, changed 1, skipped 0, failed 0", "done: matched 0, changed 0, skipped 0, failed 0"} {
			if got := counts(n.await(n.create(Draft{Action: "cancel", All: true}).ID)); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	})
}

// Jobs that are sent while they are walked stand behind the cursor for a while.
// None is left behind: after the operation, none is sent again.
func TestPlainCancelWhileJobsAreSent(t *testing.T) {
	const places = 128
	for name, f := range map[string]store.Query{
		"topic":   {Topic: "t"},
		"waiting": {Topic: "t", States: []job.State{job.Waiting}},
		"due":     {Topic: "t", DueTo: job.InstantOf(time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC))},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(_ *testing.T, r *rig) {
				n := r.node("a")
				defer n.end()
				keys := r.register("t", 2000)
				later := r.register("u", 100, func(reg *store.Registration) { reg.Spec.When.Delay = 4 * time.Second })
				ctx, stop := context.WithCancel(r.Context())
				sent := r.deliver(ctx, places, 3*time.Second, 2*time.Second)
				pass(time.Second)
				o := n.create(Draft{Action: "cancel", Filter: f, Rate: ptr(500)})
				o = n.await(o.ID)
				want := map[bool]int64{false: 2000, true: 2000 - places}[name == "waiting"]
				if o.Failed != 0 || o.Changed != want {
					r.Errorf("%s, want %d", counts(o), want)
				}
				ended := o.EndedAt
				pass(20 * time.Second)
				stop()
				pass(20 * time.Second) // workers end
				for key, at := range sent() {
					// What was running when the operation began did not wait.
					meant := key.Topic == "t" && (name != "waiting" || at[0] > o.StartedAt)
					if last := at[len(at)-1]; meant && last > ended {
						r.Fatalf("%s was sent %v after the operation had ended", key, last.Sub(ended))
					}
				}
				for _, key := range later {
					if len(sent()[key]) == 0 {
						r.Fatalf("%s, which was not meant, was not sent", key)
					}
				}
				if diff := cmp.Diff(map[job.State]int64{job.Cancelled: int64(len(keys))}, r.states("t")); diff != "" && name != "waiting" {
					r.Error(diff)
				}
			})
		})
	}
}

// Nor does a reschedule leave a job behind, unless it is in flight when the
// operation begins or ends.
func TestRescheduleWhileJobsAreSent(t *testing.T) {
	inBubble(t, func(_ *testing.T, r *rig) {
		n := r.node("a")
		defer n.end()
		keys := r.register("t", 2000)
		ctx, stop := context.WithCancel(r.Context())
		r.deliver(ctx, 128, 3*time.Second, 2*time.Second)
		pass(time.Second)
		o := n.create(Draft{Action: "reschedule", Filter: store.Query{Topic: "t"}, Delay: ptr(time.Hour)})
		o = n.await(o.ID)
		left := 0
		for _, key := range keys {
			j, err := r.Get(r.Context(), key)
			switch {
			case err != nil:
				r.Error(err)
			case j.NextAt == o.To:
			case j.State == job.Running || j.LastAttempt.StartedAt < o.StartedAt: // now, or when it began
				left++
			default:
				r.Errorf("%s is %v, due at %d, want %d", key, j.State, j.NextAt, o.To)
			}
		}
		stop()
		pass(20 * time.Second)
		if o.Failed > 0 || left > 2*128 {
			r.Errorf("%s, %d left", counts(o), left)
		}
	})
}

func TestStopAndResume(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := r.node("a"), r.node("b")
		defer a.end()
		defer b.end()
		keys := r.dead("t", 600)
		r.latency = 95 * time.Millisecond // changes are in progress when the stop is noticed
		o := a.create(Draft{Action: "replay", Filter: store.Query{Topic: "t"}, Rate: ptr(100)})
		pass(3200 * time.Millisecond) // within a page
		at, err := a.Get(t.Context(), o.ID)
		if err != nil {
			t.Fatal(err)
		}
		other := map[string]*node{"a": b, "b": a}[at.Owner]
		if _, err := other.Stop(t.Context(), o.ID); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second)
		stopped, err := b.Get(t.Context(), o.ID)
		if err != nil || stopped.State != Stopped || stopped.EndedAt != 0 {
			t.Fatalf("%+v, %v", stopped, err)
		}
		if stopped.Changed != int64(r.changed()) || stopped.Changed < 250 || stopped.Changed > 450 {
			t.Errorf("stopped at %d jobs; %d were changed", stopped.Changed, r.changed())
		}
		pass(time.Minute)
		if n := r.changed(); int64(n) != stopped.Changed {
			t.Errorf("%d jobs were changed after the stop", int64(n)-stopped.Changed)
		}
		if again, err := a.Stop(t.Context(), o.ID); err != nil || again.State != Stopped {
			t.Errorf("stopping twice: %v, %v", again.State, err)
		}
		if _, err := b.Resume(t.Context(), o.ID); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if _, err := b.Stop(t.Context(), o.ID); err != nil { // which works on it now
			t.Fatal(err)
		}
		if _, err := a.Resume(t.Context(), o.ID); err != nil {
			t.Fatal(err)
		}
		done := a.await(o.ID)
		if done.State != Done || done.Matched != done.Changed {
			t.Error(counts(done))
		}
		r.once(keys)
		for name, call := range map[string]func() error{
			"Stop":   func() error { _, err := a.Stop(t.Context(), o.ID); return err },
			"Resume": func() error { _, err := a.Resume(t.Context(), o.ID); return err },
		} {
			if err := call(); !errors.Is(err, ErrEnded) {
				t.Errorf("%s of what is done: %v", name, err)
			}
		}
	})
}

// A node that dies is followed by another, and each job is changed once.
func TestTakeover(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a := r.node("a")
		keys := r.dead("t", 600)
		o := a.create(Draft{Action: "replay", Filter: store.Query{Topic: "t"}, Rate: ptr(100)})
		pass(2500 * time.Millisecond)
		b := r.node("b")
		defer b.end()
		a.kill()
		before := r.changed()
		pass(leader.Lease - 3*time.Second)
		if n := r.changed(); n > before+1 {
			t.Errorf("%d jobs were changed within the lease of a dead node", n-before)
		}
		done := b.await(o.ID)
		r.once(keys)
		if done.State != Done || done.Changed > 600 || done.Changed < 450 {
			t.Error(counts(done))
		}
		a.dead.mu.Lock()
		a.dead.now = false // it was only cut off, and comes back
		a.dead.mu.Unlock()
		pass(5 * time.Second)
		r.once(keys)
		if again, err := b.Get(t.Context(), o.ID); err != nil || counts(again) != counts(done) {
			t.Errorf("%s, %v, after %s", counts(again), err, counts(done))
		}
		a.end()
	})
}

// A node that stops in order lets another go on at once.
func TestHandover(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := r.node("a"), r.node("b")
		defer b.end()
		keys := r.dead("t", 600)
		o := a.create(Draft{Action: "replay", Filter: store.Query{Topic: "t"}, Rate: ptr(100)})
		pass(2500 * time.Millisecond)
		a.end()
		stood := r.changed()
		pass(lookEvery + time.Second)
		if r.changed() == stood {
			t.Error("nobody goes on")
		}
		if got := counts(b.await(o.ID)); got != "done: matched 600, changed 600, skipped 0, failed 0" {
			t.Error(got)
		}
		r.once(keys)
	})
}

// An outage of the store delays, and nothing else.
func TestOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		n := r.node("a")
		defer n.end()
		keys := r.dead("t", 300)
		o := n.create(Draft{Action: "replay", Filter: store.Query{Topic: "t"}, Rate: ptr(100)})
		for _, calls := range []string{"Update", "List", "PutDocuments", "Update List PutDocuments"} {
			pass(500 * time.Millisecond)
			r.failWith(func(call string) error {
				if strings.Contains(calls, call) {
					return store.ErrUnavailable
				}
				return nil
			})
			pass(4 * time.Second)
			r.failWith(nil)
		}
		if got := counts(n.await(o.ID)); got != "done: matched 300, changed 300, skipped 0, failed 0" {
			t.Error(got)
		}
		r.once(keys)
	})
}

// A node that cannot list operations logs it once, and once that it can again.
func TestOutageOfListing(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var log strings.Builder
		r.log = slog.New(slog.NewTextHandler(&log, nil))
		r.failWith(func(call string) error {
			if call == "ListDocuments" {
				return store.ErrUnavailable
			}
			return nil
		})
		n := r.node("a")
		pass(10 * lookEvery)
		r.failWith(nil)
		pass(2 * lookEvery)
		n.end()
		for _, want := range []string{"failing; retrying", "working again"} {
			if n := strings.Count(log.String(), want+`" what="looking for operations"`); n != 1 {
				t.Errorf("%q is logged %d times:\n%s", want, n, log.String())
			}
		}
	})
}

// Jobs that cannot be changed are counted and named; the others are changed.
func TestFailures(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		n := r.node("a")
		defer n.end()
		r.dead("t", 30)
		calls := 0
		r.failWith(func(call string) error {
			if call != "Update" {
				return nil
			}
			if calls++; calls <= 15 {
				return map[bool]error{true: store.ErrConflict, false: errDefect}[calls%2 == 0]
			}
			return nil
		})
		o := n.await(n.create(Draft{Action: "replay", All: true}).ID)
		if got := counts(o); got != "done: matched 30, changed 15, skipped 0, failed 15" {
			t.Error(got)
		}
		if len(o.Errors) != maxErrors || o.Errors[0].Job != "t/00000" || strings.Contains(o.Errors[0].Message, "defect") {
			t.Errorf("errors %v", o.Errors)
		}
	})
}

// A job whose topic has no room is no defect: its error says what is wrong.
func TestATopicWithoutRoom(t *testing.T) {
	for err, text := range map[error]string{store.ErrTopicFull: "its capacity allows", store.ErrTopicDraining: "is draining"} {
		inBubble(t, func(t *testing.T, r *rig) {
			n := r.node("a")
			defer n.end()
			r.dead("t", 1)
			r.failWith(func(call string) error {
				if call != "Update" {
					return nil
				}
				return fmt.Errorf("store: %w", err)
			})
			o := n.await(n.create(Draft{Action: "replay", All: true}).ID)
			if o.Failed != 1 || !strings.Contains(o.Errors[0].Message, text) {
				t.Errorf("%v: failed %d, errors %v", err, o.Failed, o.Errors)
			}
		})
	}
}

// Jobs that change after the listing are skipped.
func TestSkips(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		n := r.node("a")
		defer n.end()
		keys := r.dead("t", 100)
		o := n.create(Draft{Action: "replay", Filter: store.Query{Topic: "t"}, Rate: ptr(100)})
		pass(100 * time.Millisecond) // its page is listed
		if _, err := r.Store.Update(t.Context(), keys[99], (*job.Job).Replay); err != nil {
			t.Fatal(err)
		}
		if got := counts(n.await(o.ID)); got != "done: matched 100, changed 99, skipped 1, failed 0" {
			t.Error(got)
		}
	})
}

// An operation that cannot go on fails, and says why.
func TestCannotGoOn(t *testing.T) {
	for _, err := range []error{store.ErrBadCursor, errDefect} {
		inBubble(t, func(t *testing.T, r *rig) {
			n := r.node("a")
			defer n.end()
			r.dead("t", 3)
			r.failWith(func(call string) error {
				if call == "List" {
					return err
				}
				return nil
			})
			o := n.await(n.create(Draft{Action: "replay", All: true}).ID)
			if o.State != Failed || o.Why == "" || o.EndedAt == 0 || strings.Contains(o.Why, "defect") {
				t.Errorf("%+v", o)
			}
		})
	}
}

func TestPreview(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		n := r.node("a")
		defer n.end()
		r.dead("t", 2500)
		r.register("u", 10, later)
		for want, d := range map[int64]Draft{
			2500: {Action: "replay", All: true},
			834:  {Action: "replay", Filter: store.Query{Endpoint: "http://e0.example:80"}},
			0:    {Action: "replay", Filter: store.Query{Reason: job.ReasonBlocked}},
			833:  {Action: "replay", Filter: store.Query{Endpoint: "http://e1.example:80", DueFrom: 1}},
			10:   {Action: "run", All: true},
		} {
			p, err := n.Preview(t.Context(), d)
			if err != nil || p.Matched != want || !p.Complete {
				t.Errorf("%d %v %v, want %d", p.Matched, p.Complete, err, want)
			}
		}
		if r.changed() > 0 {
			t.Error("a preview changed jobs")
		}
		r.failWith(func(string) error { pass(previewTime); return nil })
		if p, err := n.Preview(t.Context(), Draft{Action: "replay", Filter: store.Query{DueFrom: 1}}); err != nil || p.Complete || p.Matched != 1000 {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

func TestOldOnesAreForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		n := r.node("a")
		defer n.end()
		r.register("t", 1, later)
		o := n.await(n.create(Draft{Action: "run", All: true}).ID)
		pass(KeptFor - time.Minute)
		if _, err := n.Get(t.Context(), o.ID); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Minute)
		if _, err := n.Get(t.Context(), o.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("%v, want ErrNotFound", err)
		}
	})
}

// idle returns a manager that does not run, with one operation.
func (r *rig) idle() (*Manager, Operation) {
	r.Helper()
	m, err := New(Options{Store: r, Jobs: unchecked{r}, ID: "idle"})
	if err != nil {
		r.Fatal(err)
	}
	first, err := m.Create(r.Context(), Draft{Action: "run", All: true})
	if err != nil {
		r.Fatal(err)
	}
	return m, first
}

func TestThereAreNotTooMany(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m, first := r.idle()
		ids := []string{first.ID}
		for n := 1; n < MaxKept-1; n++ { // as Create would, without reading all of them each time
			o := first
			o.StartedAt = first.StartedAt + job.Instant(n)
			o.ID = ulid.MustNew(uint64(o.StartedAt), ulid.DefaultEntropy()).String()
			if err := m.docs.Put(t.Context(), &stored{Head: documents.Head{Name: o.ID}, Value: o}); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, o.ID)
		}
		pass(time.Minute) // they are counted now and then
		last, err := m.Create(t.Context(), Draft{Action: "run", All: true})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, last.ID)
		if _, err := m.Create(t.Context(), Draft{Action: "run", All: true}); !errors.Is(err, ErrTooMany) {
			t.Fatalf("%v, want ErrTooMany", err)
		}
		d, err := m.docs.Get(t.Context(), ids[3])
		if err != nil {
			t.Fatal(err)
		}
		d.Value.State = Done
		if err := m.docs.Put(t.Context(), &d); err != nil {
			t.Fatal(err)
		}
		pass(time.Millisecond)
		if _, err := m.Create(t.Context(), Draft{Action: "run", All: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Get(t.Context(), ids[3]); !errors.Is(err, ErrNotFound) {
			t.Errorf("the ended one is still there: %v", err)
		}
		var listed []string
		cursor := ""
		for {
			page, err := m.List(t.Context(), 300, cursor)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range page.Operations {
				listed = append(listed, o.ID)
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if len(listed) != MaxKept || listed[MaxKept-1] != ids[0] || listed[1] != ids[MaxKept-1] {
			t.Errorf("%d listed, from %s to %s", len(listed), listed[0], listed[len(listed)-1])
		}
	})
}

// Calls with one key begin one operation, whatever becomes of it; among others it is listed by its age.
func TestIdempotencyKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m, first := r.idle()
		of := func(body string) Draft {
			return Draft{
				Action: "replay", Filter: store.Query{Topic: "t"}, Key: "k", By: "shop",
				Set: &job.Draft{Body: &job.Body{Form: job.BodyJSON, Content: []byte(body)}},
			}
		}
		var calls sync.WaitGroup
		ids := make([]string, 10)
		for i := range ids {
			calls.Go(func() {
				o, err := m.Create(t.Context(), of(`{"a":1,"b":2}`))
				if ids[i] = o.ID; err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		if one := slices.Compact(ids); len(one) != 1 {
			t.Fatalf("one key began %v", one)
		}
		d, err := m.docs.Get(t.Context(), ids[0])
		must.OK(t, err)
		d.Value.State = Done
		must.OK(t, m.docs.Put(t.Context(), &d))
		pass(time.Hour)
		again := of(`{"b":2, "a":1}`)
		again.Filter.Only = job.TopicSet{"t"} // of the client's API key, which is another matter
		if o, err := m.Create(t.Context(), again); err != nil || o.ID != ids[0] || o.State != Done {
			t.Errorf("repeated after its end: %+v, %v", o, err)
		}
		for _, body := range []string{`{"a":1,"b":3}`, `{"a":1,"b":2.0}`} {
			if _, err := m.Create(t.Context(), of(body)); !errors.Is(err, ErrKeyReused) {
				t.Errorf("%s: %v", body, err)
			}
		}
		other := of(`{"a":1,"b":3}`)
		other.By = "crm"
		last, err := m.Create(t.Context(), other)
		must.OK(t, err)
		var listed []string
		for cursor := ""; ; {
			page, err := m.List(t.Context(), 1, cursor)
			must.OK(t, err)
			for _, o := range page.Operations {
				listed = append(listed, o.ID)
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		must.Same(t, "the newest first", listed, []string{last.ID, ids[0], first.ID})
	})
}

func TestPlainOperationsAreBoundedInBytes(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m, first := r.idle()
		others := store.Document{Kind: documentKind, Name: "others", Data: make([]byte, MaxAllBytes)}
		if _, err := store.PutDocument(t.Context(), r, others); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute) // they are counted now and then
		if _, err := m.Create(t.Context(), Draft{Action: "run", All: true}); !errors.Is(err, ErrTooMany) {
			t.Errorf("%v, want ErrTooMany", err)
		}
		if _, err := m.Get(t.Context(), first.ID); err != nil {
			t.Errorf("a running operation gave way: %v", err)
		}
	})
}

func TestDraftsAreChecked(t *testing.T) {
	topic := store.Query{Topic: "t"}
	for name, tc := range map[string]struct {
		d    Draft
		want string
	}{
		"no action":            {Draft{Filter: topic}, "action"},
		"unknown action":       {Draft{Action: "purge", Filter: topic}, "action"},
		"no filter":            {Draft{Action: "run"}, "filter"},
		"state of another":     {Draft{Action: "replay", Filter: store.Query{States: []job.State{job.Dead, job.Waiting}}}, "filter.state"},
		"run what runs":        {Draft{Action: "run", Filter: store.Query{States: []job.State{job.Running}}}, "filter.state"},
		"rate too low":         {Draft{Action: "run", Filter: topic, Rate: ptr(0)}, "rate"},
		"rate too high":        {Draft{Action: "run", Filter: topic, Rate: ptr(MaxRate + 1)}, "rate"},
		"no time":              {Draft{Action: "reschedule", Filter: topic}, "delay"},
		"two times":            {Draft{Action: "reschedule", Filter: topic, Delay: ptr(time.Hour), At: 5}, "at"},
		"too long":             {Draft{Action: "reschedule", Filter: topic, Delay: ptr(job.MaxDelay + time.Hour)}, "delay"},
		"too late":             {Draft{Action: "reschedule", Filter: topic, At: 1 << 50}, "at"},
		"delay of another":     {Draft{Action: "run", Filter: topic, Delay: ptr(time.Hour)}, "delay"},
		"time of another":      {Draft{Action: "cancel", Filter: topic, At: 5}, "at"},
		"everything is wrong":  {Draft{Action: "purge", Rate: ptr(-1), At: 5}, "action filter rate at"},
		"all":                  {Draft{Action: "cancel", All: true}, ""},
		"a delay of nothing":   {Draft{Action: "reschedule", Filter: topic, Delay: ptr(time.Duration(0))}, ""},
		"a time in the past":   {Draft{Action: "reschedule", Filter: topic, At: 5}, ""},
		"replay what was done": {Draft{Action: "replay", Filter: store.Query{States: []job.State{job.Delivered}}}, ""},
	} {
		_, err := tc.d.operation(job.Instant(1_767_258_000_000), job.Bounds{})
		var invalid *job.ValidationError
		var got []string
		if errors.As(err, &invalid) {
			for _, f := range invalid.Fields {
				got = append(got, string(f.Field))
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: refused for %v, want %s", name, got, tc.want)
		}
	}
}

// What another version has written is not taken for what it is not.
func TestUnknownDocumentsAreLeftAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		n := r.node("a")
		defer n.end()
		r.register("t", 3, later)
		for name, data := range map[string]string{
			"01A": `{"action":"purge","state":"running","rate":5}`,
			"01B": `{"action":"cancel","state":"running","rate":5,"filter":{"colour":"blue"}}`,
			"01C": `{`,
		} {
			if _, err := store.PutDocument(t.Context(), r, store.Document{Kind: documentKind, Name: name, Data: []byte(data)}); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Minute)
		if r.changed() > 0 {
			t.Errorf("%d jobs were changed", r.changed())
		}
		if page, err := n.List(t.Context(), 10, ""); err != nil || len(page.Operations) != 0 {
			t.Errorf("%v, %v", page, err)
		}
	})
}

func TestOptions(t *testing.T) {
	if _, err := New(Options{ID: "a"}); err == nil {
		t.Error("no store is taken")
	}
}

// Metrics count the result of each job, and ended operations.
func TestMetrics(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		registry := prometheus.NewPedanticRegistry()
		m, err := New(Options{Store: r.Store, Jobs: unchecked{r.Store}, ID: "a", Metrics: registry})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		r.dead("t", 3)
		if _, err := m.Create(t.Context(), Draft{Action: "replay", Filter: store.Query{Topic: "t"}, Rate: ptr(1)}); err != nil {
			t.Fatal(err)
		}
		pass(time.Second + time.Second/2)
		const name = "duehook_operation_working"
		if err := testutil.GatherAndCompare(registry, strings.NewReader("# HELP "+name+" Operations that run on this node.\n# TYPE "+name+" gauge\n"+name+" 1\n"), name); err != nil {
			t.Error(err)
		}
		pass(time.Minute)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := testutil.ToFloat64(m.metrics.jobs.WithLabelValues("replay", resultChanged)); n != 3 {
			t.Errorf("%v jobs were changed", n)
		}
		if n := testutil.ToFloat64(m.metrics.ended.WithLabelValues("replay", string(Done))); n != 1 {
			t.Errorf("%v operations are done", n)
		}
		if _, err := New(Options{Store: r.Store, Jobs: unchecked{r.Store}, ID: "b", Metrics: registry}); err == nil {
			t.Error("the metrics were registered twice")
		}
	})
}

// What an operation sets survives being stored, empty headers and labels included:
// they take the job's own away.
func TestStoredDrafts(t *testing.T) {
	want := &job.Draft{Headers: map[string]string{}, Labels: map[string]string{}, Retry: &job.Retry{}, NoExpect: true}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got job.Draft
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if names := got.Changes(); !slices.Equal(names, want.Changes()) {
		t.Errorf("read back with %v, stored with %v", names, want.Changes())
	}
}
