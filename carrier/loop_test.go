package carrier

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/store"
)

func TestIdleCost(t *testing.T) {
	for _, tc := range []struct {
		name         string
		taken        bool // another holds the lock
		looks, locks int
	}{
		{name: "holder", looks: 3600, locks: 720},
		{name: "standby", taken: true, looks: 1200, locks: 720},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeStore()
				for i := range 10_000 {
					s.waiting = append(s.waiting, s.clock.Now().Add(2*time.Hour+time.Duration(i)*time.Second))
				}
				if tc.taken {
					s.mutex.takeAway(24 * time.Hour)
				}
				c := start(t, s)
				pass(time.Hour)
				c.stop()
				checkAtMost(t, "looks", len(s.since(time.Time{})), tc.looks+2)
				checkAtMost(t, "calls of the lock", len(s.mutex.called()), tc.locks+2)
				checkAtMost(t, "samples of the depth", s.depths, 241)
				checkAtMost(t, "purges", s.purges, 121)
			})
		})
	}
}

// checkAtMost fails when got is more than limit, or so little that nothing runs.
func checkAtMost(t *testing.T, what string, got, limit int) {
	t.Helper()
	if got > limit || got < limit/2 {
		t.Errorf("%d %s, want about %d and no more", got, what, limit)
	}
}

func TestOverdueJobsAreCarriedInOneGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		for range 5000 {
			s.add(-time.Minute, false)
		}
		began := s.clock.Now()
		start(t, s, func(o *Options) { o.Cap = 10_000 })
		synctest.Wait()
		if n := len(s.late()); n != 5000 {
			t.Errorf("%d of 5000 overdue jobs were carried without a pause", n)
		}
		if now := s.clock.Now(); now != began {
			t.Errorf("it took %v", now.Sub(began))
		}
	})
}

func TestFullListIsLeftToDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		for range 3000 {
			s.add(0, false)
		}
		c := start(t, s)
		pass(100 * time.Millisecond)
		if n := len(s.late()); n != 1000 {
			t.Fatalf("%d hints on a list of at most 1000", n)
		}
		checkAtMost(t, "looks in 100ms at a full list", len(s.since(time.Time{})), 22)
		s.drain()
		pass(2 * fullPause)
		if n := len(s.late()); n != 2000 {
			t.Errorf("%d jobs carried, want 2000 soon after the list was drained", n)
		}
		c.stop()
		if n := int(testutil.ToFloat64(c.metrics.carried.WithLabelValues("waiting"))); n != 2000 {
			t.Errorf("duehook_carried_total is %d, want 2000", n)
		}
	})
}

func TestBusyLoopIsImpossible(t *testing.T) {
	// Whatever a store answers, a round that carried nothing is followed by a pause.
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		c, err := New(Options{Store: s, Lists: s})
		if err != nil {
			t.Fatal(err)
		}
		l := c.newLoop(0)
		for _, behind := range []bool{false, true} {
			l.lock.behind.Store(behind)
			for _, full := range []bool{false, true} {
				for _, wait := range []time.Duration{-1, 0, 1, time.Millisecond, time.Second, time.Hour} {
					pause := l.pause(store.CarryResult{Full: full, Wait: wait})
					if pause <= 0 || pause > standbyPolls*defaultPoll+defaultLag {
						t.Errorf("behind %v, full %v, wait %v: a pause of %v", behind, full, wait, pause)
					}
				}
			}
		}
	})
}

func TestFullButKnowsOfSomethingSooner(t *testing.T) {
	// A lane at its limit must not delay another lane's job.
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.parked = true
		for i := range 100 {
			s.add(time.Duration(i)*2*time.Millisecond, false)
		}
		start(t, s)
		pass(time.Second)
		if late := s.late(); len(late) != 100 || slices.Max(late) > 0 {
			t.Errorf("jobs beside a lane at its limit were late by %v", late)
		}
	})
}

func TestBurstOfWakeupsIsCarriedInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		start(t, s, func(o *Options) { o.Cap = 100_000 })
		pass(500 * time.Millisecond)
		began := s.clock.Now()
		for range 2000 {
			s.add(0, true)
			pass(50 * time.Microsecond)
		}
		pass(2 * roundGap)
		checkAtMost(t, "looks in 100ms of wake-ups", len(s.since(began)), 102)
		if late := s.late(); len(late) != 2000 || slices.Max(late) > roundGap {
			t.Errorf("%d jobs carried, late by up to %v", len(late), slices.Max(late))
		}
	})
}

func TestResumesAfterStoreWasDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		c := start(t, s)
		pass(time.Minute)
		s.fail(errDown)
		s.mutex.set(func() { s.mutex.err = errDown })
		began := s.clock.Now()
		pass(time.Hour)
		checkAtMost(t, "tries in an hour without a store", len(s.since(began)), 4700)
		s.add(0, false)
		s.fail(nil)
		s.mutex.set(func() { s.mutex.err = nil })
		pass(time.Second)
		if late := s.late(); len(late) != 1 {
			t.Error("nothing was carried within a second of the store's return")
		}
		pass(time.Hour)
		for _, line := range []string{
			"WARN failing; retrying: carrying",
			"INFO working again: carrying",
			"WARN failing; retrying: taking the carrier's lock",
			"INFO working again: taking the carrier's lock",
		} {
			if n := c.logs.count(line); n != 1 {
				t.Errorf("%q was logged %d times, want once", line, n)
			}
		}
	})
}

func TestBriefOutageIsSoonOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		start(t, s)
		for range 3 { // the pauses that one outage grew are not the next one's
			s.fail(errDown)
			pass(time.Minute)
			s.fail(nil)
			pass(time.Minute)
		}
		s.fail(errDown)
		s.add(0, true)
		pass(loops.FirstPause / 2)
		s.fail(nil)
		pass(loops.FirstPause)
		if n := len(s.late()); n != 1 {
			t.Error("the job was not carried at the second try")
		}
	})
}

func TestWakeupsAreSubscribedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.add(24*time.Hour, false)
		c := start(t, s, func(o *Options) { o.Poll = time.Hour })
		for _, err := range []error{errDown, errDown, nil} {
			pass(time.Second)
			s.add(0, false) // its wake-up is lost
			s.cut <- err
		}
		pass(time.Second)
		synctest.Wait()
		if n := s.subscribed; n != 4 {
			t.Errorf("subscribed %d times, want 4", n)
		}
		if n := len(s.late()); n != 3 {
			t.Errorf("%d of 3 jobs that came while nobody listened were carried", n)
		}
		s.add(0, true)
		synctest.Wait()
		if n := len(s.late()); n != 4 {
			t.Error("the wake-up of the new subscription was not heard")
		}
		const fails, works = "WARN failing; retrying: listening for wake-ups", "INFO working again: listening for wake-ups"
		if c.logs.count(fails) != 1 || c.logs.count(works) != 1 {
			t.Errorf("logged %q", c.logs.lines)
		}
		pass(2 * settled)
		s.cut <- errDown
		pass(time.Second)
		if c.logs.count(fails) != 2 {
			t.Error("a second outage was not logged")
		}
		s.cut <- errDown
		pass(2 * settled)
		s.cut <- errDown
		pass(time.Second)
		if c.logs.count(fails) != 3 {
			t.Error("an outage after a quiet subscription was not logged")
		}
	})
}

func TestWakeupsOfUnknownShardsAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		start(t, s)
		pass(time.Second / 2)
		began := s.clock.Now()
		s.set(func() {
			s.tell(-1)
			s.tell(1)
		})
		synctest.Wait()
		if n := len(s.since(began)); n != 0 {
			t.Errorf("%d looks", n)
		}
	})
}

func TestEveryShardIsCarried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.shards = 3
		c := start(t, s)
		synctest.Wait()
		if n := len(s.since(time.Time{})); n != 3 {
			t.Errorf("%d looks at 3 shards", n)
		}
		if n := testutil.ToFloat64(c.metrics.rounds); n != 3 {
			t.Errorf("duehook_carry_rounds_total is %v, want 3", n)
		}
		if n := testutil.CollectAndCount(c.metrics.held); n != 3 {
			t.Errorf("%d series of duehook_carrier_lock_held, want 3", n)
		}
	})
}

func TestRunDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		c := start(t, s)
		pass(time.Minute)
		s.set(func() { s.stuck = true })
		pass(time.Minute)
		began := s.clock.Now()
		c.stop()
		if d := s.clock.Now().Sub(began); d != 0 {
			t.Errorf("Run took %v to return", d)
		}
		if c.logs.count("WARN failing; retrying: carrying") != 0 {
			t.Error("the call that the shutdown gave up was logged as a failure")
		}
	})
}

func TestTermsOfCarrying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			name string
			set  func(*Options)
			want store.CarryOptions
		}{
			{"defaults", func(*Options) {}, store.CarryOptions{
				Cap: 1000, Visibility: 15 * time.Second, FlightLimits: store.FlightLimits{HalfOpenLimit: 3},
			}},
			{"set", func(o *Options) {
				o.Cap, o.Visibility, o.EndpointLimit, o.HalfOpenLimit = 7, time.Second, 8, 2
				o.TopicLimits = map[string]int{"t": 9}
			}, store.CarryOptions{
				Cap: 7, Visibility: time.Second, FlightLimits: store.FlightLimits{EndpointLimit: 8, TopicLimits: map[string]int{"t": 9}, HalfOpenLimit: 2},
			}},
		} {
			s := newFakeStore()
			c := start(t, s, tc.set)
			synctest.Wait()
			c.stop()
			if diff := cmp.Diff(tc.want, s.terms); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.name, diff)
			}
		}
	})
}

func TestJobsCarriedAgainAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		c := start(t, s)
		for _, tc := range []struct {
			from job.State
			jobs int
		}{{job.Waiting, 1}, {job.Retrying, 2}, {job.Ready, 3}, {job.Running, 4}} {
			s.set(func() { s.from = tc.from })
			for range tc.jobs {
				s.add(0, true)
			}
			pass(2 * roundGap)
			if n := int(testutil.ToFloat64(c.metrics.carried.WithLabelValues(tc.from.String()))); n != tc.jobs {
				t.Errorf("%d jobs carried from %v, want %d", n, tc.from, tc.jobs)
			}
		}
		for what, want := range map[string]int{"hint": 3, "lease": 4} {
			if n := int(testutil.ToFloat64(c.metrics.again.WithLabelValues(what))); n != want {
				t.Errorf("duehook_carried_again_total{what=%q} is %d, want %d", what, n, want)
			}
		}
	})
}

// TestLateness holds the bounds of lateness against random arrivals, with and
// without wake-ups, on any number of carriers whose lock may fail.
func TestLateness(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		arrivals := rapid.SliceOfN(rapid.Custom(drawArrival), 1, 50).Draw(rt, "arrivals")
		carriers := rapid.IntRange(1, 3).Draw(rt, "carriers")
		locks := rapid.SampledFrom([]string{"work", "fail", "hang"}).Draw(rt, "locks")
		synctest.Test(t, func(t *testing.T) {
			s := newFakeStore()
			switch locks {
			case "fail":
				s.mutex.err = errDown
			case "hang":
				s.mutex.hang = true
			}
			for range carriers {
				start(t, s)
			}
			synctest.Wait()
			var allowed time.Duration
			if locks == "hang" {
				allowed = defaultLag // while the first call has not timed out
			}
			for _, a := range arrivals {
				pass(a.gap)
				s.add(a.delay, !a.lost)
				if a.lost {
					allowed = max(allowed, defaultPoll+defaultLag)
					if locks == "hang" {
						allowed = standbyPolls*defaultPoll + defaultLag
					}
				}
			}
			pass(time.Minute)
			late := s.late()
			if len(late) != len(arrivals) {
				rt.Errorf("%d of %d jobs were carried", len(late), len(arrivals))
			}
			if worst := slices.Max(late); worst > allowed+roundGap {
				rt.Errorf("late by up to %v, allowed %v", worst, allowed)
			}
		})
	})
}

type arrival struct {
	gap, delay time.Duration
	lost       bool // its wake-up
}

func drawArrival(t *rapid.T) arrival {
	millis := func(name string) time.Duration {
		return time.Duration(rapid.IntRange(0, 5000).Draw(t, name)) * time.Millisecond
	}
	return arrival{gap: millis("gap"), delay: millis("delay"), lost: rapid.Bool().Draw(t, "lost")}
}
