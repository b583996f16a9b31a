package carrier

import (
	"context"
	"time"

	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/store"
)

const (
	// fullPause is the pause after a round that filled the ready list. At 15,000 jobs/s
	// the list loses 75 of its 1,000 hints in that time, so it does not run empty.
	fullPause = 5 * time.Millisecond
	// roundGap is the least time between rounds that wake-ups start, so that the
	// carrier moves a burst of registrations in batches. It also follows a round that
	// carried nothing.
	roundGap = time.Millisecond
	// standbyPolls is the poll interval of a carrier without the lock, in those of the
	// lock holder.
	standbyPolls = 3
)

// loop carries the due jobs of one shard.
type loop struct {
	*Carrier
	shard  int
	lock   *keeper
	woken  loops.Signal
	health *loops.Outage
	began  time.Time // when the last round began
}

func (c *Carrier) newLoop(shard int) *loop {
	log := c.log.With("shard", shard)
	l := &loop{Carrier: c, shard: shard, woken: loops.NewSignal(), health: loops.NewOutage("carrying", c.clock, log, c.opts.Random)}
	l.lock = c.newKeeper(shard, log, l.woken.Set)
	return l
}

func (l *loop) run(ctx context.Context) {
	for ctx.Err() == nil {
		result, err := l.round(ctx)
		if err != nil {
			l.health.Rest(ctx, err)
			continue
		}
		l.health.Worked()
		l.sleep(ctx, l.pause(result))
	}
}

// round carries one batch.
func (l *loop) round(ctx context.Context) (store.CarryResult, error) {
	select {
	case <-l.woken: // this round covers it
	default:
	}
	l.began = l.clock.Now()
	done := l.metrics.round()
	result, err := l.opts.Lists.Carry(ctx, l.shard, l.opts.CarryOptions)
	done()
	if err != nil {
		return store.CarryResult{}, err
	}
	l.metrics.carriedJobs(result.Carried)
	return result, nil
}

// pause returns how long to sleep after a round.
func (l *loop) pause(r store.CarryResult) time.Duration {
	poll, lag := l.opts.Poll, time.Duration(0)
	if l.lock.standby() {
		poll, lag = standbyPolls*poll, l.opts.Lag
	}
	switch {
	case r.Full && r.Wait <= 0:
		return fullPause + lag
	case r.Full:
		return min(r.Wait, fullPause) + lag
	case r.Wait < 0:
		return poll + lag
	case r.Wait > 0:
		return min(r.Wait, poll) + lag
	case len(r.Carried) == 0:
		return roundGap + lag // the store made progress, but carried nothing yet
	default:
		// Jobs are overdue and the list has room: every carrier helps, with or
		// without the lock.
		return 0
	}
}

// sleep waits for d. A wake-up ends it: for the lock holder at once, but roundGap
// after the last round at the earliest; for the others after the lag.
func (l *loop) sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	full := l.clock.NewTimer(d)
	defer full.Stop()
	select {
	case <-ctx.Done():
		return
	case <-full.C():
		return
	case <-l.woken:
	}
	rest := roundGap - l.clock.Now().Sub(l.began)
	if l.lock.standby() {
		rest = l.opts.Lag
	}
	if rest <= 0 {
		return
	}
	short := l.clock.NewTimer(rest)
	defer short.Stop()
	select {
	case <-ctx.Done():
	case <-full.C():
	case <-short.C():
	}
}
