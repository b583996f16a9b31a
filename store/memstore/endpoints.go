package memstore

import (
	"context"
	"slices"
	"sort"
	"strings"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Endpoints pages through endpoints by name.
func (s *Store) Endpoints(ctx context.Context, q store.EndpointQuery) (store.EndpointPage, error) {
	circuits, now, err := s.circuits(ctx)
	if err != nil {
		return store.EndpointPage{}, err
	}
	page := store.EndpointPage{Now: now}
	page.Endpoints, page.Next, err = listing.Endpoints(ctx, &q, circuits, s.nextEndpoints)
	if err != nil {
		return page, err
	}
	if _, err := s.enter(ctx); err != nil {
		return page, err
	}
	defer s.leave()
	for i := range page.Endpoints {
		st := &page.Endpoints[i]
		if e, ok := s.endpoints.Get(st.Endpoint); ok {
			st.Waiting, st.Ready, st.Running = e.jobs[job.Waiting]+e.jobs[job.Retrying], e.jobs[job.Ready], e.jobs[job.Running]
		}
	}
	return page, nil
}

// circuits returns the endpoints whose circuit is not closed.
func (s *Store) circuits(ctx context.Context) (map[string]store.Circuit, job.Instant, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer s.leave()
	circuits := map[string]store.Circuit{}
	for e := range s.notClosed {
		if g := e.circuitAt(now); g != (store.Circuit{}) {
			circuits[e.name] = g
		}
	}
	return circuits, now, nil
}

// nextEndpoints is a listing.NextNames.
func (s *Store) nextEndpoints(ctx context.Context, from string, n int) ([]string, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	return nextNames(&s.endpoints, from, n, func(e *endpoint) bool { return len(e.lanes) > 0 }), nil
}

// lanesPerCount is how many lanes are counted under one lock.
const lanesPerCount = 16

// DueCounts counts waiting jobs.
func (s *Store) DueCounts(ctx context.Context, of store.DueOf, bounds []job.Instant) (store.DueCounts, error) {
	counts := make([]int64, len(bounds)+1)
	if of.Endpoint != "" {
		return store.DueCounts{Counts: counts}, s.countEndpoint(ctx, of, bounds, counts)
	}
	prefix := prefixOf(of.Topic)
	for last, more := prefix, true; more; {
		if _, err := s.enter(ctx); err != nil {
			return store.DueCounts{}, err
		}
		left := lanesPerCount
		more = false
		s.lanes.Ascend(last, func(name string, l *lane) bool {
			if name == last {
				return true
			}
			if more = left == 0 && strings.HasPrefix(name, prefix); more || !strings.HasPrefix(name, prefix) {
				return false
			}
			last = name
			left--
			l.countWaiting(bounds, counts)
			return true
		})
		s.leave()
	}
	return store.DueCounts{Counts: counts}, nil
}

// countEndpoint adds the counts of an endpoint's lanes. A lane that is forgotten meanwhile has
// no jobs.
func (s *Store) countEndpoint(ctx context.Context, of store.DueOf, bounds []job.Instant, counts []int64) error {
	if _, err := s.enter(ctx); err != nil {
		return err
	}
	var lanes []*lane
	if e, ok := s.endpoints.Get(of.Endpoint); ok {
		for l := range e.lanes {
			if of.Topic == "" || of.Topic == l.Topic {
				lanes = append(lanes, l)
			}
		}
	}
	s.leave()
	for some := range slices.Chunk(lanes, lanesPerCount) {
		if _, err := s.enter(ctx); err != nil {
			return err
		}
		for _, l := range some {
			l.countWaiting(bounds, counts)
		}
		s.leave()
	}
	return nil
}

// countWaiting adds the entries that wait to counts. Parked ones count by when they are due.
func (l *lane) countWaiting(bounds []job.Instant, counts []int64) {
	firstParked := l.bucket.Len()
	if l.Ordered {
		firstParked = l.position(parked)
	}
	l.countDue(bounds, counts, l.inFlight, firstParked, 0)
	l.countDue(bounds, counts, firstParked, l.bucket.Len(), parked)
}

// countDue adds the entries between two places to counts; shift was added to their scores.
// It searches by halves, so that few entries need few searches.
func (l *lane) countDue(bounds []job.Instant, counts []int64, from, to int, shift score) {
	switch {
	case from >= to:
		return
	case len(bounds) == 0:
		counts[0] += int64(to - from)
		return
	}
	half := len(bounds) / 2
	sc := bucketScore(bounds[half], job.Waiting) + shift
	at := from + sort.Search(to-from, func(n int) bool {
		e, _ := l.bucket.GetAt(from + n)
		return e.score >= sc
	})
	l.countDue(bounds[:half], counts[:half+1], from, at, shift)
	l.countDue(bounds[half+1:], counts[half+1:], at, to, shift)
}
