package diskstore

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Names reads names, which are in memory.
func (s *Store) Names(ctx context.Context, q store.NameQuery) (names []string, err error) {
	if q.Kind == store.BusyNames {
		return s.busiest(ctx, q.N)
	}
	var failed error
	err = s.locked(ctx, func(now job.Instant) {
		add := func(name string) bool { names = append(names, name); return len(names) < q.N }
		pre := prefixOf(q.Topic)
		of := func(name string) bool { return strings.HasPrefix(name, pre) }
		switch q.Kind {
		case store.TopicNames:
			s.topics.Ascend(q.From, func(name string, _ *topic) bool { return add(name) })
		case store.EndedNames:
			s.topics.Ascend(q.From, func(name string, t *topic) bool { return t.ended() == 0 || add(name) })
		case store.EndpointNames:
			s.endpoints.Ascend(q.From, func(name string, e *endpoint) bool { return e.lanes.Len() == 0 || add(name) })
		case store.DeadNames:
			s.dead.Ascend(max(pre, q.From), func(name string, _ int64) bool { return of(name) && add(name) })
		case store.DueNames:
			t := s.begin(now)
			s.lanes.Ascend(max(pre, q.From), func(name string, l *lane) bool {
				e, ok := l.first(t)
				return of(name) && (!ok || e.at >= q.Before || add(name))
			})
			if t.err != nil {
				failed = unavailable(t.err)
			}
		case store.LaneNames:
			lanes := &s.lanes
			if e, ok := s.endpoints.Get(q.Endpoint); ok {
				lanes = &e.lanes
			} else if q.Endpoint != "" {
				return
			}
			lanes.Ascend(max(pre, q.From), func(name string, _ *lane) bool { return of(name) && add(name) })
		}
	})
	return names, errors.Join(err, failed)
}

// ended counts the jobs in the list of a topic's ended ones.
func (t *topic) ended() int64 {
	return t.counts[job.Delivered] + t.counts[job.Cancelled] + t.counts[job.Expired]
}

// topicsAtOnce is how many topics are read under one lock.
const topicsAtOnce = 1_000

// busiest returns the n topics with the most unfinished jobs. It reads all topics, in
// parts, because no index has this order.
func (s *Store) busiest(ctx context.Context, n int) ([]string, error) {
	type busy struct {
		topic string
		jobs  int64
	}
	var most []busy
	for from, left := "", 0; left == 0; {
		err := s.locked(ctx, func(job.Instant) {
			left = topicsAtOnce
			s.topics.Ascend(from, func(name string, t *topic) bool {
				if jobs := t.counts.unfinished(); jobs > 0 && (len(most) < n || jobs > most[n-1].jobs) {
					at, _ := slices.BinarySearchFunc(most, jobs, func(b busy, jobs int64) int {
						if b.jobs >= jobs { // of an earlier name
							return -1
						}
						return 1
					})
					most = slices.Insert(most, at, busy{name, jobs})
					most = most[:min(n, len(most))]
				}
				from = name + "\x00"
				left--
				return left > 0
			})
		})
		if err != nil {
			return nil, err
		}
	}
	topics := make([]string, len(most))
	for i := range most {
		topics[i] = most[i].topic
	}
	return topics, nil
}
