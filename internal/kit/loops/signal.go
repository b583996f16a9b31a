// Package loops has what the loops of goroutines need: signals that wake them, named values for them, and
// pauses between calls that fail, with one line in the log per outage, not one per try.
package loops

import (
	"context"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// Signal holds at most one signal: several that nobody has received mean the same as one.
type Signal chan struct{}

// NewSignal returns a Signal without a signal.
func NewSignal() Signal { return make(Signal, 1) }

// Set signals. It never blocks.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Wait receives a signal. It returns early after d of the clock's time, or when ctx ends.
func (s Signal) Wait(ctx context.Context, clock job.Clock, d time.Duration) {
	timer := clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-s:
	case <-timer.C():
	}
}
