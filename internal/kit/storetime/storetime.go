// Package storetime estimates the store's time between calls, and notices when a clock is set.
//
// Times that are stored are those of the store's clock. The clock of a node may be wrong, and may be
// set at any moment. So a node compares stored times with this estimate, and keeps its own
// deadlines as waits that its monotonic clock measures.
package storetime

import (
	"context"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

const (
	// readEvery is the interval of reads while the estimate is used, and so the longest time until a step is noticed.
	readEvery = time.Second
	// idleEvery is the interval of reads while nobody uses it.
	idleEvery = 10 * time.Second
	// readWithin bounds a read.
	readWithin = time.Second
	// slack is how far a read may be from the estimate, beside the time that the read took.
	slack = 100 * time.Millisecond
)

// Clock estimates the store's time. It is safe for concurrent use.
type Clock struct {
	store store.Figuring
	local job.Clock

	mu      sync.Mutex
	at      job.Instant // of the store, at the local time read
	read    time.Time
	stepped []func()
	used    bool // since the last read
	wake    chan struct{}
}

// New returns a Clock. It believes the local clock until the first read.
func New(s store.Figuring, local job.Clock) *Clock {
	now := local.Now()
	return &Clock{store: s, local: local, at: job.InstantOf(now), read: now, wake: make(chan struct{}, 1)}
}

// Now is Instant as a time, without a monotonic reading: it is to be compared with stored times, and measures
// no durations. With it, a Clock is a job.Clock.
func (c *Clock) Now() time.Time { return c.Instant().Time() }

// NewTimer returns a timer of the local clock.
func (c *Clock) NewTimer(d time.Duration) job.Timer { return c.local.NewTimer(d) }

// Instant returns the estimate. It makes no call. While it is called at least once per second, a step of the store's clock is noticed
// within a second.
func (c *Clock) Instant() job.Instant {
	now := c.local.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.used {
		c.used = true
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	return c.after(now)
}

// rest waits until the next read.
func (c *Clock) rest(ctx context.Context) {
	_ = job.Sleep(ctx, job.SystemClock(), readEvery)
	c.mu.Lock()
	used := c.used
	c.used = false
	select {
	case <-c.wake:
	default:
	}
	c.mu.Unlock()
	if used {
		return
	}
	timer := job.SystemClock().NewTimer(idleEvery - readEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-c.wake:
	case <-timer.C():
	}
}

// after is the estimate at a local time. It uses the monotonic reading of the local clock.
func (c *Clock) after(local time.Time) job.Instant { return c.at.Add(local.Sub(c.read)) }

// OnStep has f called when the store's time turns out to be another one than expected. f must not block.
func (c *Clock) OnStep(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stepped = append(c.stepped, f)
}

// Read reads the store's time.
func (c *Clock) Read(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	before := c.local.Now()
	now, err := store.Now(limited, c.store)
	if err != nil {
		return err
	}
	for _, f := range c.observe(now, before, c.local.Now()) {
		f()
	}
	return nil
}

// observe notes a time of the store that was read between two local times. It returns whom to tell of a step.
func (c *Clock) observe(now job.Instant, before, after time.Time) []func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := after.Sub(before).Abs() // negative if the local clock has no monotonic reading and went back
	stepped := now.Sub(c.after(after)).Abs() > slack+took
	c.at, c.read = now, after
	if !stepped {
		return nil
	}
	return c.stepped
}

// Run reads the store's time again and again until ctx ends. It returns nil. During an outage of the store the
// estimate goes on. Its pauses are those of the machine, also if a test turns the local clock.
func (c *Clock) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		_ = c.Read(ctx) // other parts report an outage
		c.rest(ctx)
	}
	return nil
}
