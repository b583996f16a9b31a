package redisstore

import (
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// serverClock estimates a server's time between its answers, so that the carrier knows how
// long to sleep. It decides nothing: scripts read the server's clock themselves.
type serverClock struct {
	mu     sync.Mutex
	server job.Instant
	local  time.Time // with its monotonic reading, so a step of our clock does no harm
	heard  time.Time // of the last reply
	back   time.Duration
}

// clockAge is how long an estimate is used, and so the longest time until a step of the
// server's clock is noticed.
const clockAge = 10 * time.Second

// clockSlack is how far a time may be behind the estimate without counting as a step back:
// replies may be late and out of order.
const clockSlack = 5 * time.Second

// observe takes the time from a script's reply. The estimate is never later than the
// server's time, so an earlier reply was late. The estimate stays for clockAge, because
// clocks may differ in their rates.
func (c *serverClock) observe(reply any) job.Instant {
	ms, _ := reply.(int64)
	now := job.Instant(ms)
	c.mu.Lock()
	defer c.mu.Unlock()
	at := job.SystemClock().Now()
	c.heard = at
	if age := at.Sub(c.local); c.server != 0 {
		behind := c.server.Add(age).Sub(now)
		if behind > clockSlack {
			c.back = max(c.back, behind)
		} else if behind > 0 && age <= clockAge {
			return now
		}
	}
	c.server, c.local = now, at
	return now
}

// wentBack returns by how much the server's clock went back; zero if it did not. It reports
// each step once.
func (c *serverClock) wentBack() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := c.back
	c.back = 0
	return by
}

// again makes wentBack report a step once more.
func (c *serverClock) again(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.back = max(c.back, by)
}

// now is the estimate; false without a recent one.
func (c *serverClock) now() (job.Instant, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := job.SystemClock().Now()
	if c.server == 0 || at.Sub(c.heard) > clockAge {
		return 0, false
	}
	return c.server.Add(at.Sub(c.local)), true
}
