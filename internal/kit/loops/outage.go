package loops

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/sethvargo/go-retry"

	"github.com/duehook/duehook/internal/job"
)

// Pauses between tries are capped, so that work resumes within a second after an
// outage, and spread, so that nodes do not resume at the same time.
const (
	FirstPause = 20 * time.Millisecond
	LongPause  = time.Second
	jitter     = 0.2 // random part of a pause
)

// Outage logs once when calls begin to fail, and once when they work again. Its methods
// are safe for concurrent use.
type Outage struct {
	what   string
	clock  job.Clock
	log    *slog.Logger
	random func() float64

	mu     sync.Mutex
	pauses retry.Backoff // nil: there is no outage
	since  time.Time     // of the first failure
	last   time.Time     // of the last failure
}

// NewOutage returns an Outage. what names the calls in the log. random returns numbers from 0
// up to 1 that spread pauses; only Rest needs it.
func NewOutage(what string, clock job.Clock, log *slog.Logger, random func() float64) *Outage {
	return &Outage{what: what, clock: clock, log: log, random: random}
}

// Note records a failure. It ignores failures after the end of ctx.
func (o *Outage) Note(ctx context.Context, err error) {
	if ctx.Err() == nil {
		o.begin(ctx, err)
	}
}

// Rest records a failure and pauses before the next try. It returns false if ctx has
// ended.
func (o *Outage) Rest(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	pause, _ := o.begin(ctx, err).Next() // it never says stop
	spread := 1 - jitter*o.random()
	return job.Sleep(ctx, o.clock, time.Duration(float64(pause)*spread)) == nil
}

// begin begins an outage unless one lasts.
func (o *Outage) begin(ctx context.Context, err error) retry.Backoff {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = o.clock.Now()
	if o.pauses == nil {
		o.since = o.last
		o.log.WarnContext(ctx, "failing; retrying", "what", o.what, "error", err)
		o.pauses = retry.WithCappedDuration(LongPause, retry.NewExponential(FirstPause))
	}
	return o.pauses
}

// Worked records a success.
func (o *Outage) Worked() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pauses != nil {
		o.log.Info("working again", "what", o.what)
		o.pauses = nil
	}
}

// stale is the time without a try after which a failure is past, in limits of Lasts.
const stale = 3

// Lasts reports whether all tries have failed for longer than limit, and whether the
// tries continue.
func (o *Outage) Lasts(limit time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock.Now()
	return o.pauses != nil && now.Sub(o.since) > limit && now.Sub(o.last) <= stale*limit
}

// What returns the name of the calls.
func (o *Outage) What() string { return o.what }

// Task is a call that Repeat repeats.
type Task struct {
	Every time.Duration // pause after a call
	Retry time.Duration // pause after a failed call; zero: Every
	Limit time.Duration // timeout of a call; zero: none
	Wake  Signal        // ends a pause; nil: nothing does
	Do    func(ctx context.Context) error
}

// Repeat calls t.Do until ctx ends. A panic counts as a failure.
func (o *Outage) Repeat(ctx context.Context, t Task) {
	for ctx.Err() == nil {
		pause := t.Every
		if err := t.call(ctx); err != nil {
			o.Note(ctx, err)
			pause = cmp.Or(t.Retry, t.Every)
		} else {
			o.Worked()
		}
		t.Wake.Wait(ctx, o.clock, pause)
	}
}

func (t *Task) call(ctx context.Context) (err error) {
	if t.Limit > 0 {
		limited, cancel := context.WithTimeout(ctx, t.Limit)
		defer cancel()
		ctx = limited
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return t.Do(ctx)
}
