package testenv

import (
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// Clock stands still until a test moves it. Its timers run by the machine's clock.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a Clock that stands at a time.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Now is where the clock stands.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// NewTimer starts a timer of the machine's clock.
func (*Clock) NewTimer(d time.Duration) job.Timer { return job.SystemClock().NewTimer(d) }

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
