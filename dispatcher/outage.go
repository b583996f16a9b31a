package dispatcher

import (
	"context"
	"log/slog"
	"time"

	"github.com/sethvargo/go-retry"

	"github.com/duehook/duehook/job"
)

// Pauses between tries of a store that fails: capped, so that work resumes
// within a second of its return, and spread, so that nodes do not return at once.
const (
	firstPause  = 20 * time.Millisecond
	longPause   = time.Second
	pauseJitter = 0.2 // of a pause, by which it is made shorter at most
)

// outage paces the tries of one thing that fails and logs only when it begins
// to fail and when it works again. It belongs to one goroutine.
type outage struct {
	clock  job.Clock
	log    *slog.Logger
	random func() float64
	what   string
	pause  retry.Backoff // nil while all is well
}

func newOutage(o Options, what string) *outage {
	return &outage{clock: o.Clock, log: o.Logger, random: o.Random, what: what}
}

// failed notes a failure and waits before the next try. It reports false when
// ctx has ended: then failing says nothing, and there is no next try.
func (o *outage) failed(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	if o.pause == nil {
		o.log.Warn("the store fails, trying on", "doing", o.what, "error", err)
		o.pause = retry.WithCappedDuration(longPause, retry.NewExponential(firstPause))
	}
	d, _ := o.pause.Next() // it never says stop
	spread := 1 - pauseJitter*o.random()
	return job.Sleep(ctx, o.clock, time.Duration(float64(d)*spread)) == nil
}

// worked notes a success.
func (o *outage) worked() {
	if o.pause != nil {
		o.log.Info("the store works again", "doing", o.what)
		o.pause = nil
	}
}
