package carrier

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// holds reports whether the carrier shows itself as the holder of the lock.
func (r *running) holds() bool { return testutil.ToFloat64(r.metrics.lockHeld(0)) == 1 }

func TestLockIsTakenExtendedAndGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		c := start(t, s)
		pass(12 * time.Second)
		if !c.holds() {
			t.Error("the gauge does not show the lock")
		}
		c.stop()
		if c.holds() {
			t.Error("the gauge shows a lock that was given back")
		}
		if diff := cmp.Diff([]string{"lock", "extend", "extend", "unlock"}, s.mutex.called()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if !s.mutex.live {
			t.Error("the lock was given back with a context that had ended")
		}
		next := start(t, s)
		synctest.Wait()
		if !next.holds() {
			t.Error("the next carrier does not get the lock at once")
		}
	})
}

func TestStandbyStaysBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.mutex.takeAway(time.Hour) // its holder is dead
		c := start(t, s)
		for range 50 {
			pass(time.Duration(rand.Int64N(int64(time.Second))))
			s.add(0, true)
			s.add(time.Duration(rand.Int64N(int64(time.Second))), true)
		}
		pass(2 * time.Second)
		late := s.late()
		if len(late) != 100 {
			t.Fatalf("%d of 100 jobs were carried", len(late))
		}
		if slices.Min(late) == 0 || slices.Max(late) > defaultLag {
			t.Errorf("late by %v to %v, want more than 0 and at most %v", slices.Min(late), slices.Max(late), defaultLag)
		}
		if c.holds() {
			t.Error("the gauge shows a lock that another holds")
		}
	})
}

func TestStandbyLooksSeldomWhileOthersWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		// looks counts the looks at a steady flow of jobs.
		looks := func() int {
			began := s.clock.Now()
			for range 1000 {
				s.add(0, true)
				pass(10 * time.Millisecond)
			}
			s.drain()
			return len(s.since(began))
		}
		start(t, s)
		pass(300 * time.Millisecond)
		alone := looks()
		start(t, s)
		synctest.Wait()
		checkAtMost(t, "looks of the standby in 10s", looks()-alone, int(10*time.Second/defaultLag))
	})
}

func TestTakingOverLooksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.mutex.takeAway(defaultLockTTL - time.Millisecond)
		start(t, s, func(o *Options) { o.Poll = time.Hour })
		pass(defaultLockTTL - time.Millisecond)
		s.add(0, false)
		pass(time.Millisecond)
		synctest.Wait()
		if diff := cmp.Diff([]time.Duration{time.Millisecond}, s.late()); diff != "" {
			t.Errorf("lateness (-want +got):\n%s", diff)
		}
	})
}

func TestLostLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		c := start(t, s)
		pass(time.Second)
		s.mutex.takeAway(time.Hour)
		pass(defaultLockTTL / 3)
		if c.holds() {
			t.Error("the gauge shows a lock that was lost")
		}
		pass(standbyPolls * defaultPoll)
		s.add(0, true)
		pass(time.Second)
		if diff := cmp.Diff([]time.Duration{defaultLag}, s.late()); diff != "" {
			t.Errorf("lateness (-want +got):\n%s", diff)
		}
		c.stop()
		if slices.Contains(s.mutex.called(), "unlock") {
			t.Error("a lost lock was given back")
		}
	})
}

func TestExpiredLockIsTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		c := start(t, s)
		pass(time.Second)
		s.mutex.set(func() { s.mutex.holder = nil })
		pass(defaultLockTTL / 3)
		if !c.holds() {
			t.Error("a lock that expired was not taken again when it could not be extended")
		}
	})
}

func TestCarriesWithoutLock(t *testing.T) {
	for _, tc := range []struct {
		name string
		fail func(m *fakeMutex)
	}{
		{"refused", func(m *fakeMutex) { m.err = errDown }},
		{"hanging", func(m *fakeMutex) { m.hang = true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeStore()
				s.mutex.set(func() { tc.fail(&s.mutex) })
				c := start(t, s)
				pass(defaultLockTTL/3 + defaultLag) // when a hanging call has been given up
				for range 20 {
					s.add(time.Duration(rand.Int64N(int64(time.Minute))), true)
				}
				pass(time.Minute)
				late := s.late()
				if len(late) != 20 || slices.Max(late) > 0 {
					t.Errorf("without a lock, jobs were late by %v", late)
				}
				if c.holds() {
					t.Error("the gauge shows a lock that is not held")
				}
				s.mutex.set(func() { s.mutex.err, s.mutex.hang = nil, false })
				pass(defaultLockTTL)
				if !c.holds() {
					t.Error("the lock was not taken when it could be had again")
				}
				const fails = "WARN failing; retrying: taking the carrier's lock"
				if n := c.logs.count(fails); n != 1 {
					t.Errorf("the failure was logged %d times, want once", n)
				}
			})
		})
	}
}

func TestStaysBehindUntilTheLockServiceAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.mutex.set(func() { s.mutex.hang = true })
		start(t, s)
		synctest.Wait()
		s.add(0, true)
		pass(time.Second)
		if diff := cmp.Diff([]time.Duration{defaultLag}, s.late()); diff != "" {
			t.Errorf("lateness (-want +got):\n%s", diff)
		}
	})
}

func TestFailedExtendKeepsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		c := start(t, s)
		pass(time.Second)
		s.mutex.set(func() { s.mutex.err = errDown })
		pass(defaultLockTTL / 3)
		if c.holds() {
			t.Error("the gauge shows a lock that could not be extended")
		}
		if c.logs.count("WARN failing; retrying: taking the carrier's lock") != 1 {
			t.Error("the failure was not logged")
		}
		s.mutex.set(func() { s.mutex.err = nil })
		pass(defaultLockTTL / 3)
		if diff := cmp.Diff([]string{"lock", "extend", "extend"}, s.mutex.called()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if !c.holds() {
			t.Error("the lock was lost although it was still ours")
		}
	})
}

func TestLockThatCannotBeGivenBack(t *testing.T) {
	for name, hang := range map[string]bool{"refused": false, "hanging": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeStore()
				c := start(t, s)
				pass(time.Second)
				s.mutex.set(func() { s.mutex.hang, s.mutex.err = hang, errDown })
				began := s.clock.Now()
				c.stop()
				if d := s.clock.Now().Sub(began); d > unlockTimeout {
					t.Errorf("Run took %v to return", d)
				}
				if c.logs.count("WARN cannot release the carrier's lock; it expires") != 1 {
					t.Errorf("logged %q", c.logs.lines)
				}
			})
		})
	}
}

// TestCarrierKilled: a holder that dies leaves its lock behind. The others
// carry at most the lag late while it lasts, and on time after that.
func TestCarrierKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		killed := start(t, s)
		synctest.Wait()
		start(t, s)
		start(t, s)
		const jobs, every = 4000, 10 * time.Millisecond
		for i := range jobs {
			s.add(time.Duration(i)*every, false)
		}
		s.set(func() { s.tell(0) })
		go func() {
			for range jobs {
				pass(every)
				s.drain()
			}
		}()
		pass(10 * time.Second)
		s.mutex.set(func() { s.mutex.holder = outsider })
		killed.stop()
		pass(jobs * every)
		late := s.late()
		if len(late) != jobs {
			t.Fatalf("%d of %d jobs were carried", len(late), jobs)
		}
		lagging := 0
		for i, l := range late {
			if l > roundGap {
				lagging++
				if at := time.Duration(i) * every; at < 9*time.Second || at > 10*time.Second+defaultLockTTL*4/3 {
					t.Errorf("the job due at %v was late by %v", at, l)
				}
			}
		}
		if lagging == 0 || slices.Max(late) > defaultLag {
			t.Errorf("%d jobs were late by up to %v, want some by at most %v", lagging, slices.Max(late), defaultLag)
		}
	})
}
