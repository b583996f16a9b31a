package diskstore

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/btree"

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
	if l, ok := s.limits[topic]; ok {
		return rules.Admits(&l.Limits, s.unfinished(topic))
	}
	return store.Created
}

// isFull reports whether the topic has reached its capacity.
func (s *Store) isFull(topic string) bool {
	l, ok := s.limits[topic]
	return ok && rules.IsFull(&l.Limits, s.unfinished(topic))
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
	return t.counts.inFlight()
}

// more is how many more jobs of the topic the caller's workers may get.
func (c *taking) more(topic string) int {
	if c.shares == nil {
		return c.room
	}
	return min(c.room, c.shares.More(topic))
}

// hasPlace reports whether another job of the topic may run.
func (s *Store) hasPlace(topic string) bool {
	l, ok := s.limits[topic]
	return !ok || l.Concurrency == 0 || s.topicInFlight(topic) < l.Concurrency
}

// lines are lanes that wait for a place, by topic and ticket.
type lines map[string]*btree.BTreeG[*lane]

// awaitPlace puts a lane into the line for a free place: its topic, or the lane itself, has
// as many jobs in flight as allowed, or its topic as many workers.
func (t *txn) awaitPlace(l *lane, wait rules.Wait) {
	s := t.s
	l.line = s.waiting
	if wait.Hint {
		l.line = s.shared
	}
	line := l.line[l.Topic]
	if line == nil {
		line = btree.NewBTreeGOptions(byTicket, btree.Options{NoLocks: true})
		l.line[l.Topic] = line
	}
	s.seq++
	l.ticket = s.seq
	line.Set(l)
	l.limited = wait.Look
	at := l.head(t, l.limited)
	if wait.Hint { // a job whose lease has expired needs a worker, too
		at = max(at, l.limited)
	}
	t.s.queue(l, at)
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
	line := l.line[l.Topic]
	line.Delete(l)
	l.ticket = 0
	if line.Len() == 0 {
		delete(l.line, l.Topic)
	}
}

// callShared calls lanes that wait for workers, of topics that may have more.
func (c *taking) callShared() {
	for _, topic := range slices.Sorted(maps.Keys(c.s.shared)) {
		for range c.more(topic) {
			c.callFirst(c.s.shared[topic])
		}
	}
}

// callFirst calls the lane that is first in a line, if there is one.
func (t *txn) callFirst(line *btree.BTreeG[*lane]) {
	if line == nil {
		return
	}
	if first, ok := line.Min(); ok {
		t.call(first)
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

// pass calls other lanes of topics that still have free places or workers after a plan, because the
// lanes called before may not have used them.
func (c *taking) pass() {
	if len(c.s.waiting)+len(c.s.shared) == 0 {
		return
	}
	for _, topic := range slices.Sorted(maps.Keys(c.met)) {
		if c.s.limits[topic] != nil && c.s.hasPlace(topic) {
			c.callFirst(c.s.waiting[topic])
		}
		for range c.more(topic) {
			c.callFirst(c.s.shared[topic])
		}
	}
}
