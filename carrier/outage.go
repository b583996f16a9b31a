package carrier

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sethvargo/go-retry"

	"github.com/duehook/duehook/job"
)

const (
	minBackoff    = 20 * time.Millisecond
	maxBackoff    = time.Second
	backoffJitter = 0.1 // of a pause, by which it is made shorter at most
)

// newBackoff gives the pauses between tries of something that fails. They are
// capped, so that work resumes within a second of its return.
func newBackoff() retry.Backoff {
	return retry.WithCappedDuration(maxBackoff, retry.NewExponential(minBackoff))
}

// rest waits before the next try, or until ctx ends. Pauses are spread, so that
// the nodes do not come back all at once.
func (c *Carrier) rest(ctx context.Context, backoff retry.Backoff) {
	d, _ := backoff.Next() // it never says stop
	spread := 1 - backoffJitter*c.opts.Random()
	_ = job.Sleep(ctx, c.clock, time.Duration(float64(d)*spread)) // callers look at ctx themselves
}

// outage logs once when something begins to fail and once when it works
// again, however often it is tried in between.
type outage struct {
	log  *slog.Logger
	what string
	down atomic.Bool
}

func newOutage(log *slog.Logger, what string) *outage { return &outage{log: log, what: what} }

// failed notes that a try failed. Failing because ctx ended says nothing.
func (o *outage) failed(ctx context.Context, err error) {
	if ctx.Err() == nil && o.down.CompareAndSwap(false, true) {
		o.log.Warn("failing, will keep trying", "what", o.what, "error", err)
	}
}

// worked notes that a try succeeded, and reports whether the last one failed.
func (o *outage) worked() bool {
	if !o.down.Load() || !o.down.CompareAndSwap(true, false) {
		return false
	}
	o.log.Info("working again", "what", o.what)
	return true
}
