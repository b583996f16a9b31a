package dispatcher

import (
	"context"
	"sync"
	"time"

	"github.com/duehook/duehook/job"
)

// slots counts free workers. One goroutine takes them, in bulk; any may give
// them back.
type slots struct {
	clock  job.Clock
	enough int // how many at a time are worth a round trip

	mu     sync.Mutex
	free   int
	wanted int           // how many have to be free for a signal
	freed  chan struct{} // holds one since then
}

// enoughShare is the part of all slots that is worth a round trip, and
// mostEnough the largest number of them.
const (
	enoughShare = 2
	mostEnough  = 128
)

// gatherTime is how long slots may stay free for others to join them.
const gatherTime = 2 * time.Millisecond

func newSlots(n int, clock job.Clock) *slots {
	return &slots{
		clock: clock, enough: max(1, min(n/enoughShare, mostEnough)),
		free: n, freed: make(chan struct{}, 1),
	}
}

// take waits until one is free and takes all that are, up to most. When most
// workers are busy it waits a little for more to become free: what the store
// takes for a job falls with the number that are claimed at a time. It returns
// zero when ctx ends.
func (s *slots) take(ctx context.Context, most int) int {
	if !s.await(ctx, 1, nil) {
		return 0
	}
	if s.freeNow() < s.enough {
		timer := s.clock.NewTimer(gatherTime)
		more := s.await(ctx, s.enough, timer.C())
		timer.Stop()
		if !more {
			return 0
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(s.free, most)
	s.free -= n
	return n
}

// await waits until n are free, or the time is up, and reports whether ctx goes
// on.
func (s *slots) await(ctx context.Context, n int, timeUp <-chan time.Time) bool {
	s.mu.Lock()
	s.wanted = n
	s.mu.Unlock()
	for ctx.Err() == nil && s.freeNow() < n {
		select {
		case <-s.freed:
		case <-timeUp:
			return ctx.Err() == nil
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

func (s *slots) freeNow() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}

func (s *slots) give(n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	s.free += n
	signal := s.free >= s.wanted
	s.mu.Unlock()
	if !signal {
		return
	}
	select {
	case s.freed <- struct{}{}:
	default:
	}
}
