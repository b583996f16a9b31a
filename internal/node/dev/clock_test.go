package dev

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// pass lets the machine's time of the bubble pass.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := job.Sleep(t.Context(), job.SystemClock(), d); err != nil {
		t.Fatal(err)
	}
}

// Timers of the exact clock fire when Advance reaches their times, and the others do not.
func TestExactTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(time.Now(), true)
		c.hold()
		loop, soon, late := c.NewTimer(time.Hour), c.Exact().NewTimer(time.Hour), c.Exact().NewTimer(time.Hour+time.Minute)
		c.set(job.InstantOf(c.Now().Add(time.Hour)))
		select {
		case at := <-soon.C():
			if !at.Equal(c.Now()) {
				t.Errorf("it fired at %v, want %v", at, c.Now())
			}
		default:
			t.Error("the timer of an hour has not fired")
		}
		select {
		case <-loop.C():
			t.Error("the timer of a loop has fired")
		case <-late.C():
			t.Error("a later timer has fired")
		default:
		}
		unaware := c.Exact().NewTimer(time.Hour) // of a loop that read the time before the clock was set
		c.nudge()
		select {
		case <-unaware.C():
		default:
			t.Error("a nudge does not wake a loop")
		}
		late, loop = c.Exact().NewTimer(time.Minute), c.NewTimer(time.Hour)
		if !loop.Stop() || !late.Stop() || soon.Stop() {
			t.Error("stopped timers that have fired, or did not stop one that waits")
		}
	})
}

func TestClockRunsAtItsSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := newClock(start, false)
		pass(t, time.Minute)
		if got := c.Now().Sub(start); got != time.Minute {
			t.Errorf("a minute is %v", got)
		}
		c.Run(60)
		if err := job.Sleep(t.Context(), c, time.Hour); err != nil {
			t.Fatal(err)
		}
		if got, took := c.Now().Sub(start), time.Since(start); got != 61*time.Minute || took != 2*time.Minute {
			t.Errorf("after an hour at speed 60, %v have passed in %v", got, took)
		}
		c.Freeze()
		pass(t, time.Minute)
		if got := c.Now().Sub(start); got != 61*time.Minute {
			t.Errorf("a frozen clock moved to %v", got)
		}
		if speed, frozen := c.Rate(); speed != 60 || !frozen {
			t.Errorf("speed %v, frozen %v", speed, frozen)
		}
	})
}

// A loop that sleeps by the clock looks at it after each change.
func TestClockWakesLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, start := newClock(time.Now(), false), time.Now()
		woken := make(chan time.Time, 1)
		for name, change := range map[string]func(){"a new speed": func() { c.Run(2) }, "a jump": func() { c.hold(); c.set(job.InstantOf(start.Add(time.Hour))); c.release() }} {
			timer := c.NewTimer(24 * time.Hour)
			go func() { woken <- <-timer.C() }()
			synctest.Wait()
			change()
			<-woken
			if took := time.Since(start); took != 0 || timer.Stop() {
				t.Errorf("%s woke no loop: %v", name, took)
			}
		}
	})
}

func TestSleepersSleepByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := newClock(start, true)
		done := make(chan error, 1)
		go func() { done <- c.sleep(t.Context(), start.Add(time.Minute)) }()
		pass(t, time.Hour)
		if n, next := c.asleep(); n != 1 || next != job.InstantOf(start.Add(time.Minute)) || len(done) != 0 {
			t.Errorf("%d asleep until %v", n, next.Time())
		}
		c.hold()
		c.set(job.InstantOf(start.Add(time.Minute)))
		if n, _ := c.asleep(); n != 0 { // at once: Advance counts on it
			t.Errorf("%d asleep", n)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		c.release()
		c.Run(60)
		began := time.Now()
		if err := c.sleep(t.Context(), c.Now().Add(time.Minute)); err != nil || time.Since(began) != time.Second {
			t.Errorf("%v; a minute at speed 60 took %v", err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.sleep(ctx, c.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v at the end of the context", err)
		}
		close(c.closed)
		if err := c.sleep(t.Context(), c.Now().Add(time.Hour)); !errors.Is(err, errClosed) {
			t.Errorf("got %v at the end of the node", err)
		}
	})
}

func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(true)
		begin := func(endpoint string) (context.Context, context.CancelFunc) {
			return d.Bound(t.Context(), endpoint, time.Hour)
		}
		a, ended := begin("http://a:80")
		b, cancel := begin("http://b:80")
		defer cancel()
		pass(t, patience/2)
		if left := d.cutOff(); left != patience/2 || a.Err() != nil {
			t.Errorf("%v left, %v", left, a.Err())
		}
		pass(t, patience/2)
		d.cutOff()
		if !errors.Is(a.Err(), context.DeadlineExceeded) || !errors.Is(b.Err(), context.DeadlineExceeded) {
			t.Errorf("%v and %v are no timeouts", a.Err(), b.Err())
		}
		ended()
		again, cancel := begin("http://a:80")
		defer cancel()
		other, cancel := begin("http://c:80")
		defer cancel()
		pass(t, impatience)
		d.cutOff()
		if !errors.Is(again.Err(), context.DeadlineExceeded) || other.Err() != nil {
			t.Errorf("an endpoint that hung: %v; another one: %v", again.Err(), other.Err())
		}
		d.forgive()
		if fresh, cancel := begin("http://a:80"); fresh.Err() == nil {
			defer cancel()
			pass(t, impatience)
			if d.cutOff(); fresh.Err() != nil {
				t.Error("it was not forgiven")
			}
		}
	})
}

// A request may begin after Advance chose how long to wait.
func TestLaterRequestsAreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(true)
		d.Attach(Parts{InFlight: func() int { return 1 }})
		d.hung["http://a:80"] = true
		ctx, cancel := context.WithCancel(t.Context())
		drained := make(chan error)
		go func() { drained <- d.drain(ctx) }()
		synctest.Wait()
		again, ended := d.Bound(t.Context(), "http://a:80", time.Hour)
		defer ended()
		pass(t, impatience)
		synctest.Wait()
		if !errors.Is(again.Err(), context.DeadlineExceeded) {
			t.Errorf("got %v after %v", again.Err(), impatience)
		}
		cancel()
		if err := <-drained; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestSinksAreBounded(t *testing.T) {
	s := newSinks(newClock(time.Now(), true))
	if _, err := s.Put("b", nil); err != nil {
		t.Fatal(err)
	}
	for i := range maxRequests + 1 {
		if _, err := s.take([]string{"a", "b"}[i%2], Request{Method: "POST"}); err != nil {
			t.Fatal(err)
		}
	}
	a, _ := s.Get("a")
	b, _ := s.Get("b")
	if len(a.Requests) != maxRequests/2 || len(b.Requests) != maxRequests/2 || a.Total != maxRequests/2+1 {
		t.Errorf("kept %d of %d and %d", len(a.Requests), a.Total, len(b.Requests))
	}
	s.Delete("a")
	for range 2 {
		if _, err := s.take("b", Request{Body: make([]byte, maxBytes-100)}); err != nil {
			t.Fatal(err)
		}
	}
	if b, _ = s.Get("b"); len(b.Requests) != 1 || len(s.order) != 1 || s.bytes != maxBytes-100 {
		t.Errorf("kept %d requests, %d in order, %d bytes", len(b.Requests), len(s.order), s.bytes)
	}
	for i := range MaxSinks - 1 {
		if _, err := s.Put("s"+string(rune('0'+i)), nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Put("more", nil); !errors.Is(err, ErrTooManySinks) {
		t.Errorf("got %v for one too many", err)
	}
}
