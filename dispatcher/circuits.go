package dispatcher

import (
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/duehook/duehook/internal/job"
)

const (
	// maxCircuits bounds the memory that endpoints can take.
	maxCircuits = 10_000
	// evictionTries bounds the search for a circuit to drop.
	evictionTries = 16
	// refusedPause is the delay of a job that its circuit did not allow. By then the store
	// knows of the circuit, and holds the job itself, so that the job goes on as soon as the
	// circuit is half-open.
	refusedPause = time.Second
	// outageFailures is how many failures in a row make an outage, whether the
	// circuit opens or not. Its end is reported.
	outageFailures = 5
)

// circuits keeps a circuit breaker for each endpoint. It is safe for concurrent
// use. A nil *circuits allows everything.
type circuits struct {
	clock    job.Clock
	failures uint32
	openFor  time.Duration
	probes   uint32
	limit    int
	// changed reports each opening, with its end, and each closing, with zero. It
	// must not block.
	changed func(endpoint string, openUntil time.Time)
	// recovered reports the first success after an outage, with the beginning of
	// the outage. It must not block.
	recovered func(endpoint string, since time.Time)

	mu    sync.Mutex // taken by the breakers' callbacks; no breaker is called under it
	known map[string]*circuit
	uses  uint64
}

// circuit is the breaker of one endpoint. circuits.mu guards its fields.
type circuit struct {
	endpoint  string
	breaker   *gobreaker.TwoStepCircuitBreaker[struct{}]
	state     gobreaker.State // the last one; to ask the breaker could change it
	openUntil time.Time
	tried     bool      // before its time, by Try: the next request decides
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
		clock: o.Clock, failures: uint32(o.BreakerFailures), openFor: o.BreakerOpen,
		probes: uint32(o.BreakerProbes), limit: maxCircuits, changed: changed, recovered: recovered,
		known: map[string]*circuit{},
	}
}

// allow asks for permission to send a request to the endpoint. The caller must
// call done with the result: nil, errEndpoint or errExcluded. Without permission
// done is nil.
func (s *circuits) allow(endpoint string) (done func(health error)) {
	if s == nil {
		return func(error) {}
	}
	c, allowed := s.acquire(endpoint)
	if c == nil {
		return func(error) {}
	}
	if !allowed {
		return nil
	}
	report, err := c.breaker.Allow()
	if err != nil { // half-open with enough requests, or another request has just opened it
		s.mu.Lock()
		c.busy--
		s.mu.Unlock()
		return nil
	}
	return func(health error) {
		report(health)
		s.finish(c, health)
	}
}

// acquire finds or makes the endpoint's circuit, and counts a request unless the circuit is
// open. It returns nil if there are too many circuits.
func (s *circuits) acquire(endpoint string) (c *circuit, allowed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.known[endpoint]
	if !ok {
		if len(s.known) >= s.limit && !s.evict() {
			return nil, false
		}
		c = s.newCircuit(endpoint)
		s.known[endpoint] = c
	}
	s.uses++
	c.used = s.uses
	if s.isOpen(c) {
		return c, false
	}
	if c.state == gobreaker.StateOpen { // its time has passed
		c.state = gobreaker.StateHalfOpen
	}
	c.busy++
	return c, true
}

// finish ends a request, and reports its result to the circuit.
func (s *circuits) finish(c *circuit, health error) {
	s.mu.Lock()
	c.busy--
	over, closed, since := false, false, c.failing
	switch {
	case health == nil:
		over, closed = c.failures >= outageFailures, c.tried
		c.failures, c.tried = 0, false
	case errors.Is(health, errEndpoint):
		if c.failures == 0 {
			c.failing = s.clock.Now()
		}
		c.failures++
	}
	s.mu.Unlock()
	if closed {
		s.changed(c.endpoint, time.Time{})
	}
	if over {
		s.recovered(c.endpoint, since)
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
	if old, ok := s.known[endpoint]; ok && s.isOpen(old) {
		// A breaker cannot be closed from outside, so another takes its place. The
		// requests in progress report to the old one.
		c := s.newCircuit(endpoint)
		c.failures, c.failing, c.used, c.tried = old.failures, old.failing, old.used, true
		s.known[endpoint] = c
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
	few := min(outageFailures, (int(s.failures)+1)/2)
	return !ok || c.state == gobreaker.StateClosed && !c.tried && c.failures < few
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

// isOpen reports whether a circuit is open and its time has not passed. A clock that went
// back must not keep it open for longer. s.mu is held.
func (s *circuits) isOpen(c *circuit) bool {
	left := c.openUntil.Sub(s.clock.Now())
	return c.state == gobreaker.StateOpen && left > 0 && left <= s.openFor
}

func (s *circuits) newCircuit(endpoint string) *circuit {
	c := &circuit{endpoint: endpoint}
	c.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        endpoint,
		MaxRequests: s.probes,
		// Failures in a row need no window, and one shorter than they take would
		// never trip.
		Interval: 0,
		// The breaker knows only the machine's clock. So it half-opens at once, and acquire
		// holds requests back until openFor has passed by the injected clock.
		Timeout: time.Nanosecond,
		// This callback and the last one run under the breaker's lock.
		ReadyToTrip: func(n gobreaker.Counts) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return c.tried || n.ConsecutiveFailures >= s.failures
		},
		IsExcluded:    func(err error) bool { return errors.Is(err, errExcluded) },
		OnStateChange: func(_ string, _, to gobreaker.State) { s.note(c, to) },
	})
	return c
}

// note keeps and reports the new state of a circuit. A half-open one needs no
// report: acquire and the store count the time themselves.
func (s *circuits) note(c *circuit, to gobreaker.State) {
	if to == gobreaker.StateHalfOpen {
		return
	}
	s.mu.Lock()
	c.state = to
	until := time.Time{}
	if to == gobreaker.StateOpen {
		until = s.clock.Now().Add(s.openFor)
		c.tried, c.openUntil = false, until
	}
	s.mu.Unlock()
	s.changed(c.endpoint, until)
}

// count counts circuits by their state.
func (s *circuits) count() map[gobreaker.State]int {
	n := map[gobreaker.State]int{}
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
