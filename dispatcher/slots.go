package dispatcher

import (
	"context"
	"sync"
	"time"

	"github.com/duehook/duehook/job"
)

// slots counts free workers, and the jobs that are claimed for workers to come. One
// goroutine takes them, in bulk; any may give them back.
type slots struct {
	clock     job.Clock
	enough    int // how many at a time are worth a round trip
	mostAhead int

	mu        sync.Mutex
	free      int           // below zero: so many were taken ahead
	ahead     int           // how far below zero it may be taken
	ended     int           // how many workers came free since the last were taken
	gathering bool          // a single one that is free is not worth a signal
	ready     chan struct{} // holds a signal when some may be taken
}

// enoughShare is the part of all slots that is worth a round trip, and
// mostEnough the largest number of them.
const (
	enoughShare = 2
	mostEnough  = 128
)

// gatherTime is how long slots may stay free for others to join them.
const gatherTime = 2 * time.Millisecond

// aheadShare is how many jobs may be claimed ahead for each worker that came free
// during a fetch: what one brings has to last until the next has come back.
const aheadShare = 2

func newSlots(n int, clock job.Clock) *slots {
	return &slots{
		clock: clock, enough: max(1, min(n/enoughShare, mostEnough)), mostAhead: min(aheadShare*n, maxBatch),
		free: n, ready: make(chan struct{}, 1),
	}
}

// take waits until one is free and takes all that are, and those ahead, up to most.
// When most workers are busy it waits a little for more to become free: what the
// store takes for a job falls with the number that are claimed at a time. While all
// are busy it takes as many ahead as are worth a round trip, or none. It returns
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

// await waits until some may be taken, when gathering enough of them, or the time is
// up, and reports whether ctx goes on.
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

// takeNow takes what there is; nothing when it was too much ahead meanwhile.
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

// isEnough reports whether those that may be taken are worth a round trip. s.mu is held.
func (s *slots) isEnough() bool { return s.free+s.ahead >= s.enough }

func (s *slots) readyNow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isReady()
}

// isReady reports whether whoever takes is waiting for what there is. s.mu is held.
func (s *slots) isReady() bool { return s.isEnough() || s.free > 0 && !s.gathering }

// fetched gives back what was taken last and brought no job. If all of it did, so many
// may be taken ahead as there will be workers for, judged by how many came free
// meanwhile. Fewer than are worth a round trip are not worth that they may have to be
// given back: there are none while few requests are under way, or slow ones.
func (s *slots) fetched(taken, jobs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = min(aheadShare*s.ended, s.mostAhead)
	if jobs < taken || s.ahead < s.enough {
		s.ahead = 0
	}
	s.add(taken - jobs)
}

// waiting reports whether jobs may wait for a worker.
func (s *slots) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free < 0
}

// end gives back the slot of a worker that has ended.
func (s *slots) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended++
	s.add(1)
}

// untaken gives back the slot of a job that no worker took. None is taken ahead then.
func (s *slots) untaken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = 0
	s.add(1)
}

// add frees n slots. s.mu is held.
func (s *slots) add(n int) {
	s.free += n
	if !s.isReady() {
		return
	}
	select {
	case s.ready <- struct{}{}:
	default:
	}
}
