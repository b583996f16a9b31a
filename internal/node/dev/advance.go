package dev

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store/listing"
)

// MostWork is how long one call of Advance works, in the machine's time.
const MostWork = time.Minute

// ErrUnfinished is returned by a call of Advance that has worked for MostWork.
var ErrUnfinished = errors.New("the clock has not come to that time")

// Progress is what a call of Advance did.
type Progress struct {
	Now      time.Time // the clock's
	Attempts int       // that began
}

// Advance moves the clock to a time. Rows of inboxes that are committed become jobs before. Everything due until then happens in order, each at its own
// time. The time may be reached before: the clock does not go back.
func (d *Dev) Advance(ctx context.Context, to time.Time) (Progress, error) {
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return Progress{Now: d.Clock.Now()}, ctx.Err()
	}
	defer func() { <-d.turn }()
	d.Clock.hold()
	defer d.Clock.release()
	d.forgive()
	before := d.attempts.Load()
	limited, cancel := context.WithTimeout(ctx, MostWork)
	defer cancel()
	err := d.parts.Inboxes.Drain(limited)
	if err == nil {
		err = d.advance(limited, job.InstantOf(to))
	}
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = ErrUnfinished
	}
	return Progress{Now: d.Clock.Now(), Attempts: int(d.attempts.Load() - before)}, err
}

// stalled is how often the next time may be the present, before the clock moves on by a
// millisecond nevertheless.
const stalled = 100

func (d *Dev) advance(ctx context.Context, to job.Instant) error {
	for stood := 0; ; {
		next, err := d.settle(ctx)
		if err != nil {
			return err
		}
		now := job.InstantOf(d.Clock.Now())
		switch {
		case next == 0 || next > to:
			if to > now {
				d.Clock.set(to)
			}
			return nil
		case next > now:
			d.Clock.set(next)
			stood = 0
		case stood == stalled:
			d.Clock.set(now + 1)
		default:
			stood++
			d.Clock.nudge()
		}
	}
}

// takeWithin is how long the dispatcher may need to take a due job, in the machine's time. It takes none while
// its workers wait for the clock.
const takeWithin = 20 * time.Millisecond

// settle waits until everything due by now has happened, and returns when something is due next;
// zero: never.
func (d *Dev) settle(ctx context.Context) (next job.Instant, err error) {
	for {
		if next, err = d.parts.Schedules.Settle(ctx); err != nil {
			return 0, fmt.Errorf("register occurrences: %w", err)
		}
		depth, err := listing.Depth(ctx, d.parts.Store)
		if err != nil {
			return 0, fmt.Errorf("look at the store: %w", err)
		}
		asleep, woken := d.Clock.asleep()
		quiet := d.parts.InFlight() <= asleep
		due := depth.OldestDue != 0 && depth.OldestDue <= job.InstantOf(d.Clock.Now())
		if quiet && due {
			quiet = !d.taken(ctx)
		}
		if err := d.drain(ctx); err != nil {
			return 0, err
		}
		if err := d.parts.Deliveries.Settled(ctx); err != nil {
			return 0, fmt.Errorf("report circuits: %w", err)
		}
		if !quiet {
			continue
		}
		if !due || asleep == 0 {
			next = earlier(next, depth.OldestDue)
		}
		return earlier(next, woken), nil
	}
}

// taken waits until something changes, and returns false if nothing does in time.
func (d *Dev) taken(ctx context.Context) bool {
	timer := job.SystemClock().NewTimer(takeWithin)
	defer timer.Stop()
	select {
	case <-d.changed:
		return true
	case <-timer.C():
	case <-ctx.Done():
	}
	return false
}

// drain waits until all jobs in flight are settled, or wait for a time of the clock.
func (d *Dev) drain(ctx context.Context) error {
	for {
		if asleep, _ := d.Clock.asleep(); d.parts.InFlight() <= asleep {
			return nil
		}
		d.changed.Wait(ctx, job.SystemClock(), d.cutOff())
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// earlier is the earlier of two instants; zero is none.
func earlier(a, b job.Instant) job.Instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Next is when something is due next; zero: never.
func (d *Dev) Next(ctx context.Context) (job.Instant, error) {
	next, err := d.parts.Schedules.Settle(ctx)
	if err != nil {
		return 0, fmt.Errorf("look at the schedules: %w", err)
	}
	depth, err := listing.Depth(ctx, d.parts.Store)
	if err != nil {
		return 0, fmt.Errorf("look at the store: %w", err)
	}
	_, woken := d.Clock.asleep()
	return earlier(earlier(next, depth.OldestDue), woken), nil
}
