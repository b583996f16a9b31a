package store

import (
	"context"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// MaxTries is how often a change is tried that others may outrun.
const MaxTries = 20

// longestPause is the longest pause between two of them.
const longestPause = 4 * time.Second

// Tries yields the numbers of tries of a change that others may outrun. Before each but the first two it pauses for a
// random time: callers that start over together would outrun each other for ever. The pause is up to a try's time, at
// least 1 ms, doubled with each try up to 128 times: where calls are slow, a pause must be longer for one caller to
// come between the others.
func Tries(ctx context.Context) iter.Seq[int] {
	clock := job.SystemClock()
	return func(yield func(int) bool) {
		took := time.Millisecond
		for n := range MaxTries {
			if n > 1 {
				pause := rand.N(min(took<<min(n, 7), longestPause)) //nolint:gosec // a pause is no secret
				if job.Sleep(ctx, clock, pause) != nil {
					return
				}
			}
			began := clock.Now()
			if !yield(n) {
				return
			}
			took = min(max(clock.Now().Sub(began), time.Millisecond), longestPause)
		}
	}
}
