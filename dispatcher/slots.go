package dispatcher

import (
	"context"
	"sync"
)

// slots counts free workers. One goroutine takes them, in bulk; any may give
// them back.
type slots struct {
	mu    sync.Mutex
	free  int
	freed chan struct{} // holds a signal once some were given back
}

func newSlots(n int) *slots { return &slots{free: n, freed: make(chan struct{}, 1)} }

// take waits until one is free and takes all that are, up to most. It returns
// zero when ctx ends.
func (s *slots) take(ctx context.Context, most int) int {
	for ctx.Err() == nil {
		s.mu.Lock()
		n := min(s.free, most)
		s.free -= n
		s.mu.Unlock()
		if n > 0 {
			return n
		}
		select {
		case <-s.freed:
		case <-ctx.Done():
		}
	}
	return 0
}

func (s *slots) give(n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	s.free += n
	s.mu.Unlock()
	select {
	case s.freed <- struct{}{}:
	default:
	}
}
