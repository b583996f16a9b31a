package schedules

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
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
	now, err := store.Now(r.ctx, r.store)
	r.ok(err)
	return now
}

// A change holds for the occurrences that are not registered yet, those that wait for their
// jitter included.
func TestAChangeOfTheJobHoldsForPendingOccurrences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		m := r.node("a", nil)
		defer r.run(m)()
		d := every("10s")
		d.Jitter = ptr(10 * time.Minute)
		begin := r.set(m, "s", d).CreatedAt
		got := r.follow(5 * time.Minute)
		other := every("10s")
		other.Jitter, other.Job.Destination = d.Jitter, ptr(job.Destination("http://other.example/"))
		changed := r.set(m, "s", other).UpdatedAt
		got = append(got, r.follow(15*time.Minute)...)
		page, err := listing.List(r.ctx, r.store, store.Query{Schedule: "s", Limit: 1000})
		r.ok(err)
		for _, j := range page.Jobs {
			if old := j.Spec.Destination == *d.Job.Destination; old != (j.DueAt <= changed) {
				t.Errorf("%s, due %v, goes to %s", j.ID, j.DueAt.Time(), j.Spec.Destination)
			}
		}
		slices.Sort(got)
		want := []int64{}
		rules := r.get(m, "s").Rules
		for at := range rules.Table.Between(begin.Time(), r.now().Time()) {
			if !schedule.Due("s", at, *d.Jitter).After(r.now().Time()) {
				want = append(want, at.Unix())
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d arrived, want %d", len(got), len(want))
		}
	})
}

// Another timetable begins behind the change. What waits for its jitter in the old one is
// skipped, and what is registered stays.
func TestAnotherTimetableSkipsPendingOccurrences(t *testing.T) {
	for name, alter := range map[string]func(d *Draft){
		"times":  func(d *Draft) { d.Every = ptr(7 * time.Second) },
		"jitter": func(d *Draft) { d.Jitter = nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, time.Hour)
			m := r.node("a", nil)
			defer r.run(m)()
			d := every("10s")
			d.Jitter = ptr(10 * time.Minute)
			begin := r.set(m, "s", d).CreatedAt
			r.follow(5 * time.Minute)
			other := every("10s")
			other.Jitter = d.Jitter
			alter(other)
			changed := r.set(m, "s", other)
			if changed.Skipped < 15 {
				t.Errorf("%s: %+v", name, changed.Counters)
			}
			r.follow(30 * time.Minute)
			s := r.get(m, "s")
			if n := int64(r.jobs.registered()); s.Fired != n {
				t.Errorf("%s: %+v, %d were registered", name, s.Counters, n)
			}
			end := r.now()
			total := (changed.UpdatedAt.Time().Unix()/10 - begin.Time().Unix()/10) + s.Rules.Table.Count(changed.UpdatedAt.Time(), end.Time()) - s.Rules.Undecided(s.progress(), end.Time())
			if n := s.Fired + s.Skipped; n < total-1 || n > total+1 || s.Missed+s.Failed != 0 {
				t.Errorf("%s: %+v of %d", name, s.Counters, total)
			}
		})
	}
}

// The next occurrence has the definition of a change that was made just before it.
func TestAChangeJustBeforeAnOccurrence(t *testing.T) {
	at := time.Date(2000, 1, 1, 0, 0, 20, 0, time.UTC).Unix() // the clock of a bubble begins at midnight
	for _, c := range []struct {
		name   string
		change func(r *rig, m *Manager) error
		want   []int64
		counts Counters
	}{
		{"another topic", func(r *rig, m *Manager) error {
			d := every("10s")
			d.Job.Topic = ptr("other")
			r.set(m, "s", d)
			return nil
		}, []int64{at, at + 10}, Counters{Fired: 3}},
		{"other times with this one", func(r *rig, m *Manager) error {
			r.set(m, "s", every("5s"))
			return nil
		}, []int64{at, at + 5, at + 10}, Counters{Fired: 4}},
		{"other times without it", func(r *rig, m *Manager) error {
			r.set(m, "s", every("9s"))
			return nil
		}, []int64{at + 7}, Counters{Fired: 2}},
		{"pause", func(r *rig, m *Manager) error {
			_, err := m.Pause(r.ctx, "s", job.Pause{})
			return err
		}, nil, Counters{Fired: 1}},
		{"pause and resume", func(r *rig, m *Manager) error {
			if _, err := m.Pause(r.ctx, "s", job.Pause{}); err != nil {
				return err
			}
			_, err := m.Resume(r.ctx, "s")
			return err
		}, []int64{at, at + 10}, Counters{Fired: 3}},
		{"delete", func(r *rig, m *Manager) error { return m.Delete(r.ctx, "s") }, nil, Counters{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, time.Hour)
				m := r.node("a", nil)
				defer r.run(m)()
				r.set(m, "s", every("10s"))
				pass(15 * time.Second)
				r.deliverAll()
				if next := r.next(m); next.Unix() != at {
					t.Fatalf("the next is at %v", next)
				}
				pass(time.Until(r.next(m)) - time.Millisecond)
				r.ok(c.change(r, m))
				if got := r.follow(12 * time.Second); !slices.Equal(got, c.want) {
					t.Errorf("%v arrived, want %v", got, c.want)
				}
				if c.counts != (Counters{}) {
					r.counters(m, "s", c.counts)
				}
			})
		})
	}
}

// A job that is registered goes on, whatever becomes of its schedule.
func TestARegisteredJobGoesOn(t *testing.T) {
	for name, change := range map[string]func(r *rig, m *Manager) error{
		"pause":  func(r *rig, m *Manager) error { _, err := m.Pause(r.ctx, "s", job.Pause{}); return err },
		"delete": func(r *rig, m *Manager) error { return m.Delete(r.ctx, "s") },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, time.Hour)
			m := r.node("a", nil)
			defer r.run(m)()
			r.set(m, "s", every("10s"))
			at := r.next(m)
			pass(time.Until(at))
			r.ok(change(r, m))
			if got := r.follow(20 * time.Second); !slices.Equal(got, []int64{at.Unix()}) {
				t.Errorf("%s: %v arrived", name, got)
			}
		})
	}
}

// A waiting occurrence that its topic refuses is skipped by a change of the timetable.
func TestAChangeEndsTheTriesAtAFullTopic(t *testing.T) {
	for _, overlap := range []string{"allow", "skip"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, time.Hour)
			m := r.node("a", nil)
			defer r.run(m)()
			r.ok(r.store.SetLimits(r.ctx, "default", store.Limits{Draining: true}))
			d := every("20s")
			d.Overlap, d.EndAt = &overlap, ptr(r.now().Time().Truncate(20*time.Second).Add(50*time.Second))
			r.set(m, "s", d)
			pass(55 * time.Second)
			if s := r.get(m, "s"); s.State != Active {
				t.Errorf("%s while occurrences are undecided", s.State)
			}
			r.set(m, "s", every("1h"))
			r.counters(m, "s", Counters{Skipped: 2})
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
