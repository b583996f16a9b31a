package recent

import (
	"maps"

	"github.com/duehook/duehook/job"
)

const (
	// maxEndpoints bounds of how many endpoints a node knows how they are.
	maxEndpoints = 500
	// evictionLooks is among how many of them the one to be forgotten is chosen.
	evictionLooks = 8
)

// Health is how an endpoint took its attempts.
type Health struct {
	// Failures are the failed attempts since the last success, as each node counts
	// them for itself, of all nodes together.
	Failures int64 `json:"n,omitempty"`
	// LastError is the class of what went wrong last, and LastFailureAt when that
	// attempt began.
	LastError     string      `json:"e,omitempty"`
	LastFailureAt job.Instant `json:"f,omitempty"`
	// LastSuccessAt is when the last attempt that the endpoint accepted began.
	LastSuccessAt job.Instant `json:"s,omitempty"`
}

func (h *Health) latest() job.Instant { return max(h.LastFailureAt, h.LastSuccessAt) }

// merge adds what another node knows.
func (h *Health) merge(other Health) {
	h.Failures += other.Failures
	if other.LastFailureAt > h.LastFailureAt {
		h.LastFailureAt, h.LastError = other.LastFailureAt, other.LastError
	}
	h.LastSuccessAt = max(h.LastSuccessAt, other.LastSuccessAt)
}

// endpoints are how endpoints are, by name.
type endpoints map[string]*Health

func (e endpoints) add(s *job.Settlement) {
	name := s.Lane.Endpoint
	h := e[name]
	if h == nil {
		if len(e) >= maxEndpoints {
			e.evict()
		}
		h = new(Health)
		e[name] = h
	}
	at := s.Attempt.StartedAt
	switch {
	case s.To == job.Delivered, s.Reason == job.ReasonSnoozed:
		h.Failures = 0
		h.LastSuccessAt = max(h.LastSuccessAt, at)
	default:
		h.Failures++
		if at >= h.LastFailureAt {
			h.LastFailureAt, h.LastError = at, s.Attempt.Error
		}
	}
}

// evict forgets one endpoint: of some, one that works, and of those the one that
// was attempted longest ago.
func (e endpoints) evict() {
	worst, looks := "", 0
	for name, h := range e { // in no order
		if worst == "" || h.dispensable(e[worst]) {
			worst = name
		}
		if looks++; looks == evictionLooks {
			break
		}
	}
	delete(e, worst)
}

func (h *Health) dispensable(than *Health) bool {
	if works := h.Failures == 0; works != (than.Failures == 0) {
		return works
	}
	return h.latest() < than.latest()
}

func (e endpoints) copied() map[string]Health {
	all := make(map[string]Health, len(e))
	for name, h := range e {
		all[name] = *h
	}
	return all
}

func mergeHealth(into, from map[string]Health) {
	for name, h := range maps.All(from) {
		known := into[name]
		known.merge(h)
		into[name] = known
	}
}
