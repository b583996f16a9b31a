package dev

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/loops"
)

// MaxSpeed bounds how many times as fast as the machine's a Clock runs: a poll each second then
// takes place each 100 µs.
const MaxSpeed = 10_000

// Clock is a clock that runs at a speed, stands still or jumps. It never goes back. Its timers
// pace loops, which look at the time when they wake. So they run by the machine's clock, divided
// by the speed, and all of them fire after a jump.
type Clock struct {
	mu       sync.Mutex
	at       time.Time // the clock's time …
	since    time.Time // … at this time of the machine
	speed    float64
	frozen   bool
	held     bool // while Advance moves it
	timers   map[*timer]struct{}
	sleepers map[*sleeper]struct{}
	slept    loops.Signal  // a sleeper came
	closed   chan struct{} // ends all sleep
}

func newClock(at time.Time, frozen bool) *Clock {
	return &Clock{
		at: at, since: machineTime(), speed: 1, frozen: frozen,
		timers: map[*timer]struct{}{}, sleepers: map[*sleeper]struct{}{}, slept: loops.NewSignal(),
		closed: make(chan struct{}),
	}
}

// machineTime is the time that a Clock is measured by.
func machineTime() time.Time { return job.SystemClock().Now() }

// Now is the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *Clock) now() time.Time {
	if c.frozen || c.held {
		return c.at
	}
	return c.at.Add(time.Duration(float64(machineTime().Sub(c.since)) * c.speed))
}

// Rate is the speed, and whether the clock stands still.
func (c *Clock) Rate() (speed float64, frozen bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.speed, c.frozen
}

// Run has the clock run at a speed above zero, up to MaxSpeed.
func (c *Clock) Run(speed float64) { c.change(func() { c.speed, c.frozen = speed, false }) }

// Freeze has the clock stand still until Run.
func (c *Clock) Freeze() { c.change(func() { c.frozen = true }) }

// hold has the clock stand still until release, whatever its speed is.
func (c *Clock) hold() { c.change(func() { c.held = true }) }

func (c *Clock) release() { c.change(func() { c.held = false }) }

// nudge wakes all loops. One that read the time before a jump and made its timer afterwards would wait too long.
func (c *Clock) nudge() { c.change(func() {}) }

// change changes how the clock runs, and wakes all loops.
func (c *Clock) change(how func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.since = c.now(), machineTime()
	how()
	for t := range c.timers {
		t.fire()
	}
	c.wake()
}

// set moves a held clock on. It fires the timers of Exact.
func (c *Clock) set(at job.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at.Time()
	for t := range c.timers {
		if !t.until.IsZero() && !t.until.After(c.at) {
			t.fire()
		}
	}
	c.wake()
}

// Exact is the clock with timers that also fire when Advance reaches their times.
func (c *Clock) Exact() job.Clock { return exact{c} }

type exact struct{ *Clock }

func (c exact) NewTimer(d time.Duration) job.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.newTimer(d)
	t.until = c.now().Add(d)
	return t
}

// NewTimer is the timer of a loop: see Clock.
func (c *Clock) NewTimer(d time.Duration) job.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newTimer(d)
}

// newTimer makes a timer. The lock is held.
func (c *Clock) newTimer(d time.Duration) *timer {
	if !c.frozen && !c.held && c.speed > 1 {
		d = time.Duration(float64(d) / c.speed)
	}
	t := &timer{clock: c, fired: make(chan time.Time, 1)}
	t.machine = time.AfterFunc(d, t.expire) //nolint:forbidigo // a timer of the machine is what a Clock is made of
	c.timers[t] = struct{}{}
	return t
}

type timer struct {
	clock   *Clock
	machine *time.Timer
	fired   chan time.Time
	until   time.Time // of the clock; zero: the machine's timer decides
}

func (t *timer) C() <-chan time.Time { return t.fired }

func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	_, waits := t.clock.timers[t]
	delete(t.clock.timers, t)
	t.machine.Stop()
	return waits
}

func (t *timer) expire() {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	if _, waits := t.clock.timers[t]; waits {
		t.fire()
	}
}

// fire fires a timer that waits. The clock's lock is held.
func (t *timer) fire() {
	delete(t.clock.timers, t)
	t.machine.Stop()
	t.fired <- t.clock.now()
}

// sleeper waits for a time of the clock.
type sleeper struct {
	until time.Time
	woken chan struct{}
}

// errClosed ends the sleep of requests to sinks when the node stops.
var errClosed = errors.New("the dev server stops")

// sleep waits until the clock has reached a time. Unlike a timer, it never returns before.
func (c *Clock) sleep(ctx context.Context, until time.Time) error {
	s := &sleeper{until: until, woken: make(chan struct{})}
	c.mu.Lock()
	c.sleepers[s] = struct{}{}
	c.wake()
	c.mu.Unlock()
	c.slept.Set()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.sleepers, s)
	}()
	for {
		timer := c.NewTimer(until.Sub(c.Now()))
		select {
		case <-s.woken:
			timer.Stop()
			return nil
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-c.closed:
			timer.Stop()
			return errClosed
		case <-timer.C():
			c.mu.Lock()
			c.wake()
			c.mu.Unlock()
		}
	}
}

// wake wakes the sleepers whose time has come. The lock is held.
func (c *Clock) wake() {
	now := c.now()
	for s := range c.sleepers {
		if !s.until.After(now) {
			delete(c.sleepers, s)
			close(s.woken)
		}
	}
}

// asleep is how many sleep, and when the first of them wakes; zero: none sleeps.
func (c *Clock) asleep() (n int, next job.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.sleepers {
		at := job.InstantOf(s.until.Add(time.Millisecond - 1)) // no earlier
		if next == 0 || at < next {
			next = at
		}
	}
	return len(c.sleepers), next
}
