package dispatcher

import (
	"context"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/loops"
)

// slots counts free workers, and jobs claimed ahead of them. One goroutine takes slots, in
// bulk; all may return them.
type slots struct {
	clock     job.Clock
	enough    int // how many at a time are worth a round trip
	mostAhead int

	mu        sync.Mutex
	free      int          // below zero: slots taken ahead
	ahead     int          // how far free may go below zero
	ended     int          // workers that became free since the last take
	gathering bool         // take waits for enough slots
	ready     loops.Signal // take may go on
}

// A round trip is worth it for 1/enoughShare of all slots, mostEnough at most.
const (
	enoughShare = 2
	mostEnough  = 128
)

// gatherTime is how long free slots may wait for others.
const gatherTime = 2 * time.Millisecond

// aheadShare is how many jobs may be claimed ahead for each worker that became free during
// a fetch: they must last until the next fetch returns.
const aheadShare = 2

func newSlots(n int, clock job.Clock) *slots {
	return &slots{
		clock: clock, enough: max(1, min(n/enoughShare, mostEnough)), mostAhead: min(aheadShare*n, maxBatch),
		free: n, ready: loops.NewSignal(),
	}
}

// take waits for a free slot, then takes all free ones and those ahead, up to most. If most
// workers are busy, it waits a little for more: larger claims cost the store less per job.
// If all are busy, it takes slots ahead if there are enough for a round trip. It returns
// zero when ctx ends.
func (s *slots) take(ctx context.Context, most int) int {
	for s.await(ctx, false, nil) {
		if !s.enoughNow() {
			timer := s.clock.NewTimer(gatherTime)
			more := s.await(ctx, true, timer.C())
			timer.Stop()
			if !more {
				break
			}
		}
		if n := s.takeNow(most); n > 0 {
			return n
		}
	}
	return 0
}

// await waits until take may go on or the time is up, and returns false if ctx has ended.
func (s *slots) await(ctx context.Context, gathering bool, timeUp <-chan time.Time) bool {
	s.mu.Lock()
	s.gathering = gathering
	s.mu.Unlock()
	for ctx.Err() == nil && !s.readyNow() {
		select {
		case <-s.ready:
		case <-timeUp:
			return ctx.Err() == nil
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// takeNow takes the slots that there are, which may be none.
func (s *slots) takeNow(most int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := max(min(s.free+s.ahead, most), 0)
	s.free -= n
	s.ended = 0
	return n
}

func (s *slots) enoughNow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isEnough()
}

// isEnough reports whether the slots are worth a round trip. s.mu is held.
func (s *slots) isEnough() bool { return s.free+s.ahead >= s.enough }

func (s *slots) readyNow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isReady()
}

// isReady reports whether take may go on. s.mu is held.
func (s *slots) isReady() bool { return s.isEnough() || s.free > 0 && !s.gathering }

// fetched returns the slots of the last take that got no job. If all got one, or more jobs wait
// for their topic's share, the next take
// may go ahead: by twice the workers that became free during the fetch. A number that is
// not worth a round trip counts as zero, so nothing is claimed ahead while requests are
// few or slow.
func (s *slots) fetched(taken, jobs int, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = min(aheadShare*s.ended, s.mostAhead)
	if jobs < taken && !more || s.ahead < s.enough {
		s.ahead = 0
	}
	s.add(taken - jobs)
}

// left is how many slots could be taken.
func (s *slots) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.free+s.ahead)
}

// end returns the slot of a worker that has ended.
func (s *slots) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended++
	s.add(1)
}

// untaken returns the slot of a job that no worker took, and stops claiming ahead.
func (s *slots) untaken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = 0
	s.add(1)
}

// add frees n slots. s.mu is held.
func (s *slots) add(n int) {
	s.free += n
	if s.isReady() {
		s.ready.Set()
	}
}
