// Package outage is for what is tried until it works: it paces the tries, and
// keeps them out of the log.
package outage

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sethvargo/go-retry"

	"github.com/duehook/duehook/job"
)

// Pauses between tries are capped, so that work resumes within a second of its
// return, and spread, so that nodes do not return at once.
const (
	FirstPause = 20 * time.Millisecond
	LongPause  = time.Second
	jitter     = 0.2 // of a pause, by which it is made shorter at most
)

// Outage logs once when something begins to fail and once when it works again,
// however often it is tried in between. Its methods are safe for concurrent use.
type Outage struct {
	what   string
	clock  job.Clock
	log    *slog.Logger
	random func() float64

	mu     sync.Mutex
	pauses retry.Backoff // nil while all is well
	since  time.Time     // when it began to fail
	last   time.Time     // when it failed last
}

// New makes an Outage of what is tried, which the log calls so. random gives
// numbers from 0 up to 1, by which pauses are spread.
func New(what string, clock job.Clock, log *slog.Logger, random func() float64) *Outage {
	return &Outage{what: what, clock: clock, log: log, random: random}
}

// Note notes that a try failed. Failing because ctx has ended says nothing.
func (o *Outage) Note(ctx context.Context, err error) {
	if ctx.Err() == nil {
		o.begin(ctx, err)
	}
}

// Rest notes that a try failed, and waits before the next. It reports false when
// ctx has ended: then there is no next.
func (o *Outage) Rest(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	pause, _ := o.begin(ctx, err).Next() // it never says stop
	spread := 1 - jitter*o.random()
	return job.Sleep(ctx, o.clock, time.Duration(float64(pause)*spread)) == nil
}

// begin begins an outage, unless there is one.
func (o *Outage) begin(ctx context.Context, err error) retry.Backoff {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = o.clock.Now()
	if o.pauses == nil {
		o.since = o.last
		o.log.WarnContext(ctx, "failing, will keep trying", "what", o.what, "error", err)
		o.pauses = retry.WithCappedDuration(LongPause, retry.NewExponential(FirstPause))
	}
	return o.pauses
}

// Worked notes that a try succeeded.
func (o *Outage) Worked() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pauses != nil {
		o.log.Info("working again", "what", o.what)
		o.pauses = nil
	}
}

// stale is how many times as long nothing has to be tried for a failure to be past.
const stale = 3

// Lasts reports whether all tries have failed for longer than limit, and are still made.
func (o *Outage) Lasts(limit time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock.Now()
	return o.pauses != nil && now.Sub(o.since) > limit && now.Sub(o.last) <= stale*limit
}

// What is what is tried, as the log calls it.
func (o *Outage) What() string { return o.what }
