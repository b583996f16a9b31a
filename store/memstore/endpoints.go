package memstore

import (
	"context"
	"sort"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Endpoints pages through endpoints by name.
func (s *Store) Endpoints(ctx context.Context, q store.EndpointQuery) (store.EndpointPage, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return store.EndpointPage{}, err
	}
	defer s.leave()
	names := make([]string, 0, len(s.endpoints))
	for name, e := range s.endpoints {
		if len(e.lanes) > 0 || e.gate(now) != (store.Gate{}) {
			names = append(names, name)
		}
	}
	page := store.EndpointPage{Now: now}
	page.Endpoints, page.Next, err = q.Pick(names, func(name string) store.Gate {
		if e, ok := s.endpoints[name]; ok {
			return e.gate(now)
		}
		return store.Gate{}
	})
	for i := range page.Endpoints {
		st := &page.Endpoints[i]
		if e, ok := s.endpoints[st.Endpoint]; ok {
			e.addTo(st)
		}
	}
	return page, err
}

// addTo counts the endpoint's jobs.
func (e *endpoint) addTo(st *store.EndpointStats) {
	for l := range e.lanes {
		st.Waiting += int64(l.bucket.Len() - l.out)
		left := l.out
		l.bucket.Scan(func(en entry) bool {
			if left--; left < 0 {
				return false
			}
			if en.score.code() == job.Running {
				st.Running++
			} else {
				st.Ready++
			}
			return true
		})
	}
}

// lanesPerCount is how many lanes are counted before others have the store.
const lanesPerCount = 16

// DueCounts counts jobs that wait.
func (s *Store) DueCounts(ctx context.Context, bounds []job.Instant) ([]int64, error) {
	counts := make([]int64, len(bounds)+1)
	for last, more := "", true; more; {
		if _, err := s.enter(ctx); err != nil {
			return nil, err
		}
		left := lanesPerCount
		more = false
		s.lanes.Ascend(last, func(name string, l *lane) bool {
			if name == last {
				return true
			}
			if more = left == 0; more {
				return false
			}
			last = name
			left--
			l.countDue(bounds, counts, l.out, l.bucket.Len())
			return true
		})
		s.leave()
	}
	return counts, nil
}

// countDue adds the entries from a place before another to counts. By halves, so
// that few bounds are looked for where there are few entries.
func (l *lane) countDue(bounds []job.Instant, counts []int64, from, to int) {
	switch {
	case from >= to:
		return
	case len(bounds) == 0:
		counts[0] += int64(to - from)
		return
	}
	half := len(bounds) / 2
	sc := bucketScore(bounds[half], job.Waiting)
	at := from + sort.Search(to-from, func(n int) bool {
		e, _ := l.bucket.GetAt(from + n)
		return e.score >= sc
	})
	l.countDue(bounds[:half], counts[:half+1], from, at)
	l.countDue(bounds[half+1:], counts[half+1:], at, to)
}
