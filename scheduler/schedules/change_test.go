package schedules

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/schedule"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/memstore"
)

// deliverAll delivers until nothing is due, and returns the times of the occurrences.
func (r *rig) deliverAll() (times []int64) {
	r.t.Helper()
	for {
		ids := r.deliver()
		if len(ids) == 0 {
			slices.Sort(times)
			return times
		}
		for _, id := range ids {
			at, err := time.Parse("s@20060102T150405Z", id)
			r.ok(err)
			times = append(times, at.Unix())
		}
	}
}

// follow delivers each second for a while, and returns the times of the occurrences.
func (r *rig) follow(d time.Duration) (times []int64) {
	r.t.Helper()
	for range d / time.Second {
		pass(time.Second)
		times = append(times, r.deliverAll()...)
	}
	slices.Sort(times)
	return times
}

func (r *rig) now() job.Instant {
	r.t.Helper()
	now, err := r.store.Now(r.ctx)
	r.ok(err)
	return now
}

// A pause withdraws the jobs of all forms that wait for their jitter.
func TestAPauseWithdrawsJobsOfEarlierForms(t *testing.T) {
	for _, change := range []struct {
		name  string
		alter func(d *Draft)
	}{
		{"other job", func(d *Draft) { d.Job.Destination = ptr(job.Destination("http://other.example/")) }},
		{"other times", func(d *Draft) { d.Every, d.Jitter = ptr(7*time.Second), nil }},
		{"other topic", func(d *Draft) { d.Job.Topic, d.Jitter = ptr("other"), nil }},
	} {
		t.Run(change.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, time.Hour)
				m := r.node("a", nil)
				defer r.run(m)()
				d := every("10s")
				d.Jitter = ptr(10 * time.Minute)
				r.set(m, "s", d)
				pass(5 * time.Minute)
				r.deliver()
				other := every("10s")
				other.Jitter = d.Jitter
				change.alter(other)
				r.set(m, "s", other)
				changed := r.now()
				pass(30 * time.Second)
				r.set(m, "s", func() *Draft { d := every("1h"); return d }())
				pass(30 * time.Second)
				r.deliverAll()
				s, err := m.Pause(r.ctx, "s", nil)
				r.ok(err)
				for _, at := range r.follow(15 * time.Minute) {
					due := schedule.Due("s", seconds(at), 10*time.Minute)
					t.Errorf("the occurrence of %v, due %v, arrived after the pause at %v; changed %v", seconds(at), due, s.PausedAt.Time(), changed.Time())
				}
				total := int64(6*5+3) + map[string]int64{"other job": 0, "other topic": 0, "other times": 4 - 3}[change.name]
				c := s.Counters
				if c.Skipped == 0 || c.Missed+c.Failed != 0 || c.Fired+c.Skipped < total-1 || c.Fired+c.Skipped > total+1 {
					t.Errorf("%+v, of about %d occurrences", c, total)
				}
				page, err := r.store.List(r.ctx, store.Query{Schedule: "s", States: []job.State{job.Delivered}, Limit: 1000})
				r.ok(err)
				if int64(len(page.Jobs)) != c.Fired {
					t.Errorf("%d delivered, %d counted", len(page.Jobs), c.Fired)
				}
			})
		})
	}
}

// slow are jobs of a store whose changes take a while.
type slow struct {
	*recorder
	mu     sync.Mutex
	before func() // an update; nil: nothing
}

func (s *slow) Update(ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error) (job.Job, error) {
	s.mu.Lock()
	before := s.before
	s.before = nil
	s.mu.Unlock()
	if before != nil { // without the lock: bubbles do not wait for one
		before()
	}
	return s.recorder.Update(ctx, key, change)
}

func (r *rig) slowNode() (*Manager, *slow) {
	r.t.Helper()
	s := &slow{recorder: r.jobs}
	m, err := New(Options{Store: r.store, Jobs: s, ID: "a", Alone: true})
	r.ok(err)
	return m, s
}

// Attempts begin while a change withdraws jobs. The change then takes effect at the last
// of them: no job with a later time is sent, and each occurrence has one outcome.
func TestAttemptsThatBeginDuringAChangeComeBeforeIt(t *testing.T) {
	for _, jitter := range []time.Duration{0, 5 * time.Second} {
		for _, pauses := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, time.Hour)
				m, jobs := r.slowNode()
				stop := r.run(m)
				d := every("1s")
				d.Jitter = &jitter
				begin := r.set(m, "s", d).CreatedAt
				got := r.follow(20 * time.Second)
				sleep(500 * time.Millisecond)
				stop() // it would do the change instead
				jobs.mu.Lock()
				jobs.before = func() { // the first of the jobs to be withdrawn is the last one
					sleep(3 * time.Second)
					got = append(got, r.deliverAll()...)
				}
				jobs.mu.Unlock()
				called := r.now()
				var s Schedule
				var err error
				if pauses {
					s, err = m.Pause(r.ctx, "s", nil)
					r.ok(err)
				} else {
					other := every("1s")
					other.Jitter, other.Job.Destination = &jitter, ptr(job.Destination("http://other.example/"))
					s = r.set(m, "s", other)
				}
				defer r.run(m)()
				if s.UpdatedAt < called || jitter == 0 && s.UpdatedAt == called {
					t.Errorf("the change holds from %v, called at %v", s.UpdatedAt.Time(), called.Time())
				}
				got = append(got, r.follow(10*time.Second)...)
				slices.Sort(got)
				if again := len(got) - len(slices.Compact(slices.Clone(got))); again != 0 {
					t.Errorf("%d arrived again", again)
				}
				for _, at := range got {
					if due := schedule.Due("s", seconds(at), jitter); pauses && due.After(s.PausedAt.Time()) {
						t.Errorf("due %v arrived after the pause of %v", due, s.PausedAt.Time())
					}
				}
				s = r.get(m, "s")
				c := s.Counters
				total := after(s.UpdatedAt) - after(begin)
				if !pauses {
					total = s.Cursor - after(begin)
				}
				if c.Fired+c.Skipped != total || c.Missed+c.Failed != 0 || pauses && c.Fired != int64(len(got)) {
					t.Errorf("%+v of %d occurrences, %d arrived", c, total, len(got))
				}
				page, err := r.store.List(r.ctx, store.Query{Schedule: "s", Limit: 1000})
				r.ok(err)
				for _, j := range page.Jobs {
					old, before := j.Spec.Destination == *d.Job.Destination, j.Spec.Occurrence.Time <= s.UpdatedAt
					if !pauses && j.State != job.Cancelled && old != before {
						t.Errorf("%s to %s, changed at %v", j.ID, j.Spec.Destination, s.UpdatedAt.Time())
					}
				}
			})
		}
	}
}

// A node stands still while it withdraws jobs. Another one ends the pause that it made, and
// a resume registers the occurrences anew. The first node withdraws none of them.
func TestALateNodeWithdrawsNothingNew(t *testing.T) {
	for _, order := range []*string{nil, ptr("k")} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, time.Hour)
			jobs := &slow{recorder: r.jobs}
			dies := false
			late, err := New(Options{Store: r.store, Jobs: jobs, ID: "late", Alone: true, fail: func(step string) error {
				if dies && step == "registered" {
					return errCrash
				}
				return nil
			}})
			r.ok(err)
			other := r.node("other", func(string) error { return nil })
			d := every("10s")
			d.Job.OrderKey = order
			r.set(other, "s", d)
			_, _, err = other.round(r.ctx, nil, true)
			r.ok(err)
			fired := r.get(other, "s").Counters.Fired
			dies = true
			jobs.before = func() {
				_, err := other.Resume(r.ctx, "s", nil)
				r.ok(err)
				_, _, err = other.round(r.ctx, nil, true)
				r.ok(err)
			}
			if _, err := late.Pause(r.ctx, "s", nil); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			if c := r.get(other, "s").Counters; c.Fired != fired || fired < 5 {
				t.Errorf("%d fired, then %+v", fired, c)
			}
			if n := len(r.follow(45 * time.Second)); n < 4 {
				t.Errorf("%d arrived", n)
			}
		})
	}
}

// failing are jobs of a store whose changes of some jobs fail.
type failing struct {
	*recorder
	fails func(key job.Key) bool
}

func (f *failing) Update(ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error) (job.Job, error) {
	if f.fails(key) {
		return job.Job{}, errCrash
	}
	return f.recorder.Update(ctx, key, change)
}

// A node dies after it withdrew the next jobs for a pause. Later ones are sent, so the next
// node makes the pause begin after them. The jobs that were withdrawn before are skipped.
func TestAPauseCountsWhatADeadNodeWithdrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		quiet := func(string) error { return nil }
		first := r.node("first", quiet)
		begin := r.set(first, "s", every("1s")).CreatedAt
		_, _, err := first.round(r.ctx, nil, true)
		r.ok(err)
		until := r.now().Add(callTimeout)
		dies, err := New(Options{Store: r.store, ID: "dies", Alone: true, fail: quiet, Jobs: &failing{r.jobs, func(key job.Key) bool {
			at, err := time.Parse("s@20060102T150405Z", key.ID)
			r.ok(err)
			return at.After(until.Time())
		}}})
		r.ok(err)
		if s, err := dies.Pause(r.ctx, "s", nil); err == nil {
			t.Fatalf("paused: %+v", s)
		}
		got := r.follow(callTimeout + 5*time.Second)
		next := r.node("next", quiet)
		_, _, err = next.round(r.ctx, nil, true)
		r.ok(err)
		s := r.get(next, "s")
		if s.PausedAt < until || s.Counters.Fired != int64(len(got)) || len(got) == 0 {
			t.Errorf("paused at %v, %+v; %d arrived", s.PausedAt.Time(), s.Counters, len(got))
		}
		if n := after(s.PausedAt) - after(begin); s.Counters.Skipped != n-s.Counters.Fired {
			t.Errorf("%+v of %d occurrences", s.Counters, n)
		}
	})
}

// The receiver of a job arms it again while a pause withdraws jobs. It was sent, so the
// pause comes after it.
func TestAPauseComesAfterJobsThatWereArmedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		m, jobs := r.slowNode()
		stop := r.run(m)
		r.set(m, "s", every("10s"))
		r.follow(15 * time.Second)
		stop() // it would do the change instead
		jobs.before = func() {
			sleep(6 * time.Second)
			if ids := r.armAgain(); len(ids) != 1 {
				t.Errorf("%v arrived", ids)
			}
		}
		called := r.now()
		s, err := m.Pause(r.ctx, "s", nil)
		r.ok(err)
		if s.PausedAt <= called || s.Counters.Fired != 2 || s.Counters.Skipped != 0 {
			t.Errorf("paused at %v, called at %v: %+v", s.PausedAt.Time(), called.Time(), s.Counters)
		}
	})
}

// What a client ran or cancelled before its time counts as fired, and does not come again
// in another form or after a pause.
func TestJobsThatAClientRanStay(t *testing.T) {
	for _, pauses := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, time.Hour)
			m := r.node("a", nil)
			defer r.run(m)()
			begin := r.set(m, "s", every("20s")).CreatedAt
			pass(time.Second)
			first, second := after(begin)/20*20+20, after(begin)/20*20+40
			key := func(at int64) job.Key { return job.Key{Topic: "default", ID: schedule.ID("s", seconds(at))} }
			_, err := r.jobs.Scheduler.Run(r.ctx, key(first))
			r.ok(err)
			_, _, err = r.jobs.Cancel(r.ctx, key(second))
			r.ok(err)
			if got := r.deliverAll(); !slices.Equal(got, []int64{first}) {
				t.Fatalf("%v arrived, want %d", got, first)
			}
			pass(100 * time.Millisecond)
			if pauses {
				_, err := m.Pause(r.ctx, "s", nil)
				r.ok(err)
				r.counters(m, "s", Counters{Fired: 2})
				pass(100 * time.Millisecond)
				_, err = m.Resume(r.ctx, "s", nil)
				r.ok(err)
			} else {
				other := every("20s")
				other.Job.Topic = ptr("other")
				other.Job.Destination = ptr(job.Destination("http://other.example/"))
				r.set(m, "s", other)
			}
			want := []int64{second + 20, second + 40, second + 60}
			got := r.follow(100 * time.Second)
			if len(got) < 3 || !slices.Equal(got[:3], want) {
				t.Errorf("%v arrived, want %v and so on", got, want)
			}
			s := r.get(m, "s")
			if n := (s.Cursor - after(begin)/20*20) / 20; s.Counters != (Counters{Fired: n}) {
				t.Errorf("%+v of %d", s.Counters, n)
			}
		})
	}
}

// An occurrence that its topic refuses until the schedule changes is failed.
func TestAChangeEndsTheTriesAtAFullTopic(t *testing.T) {
	for overlap, want := range map[string]Counters{"allow": {Failed: 2}, "skip": {Failed: 1, Skipped: 1}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, time.Hour)
			m := r.node("a", nil)
			defer r.run(m)()
			r.ok(r.store.SetLimits(r.ctx, "default", store.Limits{Draining: true}))
			d := every("20s")
			d.Overlap, d.EndAt = &overlap, ptr(seconds(after(r.now())/20*20+50))
			r.set(m, "s", d)
			pass(55 * time.Second)
			if s := r.get(m, "s"); s.State != Active {
				t.Errorf("%s while occurrences are undecided", s.State)
			}
			r.set(m, "s", every("1h"))
			r.counters(m, "s", want)
			if last := r.get(m, "s").Last; overlap == "allow" && (last.Reason != ReasonTopicDraining || last.Outcome != schedule.Failed) {
				t.Errorf("%+v", last)
			}
		})
	}
}

// Jobs that were registered while they could overlap count once they may not.
func TestOverlapsEndWithAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		m := r.node("a", nil)
		defer r.run(m)()
		r.set(m, "s", every("10s"))
		pass(35 * time.Second)
		d := every("10s")
		d.Overlap = ptr("skip")
		r.set(m, "s", d)
		pass(20 * time.Second)
		r.counters(m, "s", Counters{Fired: 3, Skipped: 2})
		r.deliverAll()
		pass(10 * time.Second)
		r.counters(m, "s", Counters{Fired: 4, Skipped: 2})
	})
}

// A run that its topic refuses is not counted.
func TestARefusedRunIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		m := r.node("a", nil)
		r.set(m, "s", every("1h"))
		r.ok(r.store.SetLimits(r.ctx, "default", store.Limits{Draining: true}))
		if _, err := m.RunNow(r.ctx, "s", "key"); err != store.ErrTopicDraining { //nolint:errorlint // exactly this one
			t.Errorf("RunNow: %v", err)
		}
		if s := r.get(m, "s"); s.Counters != (Counters{}) || s.Last != nil {
			t.Errorf("%+v, %+v", s.Counters, s.Last)
		}
		r.ok(r.store.SetLimits(r.ctx, "default", store.Limits{}))
		if run, err := m.RunNow(r.ctx, "s", "key"); err != nil || !run.Created {
			t.Errorf("%+v, %v", run, err)
		}
		r.counters(m, "s", Counters{Manual: 1})
	})
}

// A run is registered once although its node dies, and by whoever finishes it.
func TestARunSurvivesItsNode(t *testing.T) {
	for _, step := range []string{"before intent", "after intent", "registered", "before result", "after result"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, time.Hour)
			dies := true
			m := r.node("a", func(now string) error {
				if dies && now == step {
					dies = false
					return errCrash
				}
				return nil
			})
			dies = false
			r.set(m, "s", every("1h"))
			dies = true
			if _, err := m.RunNow(r.ctx, "s", "key"); err != errCrash { //nolint:errorlint // exactly this one
				t.Fatalf("%s: %v", step, err)
			}
			run, err := m.RunNow(r.ctx, "s", "key")
			r.ok(err)
			if created := step == "before intent"; run.Created != created {
				t.Errorf("%s: created %v", step, run.Created)
			}
			r.counters(m, "s", Counters{Manual: 1})
			if n := len(r.deliver()); n != 1 {
				t.Errorf("%s: %d delivered", step, n)
			}
		})
	}
}

// A queued occurrence is registered as soon as the job before it ends, on whatever node.
func TestAHeldOccurrenceHearsOfTheEnd(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ends := []*Ends{NewEnds(), NewEnds()}
			inner := memstore.New(memstore.Options{Retention: time.Hour})
			t.Cleanup(func() { _ = inner.Close() })
			jobs, err := scheduler.New(scheduler.Options{Store: inner})
			if err != nil {
				t.Fatal(err)
			}
			r := &rig{t, t.Context(), inner, &recorder{Scheduler: jobs, created: map[job.Key][]string{}}}
			var nodes []*Manager
			for i, id := range []string{"a", "b"} {
				m, err := New(Options{Store: inner, Jobs: r.jobs, ID: id, Ends: ends[i]})
				r.ok(err)
				nodes = append(nodes, m)
				defer r.run(m)()
				synctest.Wait()
			}
			d := every("10s")
			d.Overlap = ptr("queue_one")
			r.set(nodes[0], "s", d)
			pass(25*time.Second + 300*time.Millisecond)
			if s := r.get(nodes[0], "s"); s.Queued == nil {
				t.Fatalf("%+v", s.record)
			}
			leading := 0
			if nodes[1].engine.leads.Load() {
				leading = 1
			}
			at := leading
			if elsewhere {
				at = 1 - leading
			}
			s, err := inner.Carry(r.ctx, 0, store.CarryOptions{Cap: 1000, Visibility: time.Minute, HalfOpenLimit: 1})
			r.ok(err)
			observed := feed.Observe(inner, ends[at].Subscriber())
			claimed, err := inner.Claim(r.ctx, 0, []store.Hint{s.Carried[0].Hint}, store.ClaimOptions{Nonce: "n", Lease: time.Minute})
			r.ok(err)
			_, err = observed.Settle(r.ctx, []job.Settlement{job.Settle(&claimed[0].Job, job.Outcome{Kind: job.OutcomeDelivered, Attempt: &job.Attempt{}}, nil)})
			r.ok(err)
			pass(time.Millisecond) // the next look without a message is later
			if s := r.get(nodes[0], "s"); s.Queued != nil || s.Counters.Fired != 2 {
				t.Errorf("elsewhere %v: %+v", elsewhere, s.record)
			}
		})
	}
}
