package diskstore

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Topics pages through the topics.
func (s *Store) Topics(ctx context.Context, q store.TopicQuery) (store.TopicPage, error) {
	if q.Busiest {
		busy, err := s.busiest(ctx, q.Limit)
		return store.TopicPage{Topics: busy}, err
	}
	names, next, err := listing.Topics(ctx, &q, func(ctx context.Context, from string, n int) (names []string, err error) {
		err = s.locked(ctx, func(job.Instant) { names = nextNames(&s.topics, from, n, func(*topic) bool { return true }) })
		return names, err
	})
	if err != nil {
		return store.TopicPage{}, err
	}
	page := store.TopicPage{Next: next}
	err = s.locked(ctx, func(job.Instant) {
		for _, name := range names {
			if t, ok := s.topics.Get(name); ok {
				page.Topics = append(page.Topics, store.TopicStats{Topic: name, States: t.counts.byState()})
			} else if slices.Contains(q.Also, name) {
				page.Topics = append(page.Topics, store.TopicStats{Topic: name, States: map[job.State]int64{}})
			}
		}
	})
	return page, err
}

// nextNames returns the first n wanted names of a map from one on.
func nextNames[T any](of *btree.Map[string, T], from string, n int, wanted func(T) bool) []string {
	var names []string
	of.Ascend(from, func(name string, v T) bool {
		if wanted(v) {
			names = append(names, name)
		}
		return len(names) < n
	})
	return names
}

// topicsAtOnce is how many topics are read under one lock.
const topicsAtOnce = 1_000

// busiest returns the n topics with the most unfinished jobs. It reads all topics, in
// parts, because no index has this order.
func (s *Store) busiest(ctx context.Context, n int) ([]store.TopicStats, error) {
	type busy struct {
		store.TopicStats
		jobs int64
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
					most = slices.Insert(most, at, busy{store.TopicStats{Topic: name, States: t.counts.byState()}, jobs})
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
	topics := make([]store.TopicStats, len(most))
	for i := range most {
		topics[i] = most[i].TopicStats
	}
	return topics, nil
}

// Endpoints pages through endpoints by name.
func (s *Store) Endpoints(ctx context.Context, q store.EndpointQuery) (store.EndpointPage, error) {
	circuits := map[string]store.Circuit{}
	page := store.EndpointPage{}
	err := s.locked(ctx, func(now job.Instant) {
		page.Now = now
		for e := range s.notClosed {
			if c := e.circuitAt(now); c != (store.Circuit{}) {
				circuits[e.name] = c
			}
		}
	})
	if err != nil {
		return page, err
	}
	page.Endpoints, page.Next, err = listing.Endpoints(ctx, &q, circuits, func(ctx context.Context, from string, n int) (names []string, err error) {
		err = s.locked(ctx, func(job.Instant) {
			names = nextNames(&s.endpoints, from, n, func(e *endpoint) bool { return len(e.lanes) > 0 })
		})
		return names, err
	})
	if err != nil {
		return page, err
	}
	return page, s.locked(ctx, func(job.Instant) {
		for i := range page.Endpoints {
			st := &page.Endpoints[i]
			if e, ok := s.endpoints.Get(st.Endpoint); ok {
				st.Waiting, st.Ready, st.Running = e.jobs[job.Waiting]+e.jobs[job.Retrying], e.jobs[job.Ready], e.jobs[job.Running]
			}
		}
	})
}

// DeadGroups pages through the groups of dead letters.
func (s *Store) DeadGroups(ctx context.Context, topic string, limit int, cursor string) (store.DeadPage, error) {
	pre := prefixOf(topic)
	names := func(ctx context.Context, from string, n int) (names []string, err error) {
		err = s.locked(ctx, func(job.Instant) {
			s.dead.Ascend(max(pre, from), func(name string, _ int64) bool {
				if len(names) == n || !strings.HasPrefix(name, pre) {
					return false
				}
				names = append(names, name)
				return true
			})
		})
		return names, err
	}
	return listing.DeadGroups(ctx, topic, limit, cursor, names, s.deadGroups)
}

func (s *Store) deadGroups(ctx context.Context, names []string) ([]store.DeadGroup, error) {
	groups := make([]store.DeadGroup, len(names))
	var err error
	locked := s.locked(ctx, func(job.Instant) {
		for i, name := range names {
			g, p := &groups[i], prefix(famLetter, name)
			g.Count, _ = s.dead.Get(name)
			err = errors.Join(err,
				scan(s.db, p, end(p), func(key, _ []byte) bool { g.Oldest, _ = cutTimed(key, len(p)); return false }),
				scanBack(s.db, p, end(p), func(key, _ []byte) bool { g.Newest, _ = cutTimed(key, len(p)); return false }))
		}
	})
	return groups, errors.Join(locked, err)
}

// Depth returns the figures of the store.
func (s *Store) Depth(ctx context.Context) (store.Depth, error) {
	var d store.Depth
	err := s.locked(ctx, func(now job.Instant) {
		d = store.Depth{
			States: s.counts.byState(), ReadyList: int64(len(s.ready)),
			OrderKeys: s.meta.orderKeys, Behind: s.meta.behind, Now: now,
		}
		if l, ok := s.line.Min(); ok {
			d.OldestDue = l.wake
		}
		for e := range s.notClosed {
			if e.circuit.OpenUntil > now {
				d.OpenCircuits++
			}
		}
	})
	return d, err
}
