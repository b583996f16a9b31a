package operations

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// made notes the uids of the jobs that were made.
type made struct {
	*app.App
	mu   sync.Mutex
	uids map[job.Key][]string
}

func (m *made) RegisterOwn(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	out, err := m.App.RegisterOwn(ctx, regs)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range out {
		if out[i].Outcome == store.Created {
			m.uids[out[i].Job.Key] = append(m.uids[out[i].Job.Key], out[i].Job.UID)
		}
	}
	return out, err
}

// wantEach checks that each of n jobs was made so often, with as many uids.
func (m *made) wantEach(t *testing.T, n, times int) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.uids) != n {
		t.Errorf("%d jobs were made, want %d", len(m.uids), n)
	}
	for key, uids := range m.uids {
		different := map[string]bool{}
		for _, uid := range uids {
			different[uid] = true
		}
		if len(uids) != times || len(different) != times {
			t.Errorf("%s was made with %v", key, uids)
		}
	}
}

// secondly makes a schedule of each second, which is paused.
func (r *rig) secondly(change func(d *schedules.Draft)) (*schedules.Manager, *made) {
	r.Helper()
	jobs, err := app.New(app.Options{Store: r.Store})
	if err != nil {
		r.Fatal(err)
	}
	m := &made{App: jobs, uids: map[job.Key][]string{}}
	plans, err := schedules.New(schedules.Options{Store: r.Store, Jobs: m, ID: "schedules"})
	if err != nil {
		r.Fatal(err)
	}
	d := schedules.Draft{Every: ptr(time.Second), Paused: ptr(true), Job: &job.Draft{Topic: ptr("t"), Destination: ptr(job.Destination("http://receiver.example/"))}}
	if change != nil {
		change(&d)
	}
	if _, _, err := plans.Set(r.Context(), "s", &d); err != nil {
		r.Fatal(err)
	}
	return plans, m
}

func (r *rig) limit(l store.Limits) {
	r.Helper()
	if err := r.SetLimits(r.Context(), "t", l); err != nil {
		r.Fatal(err)
	}
}

// past is a backfill of n seconds.
func (r *rig) past(n, rate int) BackfillDraft {
	r.Helper()
	now, err := store.Now(r.Context(), r)
	if err != nil {
		r.Fatal(err)
	}
	from := now.Add(-2 * time.Hour).Time()
	return BackfillDraft{Schedule: "s", From: &from, To: new(from.Add(time.Duration(n) * time.Second)), Rate: &rate}
}

func (r *rig) wantBackfilled(plans *schedules.Manager, n int64) {
	r.Helper()
	s, err := plans.Get(r.Context(), "s")
	if err != nil || s.Counters.Backfilled != n {
		r.Errorf("%d backfilled, want %d: %v", s.Counters.Backfilled, n, err)
	}
}

// Jobs are registered once although the node dies with progress that it did not write,
// and although they end before another one registers them again.
func TestBackfillTakeover(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		plans, jobs := r.secondly(nil)
		a := r.node("a", plans)
		o, err := a.Backfill(r.Context(), r.past(600, 100))
		if err != nil || *o.Estimate != 600 {
			t.Fatal(o.Estimate, err)
		}
		pass(2300 * time.Millisecond)
		a.kill()
		pass(time.Second)
		b := r.node("b", plans)
		defer b.end()
		r.end(job.OutcomeDelivered)
		done := b.await(o.ID)
		if done.State != Done || done.Changed != 600 || done.Skipped != 0 {
			t.Error(counts(done))
		}
		jobs.wantEach(t, 600, 1)
		r.wantBackfilled(plans, 600)
		a.end()
		r.wantBackfilled(plans, 600)
	})
}

// A stopped backfill goes on where it was. Jobs that have not ended are skipped, others
// are registered anew by another backfill.
func TestBackfillAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		plans, jobs := r.secondly(nil)
		a := r.node("a", plans)
		defer a.end()
		draft := r.past(300, 100)
		o, err := a.Backfill(r.Context(), draft)
		if err != nil {
			t.Fatal(err)
		}
		pass(1500 * time.Millisecond)
		if _, err := a.Stop(r.Context(), o.ID); err != nil {
			t.Fatal(err)
		}
		pass(5 * time.Second)
		stopped, err := a.Get(r.Context(), o.ID)
		if err != nil || stopped.Changed < 100 || stopped.Changed > 200 {
			t.Error(counts(stopped), err)
		}
		r.wantBackfilled(plans, stopped.Changed)
		if _, err := a.Resume(r.Context(), o.ID); err != nil {
			t.Fatal(err)
		}
		if done := a.await(o.ID); done.Changed != 300 || done.Matched != 300 {
			t.Error(counts(done))
		}
		jobs.wantEach(t, 300, 1)
		if o, err = a.Backfill(r.Context(), draft); err != nil {
			t.Fatal(err)
		}
		if done := a.await(o.ID); done.State != Done || done.Skipped != 300 || done.Matched != 300 {
			t.Error(counts(done))
		}
		jobs.wantEach(t, 300, 1)
		r.end(job.OutcomeDelivered)
		if o, err = a.Backfill(r.Context(), draft); err != nil {
			t.Fatal(err)
		}
		if done := a.await(o.ID); done.Changed != 300 {
			t.Error(counts(done))
		}
		jobs.wantEach(t, 300, 2)
		r.wantBackfilled(plans, 600)
	})
}

// A backfill waits while its topic is full or draining, and says why. It registers each
// occurrence once.
func TestBackfillWaitsForItsTopic(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		plans, jobs := r.secondly(nil)
		a := r.node("a", plans)
		defer a.end()
		r.limit(store.Limits{Capacity: 7})
		o, err := a.Backfill(r.Context(), r.past(20, 1000))
		if err != nil {
			t.Fatal(err)
		}
		pass(5 * time.Second)
		waiting, err := a.Get(r.Context(), o.ID)
		if err != nil || waiting.State != Running || waiting.Changed != 0 || waiting.Failed != 0 || waiting.Why == "" {
			t.Error(counts(waiting), waiting.Why, err)
		}
		jobs.wantEach(t, 7, 1)
		r.limit(store.Limits{Draining: true})
		r.end(job.OutcomeDelivered)
		pass(5 * time.Second)
		jobs.wantEach(t, 7, 1)
		r.limit(store.Limits{})
		done := a.await(o.ID)
		if done.State != Done || done.Changed != 20 || done.Failed != 0 || done.Why != "" {
			t.Error(counts(done), done.Why)
		}
		jobs.wantEach(t, 20, 1)
		r.wantBackfilled(plans, 20)
	})
}

// The counts of many backfills stay exact when they are added up.
func TestManyBackfills(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		plans, _ := r.secondly(func(d *schedules.Draft) { d.Overlap = ptr("skip") })
		a := r.node("a", plans)
		defer a.end()
		for range 40 {
			o, err := a.Backfill(r.Context(), r.past(2, 1000))
			if err != nil {
				t.Fatal(err)
			}
			a.await(o.ID)
			r.end(job.OutcomeDelivered)
		}
		r.wantBackfilled(plans, 80)
	})
}

// A backfill ends when its schedule is deleted.
func TestBackfillOfADeletedSchedule(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		plans, _ := r.secondly(nil)
		a := r.node("a", plans)
		defer a.end()
		o, err := a.Backfill(r.Context(), r.past(600, 10))
		if err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second)
		if err := plans.Delete(r.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second)
		done, err := a.Get(r.Context(), o.ID)
		if err != nil || done.State != Failed || done.Why != "The schedule was deleted." || done.Changed > 40 {
			t.Error(counts(done), done.Why, err)
		}
	})
}

// How old the progress is, the store's clock says, which the node's may be ahead of.
func TestBackfillHoldsPurgeByTheStoresClock(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.behind = time.Hour
		m, _ := r.idle()
		for _, age := range []time.Duration{0, 2 * oldProgress} {
			now, err := store.Now(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			o := Operation{Action: Backfill, Backfill: &schedules.Backfill{}, State: Running, Owner: "another", UpdatedAt: now.Add(-age)}
			if err := m.age(t.Context(), []stored{{Value: o}}, false); err != nil || m.MayPurge() != (age == 0) {
				t.Errorf("progress of %v ago: may purge %v, %v", age, m.MayPurge(), err)
			}
		}
	})
}

// Ended jobs are kept while a backfill's progress is old.
func TestBackfillHoldsPurge(t *testing.T) {
	now := job.Instant(1_000_000_000_000)
	of := func(change func(o *Operation)) []stored {
		o := Operation{Action: Backfill, Backfill: &schedules.Backfill{}, State: Running, Owner: "a", UpdatedAt: now.Add(-2 * time.Minute)}
		change(&o)
		return []stored{{Value: o}}
	}
	for name, c := range map[string]struct {
		change func(o *Operation)
		want   bool
	}{
		"old":      {func(*Operation) {}, false},
		"stopped":  {func(o *Operation) { o.State = Stopped }, false},
		"written":  {func(o *Operation) { o.UpdatedAt = now }, true},
		"left":     {func(o *Operation) { o.Owner = "" }, true},
		"ended":    {func(o *Operation) { o.State = Done }, true},
		"a replay": {func(o *Operation) { o.Backfill = nil }, true},
	} {
		if got := mayPurge(of(c.change), now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
