package memstore

import (
	"cmp"
	"slices"

	"github.com/tidwall/btree"

	"github.com/duehook/duehook/job"
)

// maxRivals bounds how many lanes of one kind are asked whether they go before
// another.
const maxRivals = 64

// ranked are the lanes of a topic that has jobs with a priority of their own. It
// lives as long as such a job is unfinished; other topics have none.
type ranked struct {
	lanes    *btree.BTreeG[*lane]  // those with a priority: what goes first stands first
	siblings map[*endpoint][]*lane // all of them
}

func byName(a, b *lane) bool { return a.name < b.name }

// goesFirst orders lanes by their priority only.
func goesFirst(a, b *lane) int { return cmp.Compare(b.Priority.Number(), a.Priority.Number()) }

// rank takes a new lane in.
func (s *Store) rank(l *lane) {
	r := s.ranked[l.Topic]
	switch {
	case r != nil:
		r.add(l)
	case l.Priority != 0:
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
	if l.Priority != 0 {
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

// outOf is how many jobs of l and its siblings are out.
func (s *Store) outOf(l *lane) int {
	n := l.out
	for _, o := range s.siblings(l) {
		if o != l {
			n += o.out
		}
	}
	return n
}

// higher is how many jobs with a priority above l's are due in its topic and wait.
func (s *Store) higher(l *lane, now job.Instant) int64 {
	r := s.ranked[l.Topic]
	if r == nil {
		return 0
	}
	var n int64
	for _, lanes := range r.siblings {
		for _, o := range lanes {
			if goesFirst(o, l) < 0 {
				n += int64(o.position(bucketScore(now+1, job.Waiting)) - o.out)
			}
		}
	}
	return n
}

// letRivalsGoFirst carries what is due in l's topic and goes before it, and gives
// what is left of the share for l. Siblings have one share among them, or jobs of many
// priorities would take that of other topics.
func (c *carrying) letRivalsGoFirst(r *ranked, l *lane, limits *limits, share int) int {
	takers := 0
	for _, o := range r.siblings[l.endpoint] {
		if c.canGo(o) {
			takers++
		}
	}
	share = (share + takers - 1) / max(takers, 1)
	for _, rival := range c.rivals(r, l) {
		if share == 0 || c.room == 0 {
			break
		}
		taken, more := c.serve(rival, limits, share)
		share -= taken
		if more {
			return 0
		}
	}
	return share
}

// rivals are the lanes of l's topic that go before it, the first one first: all
// of its siblings, and of other endpoints those that are easily found.
func (c *carrying) rivals(r *ranked, l *lane) []*lane {
	var found []*lane
	consider := func(o *lane) bool {
		first := goesFirst(o, l) < 0
		if first && c.canGo(o) && !slices.Contains(found, o) {
			found = append(found, o)
		}
		return first
	}
	for _, o := range r.siblings[l.endpoint] {
		consider(o)
	}
	some := func(visit func(*lane) bool) func(*lane) bool {
		left := maxRivals
		return func(o *lane) bool {
			left--
			return visit(o) && left > 0
		}
	}
	r.lanes.Scan(some(consider))
	if waiting := c.s.waiting[l.Topic]; waiting != nil {
		waiting.Scan(some(consider))
	}
	c.s.line.Scan(some(func(o *lane) bool {
		if o.Topic == l.Topic {
			consider(o)
		}
		return o.wake <= c.now
	}))
	slices.SortStableFunc(found, goesFirst)
	return found
}

// canGo: a job of the lane is due, its endpoint is not held, and the lane was not
// put aside by this call.
func (c *carrying) canGo(l *lane) bool {
	return l.queued && l.head(0) <= c.now && l.endpoint.held <= c.now
}
