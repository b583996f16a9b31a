package sqlstore

import (
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
)

// after is a registration of a job that is due in a while.
func after(id string, d time.Duration) []store.Registration {
	regs := due(id, "http://a.example/", 1)
	regs[0].Spec.When = job.When{Delay: d}
	return regs
}

// A job that is due before the next poll wakes a waiting take. A later job does not.
func TestWhatWakesATake(t *testing.T) {
	s := openStore(t, newOptions())
	for _, c := range []struct {
		name  string
		delay time.Duration
		rings int
	}{
		{"due", 0, 1},
		{"before the shortest poll", pollWait - pollSpread - time.Millisecond, 1},
		{"before the longest poll", pollMost, 1},
		{"much later", time.Minute, 0},
	} {
		before := s.alarm.now()
		register(t, s, after(c.name, c.delay))
		must.Equal(t, c.name, s.alarm.now()-before, c.rings)
	}
}

// The call after a take asks nothing until something is due that the take knew of, or is written.
func TestTakeRests(t *testing.T) {
	s := openStore(t, newOptions())
	began := job.SystemClock().Now()
	takes := func(n int) {
		t.Helper()
		began = job.SystemClock().Now()
		must.Equal(t, "claims", len(take(t, s, terms(2)).Claims), n)
	}
	rests := func(name string, want bool) {
		t.Helper()
		a := &s.alarm
		if is := a.quiet.rings == a.now() && a.quiet.until.Sub(began) >= pollWait-pollSpread; is != want || !want && a.rest() > 0 {
			t.Errorf("%s: it rests: %v, until %v after it began", name, is, a.quiet.until.Sub(began))
		}
	}
	rests("before a take", false)
	register(t, s, due("t", "http://a.example/", 3))
	register(t, s, after("later", time.Hour))
	takes(2)
	rests("another job is due", false)
	takes(1)
	rests("the next job is due in an hour", true)
	takes(0)
	rests("a call that does not wait asks", true)
	register(t, s, after("far", time.Minute))
	rests("a job was registered that is due much later", true)
	register(t, s, after("soon", pollWait))
	rests("a job was registered that is due soon", false)
	takes(0)
	o := terms(2)
	o.Wait = time.Hour
	must.Equal(t, "claims of a call that waits", len(take(t, s, o).Claims), 1)
	o.Wait = time.Millisecond
	must.Equal(t, "claims of a call that waits for less", len(take(t, s, o).Claims), 0)
}
