package dispatcher

import (
	"errors"
	"sync"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

const (
	// maxCircuits bounds the memory that endpoints can take.
	maxCircuits = 10_000
	// evictionTries bounds the search for a circuit to drop.
	evictionTries = 16
	// minOpenPause is the shortest delay of a job whose circuit is open.
	minOpenPause = 100 * time.Millisecond
	// halfOpenPause is the delay of a job whose circuit is half-open and has enough
	// requests in progress.
	halfOpenPause = time.Second
	// outageFailures is how many failures in a row make an outage, whether the
	// circuit opens or not. Its end is reported.
	outageFailures = 5
)

// circuits keeps a circuit for each endpoint. It is safe for concurrent use. A nil *circuits
// allows everything.
type circuits struct {
	clock    job.Clock
	failures int // in a row that open a circuit
	openFor  time.Duration
	probes   int
	limit    int
	// changed reports each opening, with its end, and each closing, with zero. recovered reports
	// the first success after an outage, with the beginning of the outage. Both are called under
	// mu, so that reports are in order, and must not block.
	changed, recovered func(endpoint string, at time.Time)

	mu    sync.Mutex
	known map[string]*circuit
	uses  uint64
}

// circuit is that of one endpoint. circuits.mu guards it.
type circuit struct {
	endpoint  string
	state     store.CircuitState
	round     int // counts changes of the state: a request of an earlier round changes it no more
	openUntil time.Time
	tried     bool      // closed before its time, by Try: the next request decides
	asked     int       // requests of a half-open round, without those that are no evidence
	worked    int       // of them
	used      uint64    // circuits.uses of the last request
	busy      int       // requests in progress
	failures  int       // in a row
	failing   time.Time // since the first of them
}

func newCircuits(o Options, changed, recovered func(endpoint string, at time.Time)) *circuits {
	if o.BreakerFailures < 0 {
		return nil
	}
	return &circuits{
		clock: o.Clock, failures: o.BreakerFailures, openFor: o.BreakerOpen, probes: o.BreakerProbes, limit: maxCircuits,
		changed: changed, recovered: recovered, known: map[string]*circuit{},
	}
}

// allow asks for permission to send a request to the endpoint. The caller must
// call done with the result: nil, errEndpoint or errExcluded. Without permission
// done is nil, and wait is the time until the next try.
func (s *circuits) allow(endpoint string) (done func(health error), wait time.Duration) {
	if s == nil {
		return func(error) {}, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.known[endpoint]
	if !ok {
		if len(s.known) >= s.limit && !s.evict() {
			return func(error) {}, 0
		}
		c = &circuit{endpoint: endpoint}
		s.known[endpoint] = c
	}
	s.uses++
	c.used = s.uses
	switch {
	case s.isOpen(c):
		// A clock that went back must not keep the circuit open for longer.
		return nil, max(min(c.openUntil.Sub(s.clock.Now()), s.openFor), minOpenPause)
	case c.state == store.CircuitOpen:
		c.turn(store.CircuitHalfOpen) // needs no report: the store counts the time itself
	case c.state == store.CircuitHalfOpen && c.asked >= s.probes:
		return nil, halfOpenPause
	}
	c.asked++
	c.busy++
	round := c.round
	return func(health error) { s.finish(c, round, health) }, 0
}

// turn begins a round in another state.
func (c *circuit) turn(to store.CircuitState) {
	c.state, c.tried, c.asked, c.worked = to, false, 0, 0
	c.round++
}

// finish ends a request of a round, and reports its result to the circuit.
func (s *circuits) finish(c *circuit, round int, health error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.busy--
	current := round == c.round
	switch {
	case health == nil:
		over := c.failures >= outageFailures
		c.failures = 0
		if current {
			if c.worked++; c.tried || c.state == store.CircuitHalfOpen && c.worked >= s.probes {
				c.turn(store.CircuitClosed)
				s.changed(c.endpoint, time.Time{})
			}
		}
		if over {
			s.recovered(c.endpoint, c.failing)
		}
	case errors.Is(health, errEndpoint):
		if c.failures == 0 {
			c.failing = s.clock.Now()
		}
		c.failures++
		if current && (c.tried || c.state == store.CircuitHalfOpen || c.failures >= s.failures) {
			c.turn(store.CircuitOpen)
			c.openUntil = s.clock.Now().Add(s.openFor)
			s.changed(c.endpoint, c.openUntil)
		}
	case current:
		c.asked-- // another request may take its place
	}
}

// try allows requests to an endpoint whose circuit is open. The first
// of them decides whether it opens again.
func (s *circuits) try(endpoint string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.known[endpoint]; ok && s.isOpen(c) {
		c.turn(store.CircuitClosed)
		c.tried = true
	}
}

// fails reports whether an endpoint is in an outage.
func (s *circuits) fails(endpoint string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.known[endpoint]
	return ok && c.failures >= outageFailures
}

// steady reports whether an endpoint's circuit is closed and not about to open, so
// that requests may be repeated. Without circuits nobody knows.
func (s *circuits) steady(endpoint string) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.known[endpoint]
	few := min(outageFailures, (s.failures+1)/2)
	return !ok || c.state == store.CircuitClosed && !c.tried && c.failures < few
}

// evict drops the least used of some circuits that nobody needs: not open, and
// without requests in progress. s.mu is held.
func (s *circuits) evict() bool {
	var least *circuit
	tries := 0
	for _, c := range s.known { // in random order
		if c.busy == 0 && !s.isOpen(c) && (least == nil || c.used < least.used) {
			least = c
		}
		if tries++; tries == evictionTries {
			break
		}
	}
	if least == nil {
		return false
	}
	delete(s.known, least.endpoint)
	return true
}

// isOpen reports whether a circuit is open and its time has not passed. s.mu is
// held.
func (s *circuits) isOpen(c *circuit) bool {
	return c.state == store.CircuitOpen && s.clock.Now().Before(c.openUntil)
}

// count counts circuits by their state.
func (s *circuits) count() map[store.CircuitState]int {
	n := map[store.CircuitState]int{}
	if s == nil {
		return n
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.known {
		n[c.state]++
	}
	return n
}
