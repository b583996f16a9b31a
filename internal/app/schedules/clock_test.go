package schedules

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/leader"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store/diskstore"
)

// stepped is a clock that can be set.
type stepped struct {
	job.Clock
	ahead atomic.Int64
}

func (c *stepped) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.ahead.Load())) }

func (c *stepped) step(d time.Duration) { c.ahead.Add(int64(d)) }

func steppedRig(t *testing.T) (*rig, *stepped) {
	t.Helper()
	clock := &stepped{Clock: job.SystemClock()}
	s := testenv.Store(t, diskstore.Options{Retention: 24 * time.Hour, Clock: clock})
	jobs, err := app.New(app.Options{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t, t.Context(), s, &recorder{App: jobs, created: map[job.Key][]string{}}}, clock
}

// wantOnce checks that each job was registered once, and counted.
func (r *rig) wantOnce(m *Manager, name string, off int) {
	r.t.Helper()
	r.jobs.mu.Lock()
	defer r.jobs.mu.Unlock()
	for key, uids := range r.jobs.created {
		if len(uids) != 1 {
			r.t.Errorf("%s was registered %d times", key, len(uids))
		}
	}
	if n := int(r.get(m, name).Counters.Fired); n > len(r.jobs.created) || n < len(r.jobs.created)-off {
		r.t.Errorf("%d fired, %d were registered", n, len(r.jobs.created))
	}
}

// A node that cannot execute schedules logs it once.
func TestOutageOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := steppedRig(t)
		m := r.node("a", nil)
		var log strings.Builder
		m.log = slog.New(slog.NewTextHandler(&log, nil))
		stop := r.run(m)
		r.set(m, "s", every("10s"))
		pass(15 * time.Second)
		r.ok(r.store.Close())
		pass(time.Minute)
		stop()
		if n := strings.Count(log.String(), `"failing; retrying" what="executing schedules"`); n != 1 {
			t.Errorf("logged %d times:\n%s", n, log.String())
		}
	})
}

// The store's clock steps back: nothing comes again, and the schedule waits.
func TestTheClockGoesBack(t *testing.T) {
	for _, resumes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r, clock := steppedRig(t)
			m := r.node("a", nil)
			defer r.run(m)()
			r.set(m, "s", every("10s"))
			pass(65 * time.Second)
			clock.step(-time.Hour)
			fired := r.get(m, "s").Counters.Fired
			pass(15 * time.Second)
			s := r.get(m, "s")
			if s.Counters.Fired != fired || s.LastError == nil || s.LastError.Reason != ReasonClock {
				t.Errorf("%+v, %+v", s.Counters, s.LastError)
			}
			if resumes {
				_, err := m.Resume(t.Context(), "s")
				r.ok(err)
				pass(31 * time.Second)
				if s := r.get(m, "s"); s.LastError != nil || s.Counters.Fired <= fired-10 || s.State != Active {
					t.Errorf("%+v, %+v", s.Counters, s.LastError)
				}
				return
			}
			pass(15 * time.Second)
			clock.step(time.Hour)
			if s := r.get(m, "s"); s.LastError != nil {
				t.Errorf("the clock came back: %+v", s.LastError)
			}
			clock.step(-time.Hour)
			pass(2 * time.Hour)
			s = r.get(m, "s")
			if s.LastError != nil || s.Counters.Fired < fired+300 || s.Counters.Missed != 0 {
				t.Errorf("%+v, %+v", s.Counters, s.LastError)
			}
			r.wantOnce(m, "s", 0)
		})
	}
}

// A schedule is resumed after the clock went back. Occurrences whose jobs there are do not fire again.
func TestResumeAfterTheClockWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, clock := steppedRig(t)
		m := r.node("a", nil)
		defer r.run(m)()
		r.set(m, "s", every("10s"))
		pass(5 * time.Minute)
		fired := r.get(m, "s").Counters.Fired
		clock.step(-3 * time.Minute)
		_, err := m.Resume(t.Context(), "s")
		r.ok(err)
		pass(2*time.Minute + 30*time.Second)
		if n := r.jobs.registered(); n != int(fired) {
			t.Errorf("%d jobs, before the clock went back %d", n, fired)
		}
		pass(time.Minute)
		if n := r.jobs.registered(); n <= int(fired) {
			t.Errorf("%d jobs after the clock came back", n)
		}
	})
}

// The store's clock steps ahead: what it passed is late.
func TestTheClockGoesAhead(t *testing.T) {
	for policy, late := range map[string]int64{"fire_once": 1, "skip": 0, "fire_all": 100} {
		synctest.Test(t, func(t *testing.T) {
			r, clock := steppedRig(t)
			m := r.node("a", nil)
			defer r.run(m)()
			d := every("10s")
			d.Policy = &policy
			r.set(m, "s", d)
			pass(61 * time.Second)
			begin := r.get(m, "s").Counters.Fired
			clock.step(time.Hour)
			pass(20 * time.Second)
			c := r.get(m, "s").Counters
			// About 360 occurrences were passed, of which some were registered before.
			if c.Missed < 340-late || c.Missed > 360-late || c.Fired < begin+late || c.Fired > begin+late+15 {
				t.Errorf("%s: %+v, before %d", policy, c, begin)
			}
			r.wantOnce(m, "s", 0)
		})
	}
}

// The node at work stands still for longer than its lease, at any step, and then goes on:
// its late writes change nothing.
func TestANodeThatStoodStill(t *testing.T) {
	for _, step := range []string{"registered", "written"} {
		for _, overlap := range []string{"allow", "skip"} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, time.Hour)
				var frozen atomic.Bool
				elected := leader.New(leader.Options{Store: r.store, Node: "a", Clock: job.SystemClock()})
				a, err := New(Options{Store: r.store, Jobs: r.jobs, ID: "a", Leader: elected, Logger: slog.New(slog.DiscardHandler), fail: func(now string) error {
					if now == step && frozen.Swap(false) {
						sleep(40 * time.Second)
					}
					return nil
				}})
				r.ok(err)
				b := r.node("b", nil)
				stopA := r.run(a)
				d := every("10s")
				d.Overlap, d.Policy = &overlap, ptr("fire_all")
				begin := r.set(a, "s", d).CreatedAt
				r.follow(15 * time.Second)
				stopB := r.run(b)
				r.follow(15 * time.Second)
				frozen.Store(true)
				r.follow(120 * time.Second)
				if frozen.Load() {
					t.Fatalf("%s: nothing stood still", step)
				}
				stopA()
				stopB()
				r.wantOnce(b, "s", 0)
				s := r.get(b, "s")
				c := s.Counters
				end := r.now().Time()
				if n := s.Rules.Table.Count(begin.Time(), end) - s.Rules.Undecided(s.progress(), end); c.Fired+c.Missed+c.Skipped != n || c.Failed != 0 {
					t.Errorf("%s, %s: %+v of %d", step, overlap, c, n)
				}
				if n := s.Rules.Undecided(s.progress(), end.Add(-20*time.Second)); n > 0 {
					t.Errorf("%s, %s: %d occurrences are undecided", step, overlap, n)
				}
			})
		}
	}
}
