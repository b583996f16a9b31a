package diskstore

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
	return s.change(ctx, false, func(t *txn) {
		old, had := s.limits[topic]
		if had && old.Limits == l {
			return
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
			t.look(lane)
		})
	})
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

func (s *Store) unfinished(topic string) int64 {
	if t, ok := s.topics.Get(topic); ok {
		return t.counts.unfinished()
	}
	return 0
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
func (t *txn) awaitPlace(l *lane, until job.Instant) {
	s := t.s
	line := s.waiting[l.Topic]
	if line == nil {
		line = btree.NewBTreeGOptions(byTicket, btree.Options{NoLocks: true})
		s.waiting[l.Topic] = line
	}
	s.seq++
	l.ticket = s.seq
	line.Set(l)
	l.limited = until
	t.s.queue(l, l.head(t, l.limited))
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
func (t *txn) placeFree(l *lane) {
	line := t.s.waiting[l.Topic]
	if line == nil {
		return
	}
	first, _ := line.Min()
	t.call(first)
	if l.ticket != 0 {
		t.call(l)
	}
	for _, o := range t.s.siblings(l) {
		if o.ticket != 0 {
			t.call(o)
		}
	}
}

func (t *txn) call(l *lane) {
	t.s.stopWaiting(l)
	l.limited = 0
	t.look(l)
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
			c.call(l)
		}
	}
}
