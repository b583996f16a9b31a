package diskstore

import (
	"cmp"
	"slices"

	"github.com/tidwall/btree"

	"github.com/duehook/duehook/store/rules"
)

// ranked are the lanes of a topic that has jobs with a priority of their own. It
// lives as long as such a job is unfinished; other topics have none.
type ranked struct {
	lanes    *btree.BTreeG[*lane]  // those with a priority, the highest first
	siblings map[*endpoint][]*lane // all of them
}

func byName(a, b *lane) bool { return a.name < b.name }

// goesFirst orders lanes by their priority only.
func goesFirst(a, b *lane) int { return cmp.Compare(b.Priority.Number(), a.Priority.Number()) }

// rank adds a new lane.
func (s *Store) rank(l *lane) {
	r := s.ranked[l.Topic]
	switch {
	case r != nil:
		r.add(l)
	case l.Special():
		r = &ranked{
			lanes:    btree.NewBTreeGOptions(byName, btree.Options{NoLocks: true}),
			siblings: map[*endpoint][]*lane{},
		}
		s.ranked[l.Topic] = r
		r.add(l)
		s.lanesOf(l.Topic, func(other *lane) {
			if other != l {
				r.add(other)
			}
		})
	}
}

func (r *ranked) add(l *lane) {
	r.siblings[l.endpoint] = append(r.siblings[l.endpoint], l)
	if l.Special() {
		r.lanes.Set(l)
	}
}

// unrank forgets a lane.
func (s *Store) unrank(l *lane) {
	r := s.ranked[l.Topic]
	if r == nil {
		return
	}
	rest := slices.DeleteFunc(r.siblings[l.endpoint], func(o *lane) bool { return o == l })
	r.siblings[l.endpoint] = rest
	if len(rest) == 0 {
		delete(r.siblings, l.endpoint)
	}
	r.lanes.Delete(l)
	if r.lanes.Len() == 0 {
		delete(s.ranked, l.Topic)
	}
}

// siblings are the lanes of the same topic and endpoint, l among them; none if
// the topic has no priorities.
func (s *Store) siblings(l *lane) []*lane {
	if r := s.ranked[l.Topic]; r != nil {
		return r.siblings[l.endpoint]
	}
	return nil
}

// inFlightOf is how many jobs of l and its siblings are in flight.
func (s *Store) inFlightOf(l *lane) int {
	n := l.flights.Len()
	for _, o := range s.siblings(l) {
		if o != l {
			n += o.flights.Len()
		}
	}
	return n
}

// withRivals adds lanes that may go before the given ones: all of the same topic and
// endpoint, and of other endpoints some with a priority and some that wait for a free
// place.
func (c *taking) withRivals(lanes []*lane) []*lane {
	if len(c.s.ranked) == 0 {
		return lanes
	}
	known := map[*lane]struct{}{}
	for _, l := range lanes {
		known[l] = struct{}{}
	}
	add := func(l *lane) {
		if _, ok := known[l]; !ok && l.queued && l.head(c.txn, 0) <= c.now {
			known[l] = struct{}{}
			lanes = append(lanes, l)
		}
	}
	some := func(in *btree.BTreeG[*lane]) {
		left := rules.MaxRivals
		in.Scan(func(l *lane) bool {
			add(l)
			left--
			return left > 0
		})
	}
	asked := map[string]struct{}{}
	for _, l := range slices.Clone(lanes) {
		r := c.s.ranked[l.Topic]
		if r == nil {
			continue
		}
		for _, o := range r.siblings[l.endpoint] {
			add(o)
		}
		if _, ok := asked[l.Topic]; ok {
			continue
		}
		asked[l.Topic] = struct{}{}
		some(r.lanes)
		for _, of := range []lines{c.s.waiting, c.s.shared} {
			if line := of[l.Topic]; line != nil {
				some(line)
			}
		}
	}
	return lanes
}
