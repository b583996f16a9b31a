package recent

import (
	"maps"

	"github.com/duehook/duehook/internal/job"
)

const (
	// maxEndpoints bounds the endpoints that a node tracks.
	maxEndpoints = 500
	// evictionLooks is how many endpoints an eviction compares.
	evictionLooks = 8
)

// Health is the health of an endpoint.
type Health struct {
	// Failures are the failed attempts since the last success, summed over nodes that
	// each count separately.
	Failures int64 `json:"n,omitempty"`
	// LastError is the class of the last error, and LastFailureAt the start of that
	// attempt.
	LastError     string      `json:"e,omitempty"`
	LastFailureAt job.Instant `json:"f,omitempty"`
	// LastSuccessAt is the start of the last successful attempt.
	LastSuccessAt job.Instant `json:"s,omitempty"`
}

func (h *Health) latest() job.Instant { return max(h.LastFailureAt, h.LastSuccessAt) }

// merge adds the figures of another node.
func (h *Health) merge(other Health) {
	h.Failures += other.Failures
	if other.LastFailureAt > h.LastFailureAt {
		h.LastFailureAt, h.LastError = other.LastFailureAt, other.LastError
	}
	h.LastSuccessAt = max(h.LastSuccessAt, other.LastSuccessAt)
}

// endpoints are the healths of endpoints, by name.
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
	case s.To == job.Delivered, job.PutOff(s.Reason):
		h.Failures = 0
		h.LastSuccessAt = max(h.LastSuccessAt, at)
	default:
		h.Failures++
		if at >= h.LastFailureAt {
			h.LastFailureAt, h.LastError = at, s.Attempt.Error
		}
	}
}

// evict drops one of a few endpoints: preferably one that works, and the one with the
// oldest attempt.
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
