package schedules

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// Dates that a schedule no longer excepts do not fire late.
func TestPlainExceptedDatesDoNotFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // from 2000-01-01 00:00
		r := newRig(t, time.Hour)
		m := r.node("a", nil)
		d := every("1h")
		d.ExceptDates = []string{"2000-01-02"}
		r.set(m, "s", d)
		defer r.run(m)()
		pass(29*time.Hour + 30*time.Minute) // 05:30 of the date
		r.counters(m, "s", Counters{Fired: 23})
		d.ExceptDates = []string{"2000-01-03"}
		r.set(m, "s", d)
		pass(45 * time.Minute)
		r.counters(m, "s", Counters{Fired: 24})
		pass(18 * time.Hour) // 00:15 of the other date
		r.counters(m, "s", Counters{Fired: 41})
	})
}

// Skipped occurrences count when their time has come, and nothing else happens to them.
func TestSkippedOccurrencesDoNotFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		m := r.node("a", nil)
		defer r.run(m)()
		r.set(m, "s", every("1m"))
		pass(10 * time.Second)
		_, err := m.Skip(r.ctx, "s", nil)
		r.ok(err)
		at := time.Now().Truncate(time.Minute).Add(3 * time.Minute)
		_, err = m.Skip(r.ctx, "s", &at)
		r.ok(err)
		pass(time.Minute)
		s := r.get(m, "s")
		if s.Counters != (Counters{Skipped: 1}) || s.Last.Reason != ReasonByHand || len(s.Skips) != 1 {
			t.Errorf("after the first: %+v, %+v, %v", s.Counters, s.Last, s.Skips)
		}
		pass(2 * time.Minute)
		r.counters(m, "s", Counters{Fired: 1, Skipped: 2})
		if s := r.get(m, "s"); len(s.Skips) != 0 {
			t.Errorf("past ones are kept: %v", s.Skips)
		}
		pass(50 * time.Second)
		registered := time.Now()
		if _, err := m.Skip(r.ctx, "s", &registered); err == nil {
			t.Error("a registered occurrence was skipped")
		}
		_, err = m.Skip(r.ctx, "s", nil)
		r.ok(err)
		pass(90 * time.Second)
		r.counters(m, "s", Counters{Fired: 2, Skipped: 3})
	})
}

// A pause ends at its time: occurrences since then fire, and those of the pause do not, even if
// no node runs at that time.
func TestPauseEndsByItself(t *testing.T) {
	for _, away := range []time.Duration{0, 2 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, time.Hour)
			m := r.node("a", nil)
			d := every("1m")
			d.Policy = ptr("fire_all")
			r.set(m, "s", d)
			stop := r.run(m)
			pass(90 * time.Second)
			_, err := m.Pause(r.ctx, "s", job.Pause{Until: job.InstantOf(time.Now().Add(3 * time.Minute))})
			r.ok(err)
			if away > 0 {
				stop()
				pass(3*time.Minute + away)
				stop = r.run(r.node("b", nil))
			} else {
				pass(5 * time.Minute)
			}
			pass(10 * time.Second)
			stop()
			s := r.get(m, "s")
			if s.State != Active || s.Counters != (Counters{Fired: 3}) || s.Pause != nil {
				t.Errorf("%s, %+v, pause %v", s.State, s.Counters, s.Pause)
			}
		})
	}
}
