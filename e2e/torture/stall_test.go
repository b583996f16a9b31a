package torture

import (
	"context"
	"time"

	"github.com/duehook/duehook/internal/job"
)

const (
	stallCheck = 20 * time.Millisecond
	// stallLimit is how late a sleeper may wake on a machine that is judged
	// fit: less than half of the shortest timeout of an attempt.
	stallLimit = 400 * time.Millisecond
)

// watchStalls measures how late this process wakes from sleep. A machine that
// is overloaded so far makes receivers look slow, and attempts are charged for
// that, as they should be: such a run says nothing. The worst comes from the
// channel, once stop has been called.
func watchStalls(ctx context.Context) (worst <-chan time.Duration, stop func()) {
	ctx, stop = context.WithCancel(ctx)
	found := make(chan time.Duration, 1)
	go func() {
		var most time.Duration
		for {
			began := clock.Now()
			if job.Sleep(ctx, clock, stallCheck) != nil {
				break
			}
			most = max(most, clock.Now().Sub(began)-stallCheck)
		}
		found <- most
	}()
	return found, stop
}
