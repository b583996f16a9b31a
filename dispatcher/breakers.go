package dispatcher

import (
	"container/list"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/duehook/duehook/job"
)

const (
	// maxBreakers bounds the memory that endpoints can take.
	maxBreakers = 10_000
	// evictionTries bounds the search for one to drop.
	evictionTries = 16
	// minHeld is the least time for which a job of an open breaker is put off.
	minHeld = 100 * time.Millisecond
	// probePause is for how long, when a half-open breaker has its probes.
	probePause = time.Second
	// outageFailures is how many failures in a row make an outage, whose end is
	// told, whether the breaker has opened or not.
	outageFailures = 5
)

// breakers keeps a circuit breaker per endpoint. It is safe for concurrent
// use; a nil *breakers lets everything pass.
type breakers struct {
	clock    job.Clock
	failures uint32
	openFor  time.Duration
	probes   uint32
	limit    int
	// changed is told of each opening, with its end, and of each closing, with
	// zero. It must not block.
	changed func(endpoint string, openUntil time.Time)
	// recovered is told of each endpoint's first success after an outage, with
	// the outage's beginning. It must not block.
	recovered func(endpoint string, since time.Time)

	mu     sync.Mutex
	known  map[string]*list.Element // of *breaker
	recent *list.List               // the same, last used first
}

type breaker struct {
	endpoint string
	circuit  *gobreaker.TwoStepCircuitBreaker[struct{}]
	state    atomic.Int32 // of gobreaker.State; asking the circuit could change it
	openTill atomic.Int64 // UnixNano
	// onTrial: somebody wants the endpoint tried before its time. The next request
	// decides.
	onTrial atomic.Bool
	// Guarded by breakers.mu:
	busy     int       // requests under way
	failures int       // in a row
	failing  time.Time // since the first of them
}

func newBreakers(o Options, changed, recovered func(endpoint string, at time.Time)) *breakers {
	if o.BreakerFailures < 0 {
		return nil
	}
	return &breakers{
		clock: o.Clock, failures: uint32(o.BreakerFailures), openFor: o.BreakerOpen,
		probes: uint32(o.BreakerProbes), limit: maxBreakers, changed: changed, recovered: recovered,
		known: map[string]*list.Element{}, recent: list.New(),
	}
}

// allow asks whether a request may go to the endpoint. If so, done is to be
// called with what the request told: nil, errEndpoint or errExcluded. If not,
// done is nil and wait is when to ask again.
func (s *breakers) allow(endpoint string) (done func(health error), wait time.Duration) {
	if s == nil {
		return func(error) {}, 0
	}
	b := s.acquire(endpoint)
	if b == nil {
		return func(error) {}, 0
	}
	report, err := b.circuit.Allow()
	switch {
	case errors.Is(err, gobreaker.ErrOpenState):
		s.release(b)
		left := time.Unix(0, b.openTill.Load()).Sub(s.clock.Now())
		// No longer than it is ever open: the clock may have gone back.
		return nil, max(min(left, s.openFor), minHeld)
	case err != nil: // ErrTooManyRequests
		s.release(b)
		return nil, probePause
	}
	return func(health error) {
		report(health)
		s.finish(b, health)
	}, 0
}

// finish marks the end of a request that told health.
func (s *breakers) finish(b *breaker, health error) {
	since, over := s.tally(b, health)
	if health == nil && b.onTrial.CompareAndSwap(true, false) {
		s.changed(b.endpoint, time.Time{})
	}
	if over {
		s.recovered(b.endpoint, since)
	}
}

// try lets requests to an endpoint through whose breaker is open. The first one
// that fails opens it again, and the first one that does not ends the hold.
func (s *breakers) try(endpoint string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.known[endpoint]
	if !ok || !s.isOpen(e.Value.(*breaker)) {
		return
	}
	// A circuit cannot be told to close, so another takes its place. What is still
	// under way through the old one tells nothing.
	old := e.Value.(*breaker)
	b := s.newBreaker(endpoint)
	b.failures, b.failing = old.failures, old.failing
	b.onTrial.Store(true)
	e.Value = b
}

// tally counts a request, and reports whether it ends an outage.
func (s *breakers) tally(b *breaker, health error) (since time.Time, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.busy--
	switch {
	case health == nil:
		since, over = b.failing, b.failures >= outageFailures
		b.failures = 0
	case errors.Is(health, errEndpoint):
		if b.failures == 0 {
			b.failing = s.clock.Now()
		}
		b.failures++
	}
	return since, over
}

// fails reports whether an endpoint is in an outage.
func (s *breakers) fails(endpoint string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.known[endpoint]
	return ok && e.Value.(*breaker).failures >= outageFailures
}

// steady reports whether an endpoint's circuit is closed and not about to open, so
// that its requests may be repeated. Without circuits nobody knows.
func (s *breakers) steady(endpoint string) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.known[endpoint]
	if !ok {
		return true
	}
	b := e.Value.(*breaker)
	closed := gobreaker.State(b.state.Load()) == gobreaker.StateClosed && !b.onTrial.Load()
	return closed && b.failures < min(outageFailures, (int(s.failures)+1)/2)
}

// acquire finds or makes the endpoint's breaker and marks it busy. It returns
// nil when there are too many to keep one more.
func (s *breakers) acquire(endpoint string) *breaker {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.known[endpoint]; ok {
		s.recent.MoveToFront(e)
		b := e.Value.(*breaker)
		b.busy++
		return b
	}
	if len(s.known) >= s.limit && !s.evict() {
		return nil
	}
	b := s.newBreaker(endpoint)
	b.busy++
	s.known[endpoint] = s.recent.PushFront(b)
	return b
}

func (s *breakers) release(b *breaker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.busy--
}

// evict drops a breaker that nobody waits for: without requests under way, and
// not open. s.mu is held.
func (s *breakers) evict() bool {
	e := s.recent.Back()
	for range evictionTries {
		if e == nil {
			return false
		}
		b := e.Value.(*breaker)
		if b.busy == 0 && !s.isOpen(b) {
			s.recent.Remove(e)
			delete(s.known, b.endpoint)
			return true
		}
		e = e.Prev()
	}
	return false
}

// isOpen reports whether a breaker is open; one whose time has passed is not.
func (s *breakers) isOpen(b *breaker) bool {
	return gobreaker.State(b.state.Load()) == gobreaker.StateOpen && s.clock.Now().UnixNano() < b.openTill.Load()
}

func (s *breakers) newBreaker(endpoint string) *breaker {
	b := &breaker{endpoint: endpoint}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        endpoint,
		MaxRequests: s.probes,
		// Without a window: failures in a row need none, and one shorter than
		// it takes them to happen would never trip.
		Interval:    0,
		Timeout:     s.openFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return b.onTrial.Load() || c.ConsecutiveFailures >= s.failures },
		IsExcluded:  func(err error) bool { return errors.Is(err, errExcluded) },
		// Runs under the circuit's lock.
		OnStateChange: func(_ string, _, to gobreaker.State) { s.note(b, to) },
	})
	return b
}

func (s *breakers) note(b *breaker, to gobreaker.State) {
	b.state.Store(int32(to))
	switch to {
	case gobreaker.StateOpen:
		b.onTrial.Store(false)
		till := s.clock.Now().Add(s.openFor)
		b.openTill.Store(till.UnixNano())
		s.changed(b.endpoint, till)
	case gobreaker.StateClosed:
		s.changed(b.endpoint, time.Time{})
	case gobreaker.StateHalfOpen: // the hold has ended by itself
	}
}

// count tells how many breakers are in each state.
func (s *breakers) count() map[gobreaker.State]int {
	n := map[gobreaker.State]int{}
	if s == nil {
		return n
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.recent.Front(); e != nil; e = e.Next() {
		n[gobreaker.State(e.Value.(*breaker).state.Load())]++
	}
	return n
}
