// Package signal wakes goroutines, and passes named values to them.
package signal

import (
	"context"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// Signal holds at most one signal: several that nobody has received mean the same as one.
type Signal chan struct{}

// New returns a Signal without a signal.
func New() Signal { return make(Signal, 1) }

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
