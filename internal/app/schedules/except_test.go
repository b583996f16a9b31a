package schedules

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/app/calendars"
	"github.com/duehook/duehook/internal/job"
)

// withCalendars gives a node calendars, in the store that all share.
func (r *rig) withCalendars(m *Manager) *calendars.Manager {
	c := calendars.New(r.store, nil)
	c.For(m)
	m.o.Calendars = c
	return c
}

func (r *rig) put(c *calendars.Manager, name string, dates ...string) {
	r.t.Helper()
	d := calendars.Draft{Dates: append([]string{}, dates...)}
	calendar, err := d.Calendar(name)
	r.ok(err)
	_, _, err = c.Put(r.ctx, calendar)
	r.ok(err)
}

// A change of a calendar on one node holds at once for the schedules that another looks after,
// and what it gives back of the past does not fire.
func TestPlainCalendarsHoldForAllSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // from 2000-01-01 00:00
		r := newRig(t, time.Hour)
		leads, other := r.node("a", nil), r.node("b", nil)
		r.withCalendars(leads)
		dates := r.withCalendars(other)
		r.put(dates, "feast", "2000-01-02")
		d := every("1h")
		d.Calendars = []string{"feast"}
		r.set(other, "s", d)
		defer r.run(leads)()
		pass(23*time.Hour + 30*time.Minute)
		r.counters(leads, "s", Counters{Fired: 23})
		pass(6 * time.Hour) // 05:30 of the feast
		r.counters(leads, "s", Counters{Fired: 23})
		r.put(dates, "feast", "2000-01-03")
		pass(45 * time.Minute) // 06:15: five that were excepted do not fire late
		r.counters(leads, "s", Counters{Fired: 24})
		pass(18 * time.Hour) // 00:15 of the other date
		r.counters(leads, "s", Counters{Fired: 41})
		r.put(dates, "feast")
		pass(time.Hour)
		r.counters(leads, "s", Counters{Fired: 42})
		r.put(dates, "feast", "2000-01-03")
		pass(3 * time.Hour)
		r.counters(leads, "s", Counters{Fired: 42})
	})
}

// A leader that did not hear of a changed calendar reads it before it fires.
func TestCalendarsAreReadBeforeFiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Hour)
		m := r.node("a", nil)
		dates := r.withCalendars(m)
		r.put(dates, "feast")
		d := every("20s")
		d.Calendars = []string{"feast"}
		r.set(m, "s", d)
		dates.For(silent{m})
		defer r.run(m)()
		pass(35 * time.Second) // all were read 5 s ago
		r.put(dates, "feast", "2000-01-01")
		pass(time.Minute)
		r.counters(m, "s", Counters{Fired: 1})
	})
}

// silent loses the message about a change.
type silent struct{ *Manager }

func (silent) Replan(context.Context) {}

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
