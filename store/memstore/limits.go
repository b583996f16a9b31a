package memstore

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// SetLimits replaces the limits of a topic.
func (s *Store) SetLimits(ctx context.Context, topic string, l store.Limits) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.leave()
	old, had := s.limits[topic]
	if had && old.Limits == l {
		return nil
	}
	delete(s.limits, topic)
	if l != (store.Limits{}) {
		fresh := &rules.Topic{Limits: l}
		if had && old.Rate == l.Rate {
			fresh.Next = old.Next
		}
		s.limits[strings.Clone(topic)] = fresh
	}
	s.lanesOf(topic, func(lane *lane) {
		s.stopWaiting(lane)
		lane.limited = 0
		s.look(lane, now)
	})
	return nil
}

// Limits returns the limits of all topics that have some.
func (s *Store) Limits(ctx context.Context) (map[string]store.Limits, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	all := make(map[string]store.Limits, len(s.limits))
	for topic, l := range s.limits {
		all[topic] = l.Limits
	}
	return all, nil
}

// admits returns Created if the topic accepts another unfinished job, and otherwise why
// not.
func (s *Store) admits(topic string) store.RegisterOutcome {
	l, ok := s.limits[topic]
	switch {
	case !ok:
		return store.Created
	case l.Draining:
		return store.TopicDraining
	case s.isFull(topic):
		return store.TopicFull
	}
	return store.Created
}

// isFull reports whether the topic has reached its capacity.
func (s *Store) isFull(topic string) bool {
	l, ok := s.limits[topic]
	return ok && l.Capacity > 0 && s.unfinished(topic) >= int64(l.Capacity)
}

// resumes is admits for the replay of an ended job.
func (s *Store) resumes(topic string) error {
	switch s.admits(topic) {
	case store.TopicDraining:
		return store.ErrTopicDraining
	case store.TopicFull:
		return store.ErrTopicFull
	}
	return nil
}

func (s *Store) unfinished(topic string) int64 {
	t, ok := s.topics.Get(topic)
	if !ok {
		return 0
	}
	var n int64
	for state, count := range t.counts {
		if !job.State(state).Final() {
			n += count
		}
	}
	return n
}

// topicInFlight is how many jobs of the topic are in flight.
func (s *Store) topicInFlight(topic string) int {
	t, ok := s.topics.Get(topic)
	if !ok {
		return 0
	}
	return int(t.counts[job.Ready] + t.counts[job.Running])
}

// hasPlace reports whether another job of the topic may be ready or running.
func (s *Store) hasPlace(topic string) bool {
	l, ok := s.limits[topic]
	return !ok || l.Concurrency == 0 || s.topicInFlight(topic) < l.Concurrency
}

// awaitPlace puts a lane into the line for a free place: its topic, or the lane itself, has
// as many jobs in flight as allowed.
func (s *Store) awaitPlace(l *lane, until job.Instant) {
	line := s.waiting[l.Topic]
	if line == nil {
		line = btree.NewBTreeGOptions(byTicket, btree.Options{NoLocks: true})
		s.waiting[l.Topic] = line
	}
	s.seq++
	l.ticket = s.seq
	line.Set(l)
	l.limited = until
	s.queue(l, l.head(l.limited))
}

// byTicket orders waiting lanes: by priority, then by ticket.
func byTicket(a, b *lane) bool {
	if a.Priority != b.Priority {
		return goesFirst(a, b) < 0
	}
	return a.ticket < b.ticket
}

func (s *Store) stopWaiting(l *lane) {
	if l.ticket == 0 {
		return
	}
	line := s.waiting[l.Topic]
	line.Delete(l)
	l.ticket = 0
	if line.Len() == 0 {
		delete(s.waiting, l.Topic)
	}
}

// placeFree calls the lane that is first in line for a place of l's topic, and l
// and its siblings, which may have waited for their own.
func (s *Store) placeFree(l *lane, now job.Instant) {
	line := s.waiting[l.Topic]
	if line == nil {
		return
	}
	first, _ := line.Min()
	s.call(first, now)
	if l.ticket != 0 {
		s.call(l, now)
	}
	for _, o := range s.siblings(l) {
		if o.ticket != 0 {
			s.call(o, now)
		}
	}
}

func (s *Store) call(l *lane, now job.Instant) {
	s.stopWaiting(l)
	l.limited = 0
	s.look(l, now)
}

// pass calls other lanes of topics that still have free places, because the lanes called
// before may not have used them.
func (c *carrying) pass() {
	for _, topic := range slices.Sorted(maps.Keys(c.met)) {
		line := c.s.waiting[topic]
		if line == nil || !c.s.hasPlace(topic) {
			continue
		}
		if l, _ := line.Min(); l != nil {
			c.s.call(l, c.now)
		}
	}
}
