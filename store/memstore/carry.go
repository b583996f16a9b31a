package memstore

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// Bounds of one call of Carry, which holds the lock: jobs, lanes, and lanes of one plan.
const (
	maxCarry    = 1_000
	maxLooks    = 1_000
	lanesAtOnce = 64
)

// Carry moves due jobs to the ready list.
func (s *Store) Carry(ctx context.Context, _ int, o store.CarryOptions) (store.CarryResult, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return store.CarryResult{}, err
	}
	defer s.leave()

	if s.wentBack {
		s.afterStep(now, o.Longest)
	}
	c := carrying{s: s, now: now, o: o, room: min(o.Cap-len(s.ready), maxCarry), met: map[string]struct{}{}}
	for looks := 0; c.room > 0 && looks < maxLooks; {
		lanes := c.due()
		if len(lanes) == 0 {
			break
		}
		c.carryFrom(lanes)
		looks += len(lanes)
	}
	// A lane without a carried job comes first the next time.
	for _, w := range slices.Concat(c.unserved, c.served) {
		w.lane.limited = w.look
		s.queue(w.lane, w.look)
	}
	c.pass()
	s.earlier = false // the result tells the caller
	if len(c.carried) > 0 && s.pushed != nil {
		close(s.pushed)
		s.pushed = nil
	}
	wait := s.untilDue(now)
	full := wait == 0 && len(s.ready) >= o.Cap
	return store.CarryResult{Carried: c.carried, Wait: wait, Full: full}, nil
}

// untilDue is CarryResult.Wait.
func (s *Store) untilDue(now job.Instant) time.Duration {
	l, ok := s.line.Min()
	if !ok {
		return -1
	}
	return max(0, l.wake.Sub(now))
}

// carrying is one call of Carry.
type carrying struct {
	s                *Store
	now              job.Instant
	o                store.CarryOptions
	room             int // hints that may still be pushed
	carried          []store.Carried
	served, unserved []waiting           // lanes to visit again for a free place
	met              map[string]struct{} // topics with limits whose lanes were visited
}

// waiting is a lane that waits for a free place.
type waiting struct {
	lane *lane
	look job.Instant
}

// due are the first lanes in line, for one plan.
func (c *carrying) due() []*lane {
	var lanes []*lane
	c.s.line.Scan(func(l *lane) bool {
		if l.wake > c.now || len(lanes) == min(lanesAtOnce, c.room) {
			return false
		}
		lanes = append(lanes, l)
		return true
	})
	return lanes
}

// facts are the input of the plan; the first lanes are due.
func (c *carrying) facts(lanes []*lane, due int) *rules.Facts {
	f := &rules.Facts{
		Now: c.now, Lanes: make([]job.Lane, len(lanes)), Due: due, Options: c.o, Shards: 1, Whole: c.s.whole,
		Topics: map[string]rules.Topic{}, Circuits: map[string]store.Circuit{},
	}
	for i, l := range lanes {
		f.Lanes[i] = l.Lane
		if limits, ok := c.s.limits[l.Topic]; ok {
			f.Topics[l.Topic] = *limits
		}
		if _, ok := c.s.notClosed[l.endpoint]; ok {
			f.Circuits[l.Endpoint] = l.endpoint.circuitAt(c.now)
		}
	}
	return f
}

// carryFrom makes a plan for due lanes and carries it out.
func (c *carrying) carryFrom(due []*lane) {
	lanes := c.withRivals(due)
	plan := rules.MakePlan(c.facts(lanes, len(due)))
	run := plan.Run(c.room)
	for i := range plan.Visits {
		if run.Room() == 0 {
			break // the others keep their places in line
		}
		v := &plan.Visits[i]
		c.visit(run, v, lanes[v.Lane])
	}
	run.Slots(func(v *rules.Visit, at job.Instant) {
		l := lanes[v.Lane]
		l.limited = at
		c.s.queue(l, at)
	}, func(topic string, p rules.Pace) { c.s.limits[topic].Next = p.Next })
}

// visit carries jobs of a lane that may go. Jobs in flight that are due again go first:
// they were due before.
func (c *carrying) visit(run *rules.Run, v *rules.Visit, l *lane) {
	c.s.stopWaiting(l)
	if v.Topic != 0 {
		c.met[l.Topic] = struct{}{}
	}
	if v.PutOff != 0 {
		l.limited = v.PutOff
		c.s.queue(l, v.PutOff)
		return
	}
	most := run.Most(v)
	taken := c.take(most, l.firstInFlight)
	taken += c.take(min(most-taken, run.Free(v, c.s.inFlight(l))), l.firstWaiting)
	c.room -= taken
	run.Took(v, taken)
	if head := l.head(0); head > c.now {
		c.s.queue(l, head)
		return
	}
	wait := run.Rest(v, taken, c.s.inFlight(l))
	switch {
	case wait.Paced, wait.Cut: // it gets a slot, or keeps its place in line
	case wait.Limit == 0:
		c.s.queue(l, c.now) // to the end of the line
	case wait.Called:
		c.s.awaitPlace(l, wait.Look)
	default:
		c.s.unqueue(l) // until the call ends
		w := waiting{l, wait.Look}
		if taken > 0 {
			c.served = append(c.served, w)
		} else {
			c.unserved = append(c.unserved, w)
		}
	}
}

// take carries up to n due jobs, and returns their number.
func (c *carrying) take(n int, first func() *record) (taken int) {
	for ; taken < n; taken++ {
		rec := first()
		if rec == nil || rec.score.at() > c.now {
			break
		}
		c.carry(rec)
	}
	return taken
}

func (c *carrying) carry(rec *record) {
	from := rec.shown()
	hint := store.Hint{Lane: rec.lane.Lane, ID: rec.id}
	c.s.rescore(rec, bucketScore(c.now.Add(c.o.Visibility), job.Ready))
	c.s.ready = append(c.s.ready, hint)
	c.carried = append(c.carried, store.Carried{Hint: hint, From: from})
}

// inFlight counts the jobs in flight that may limit a lane.
func (s *Store) inFlight(l *lane) rules.InFlight {
	n := rules.InFlight{Endpoint: l.endpoint.inFlight, Own: s.inFlightOf(l)}
	if _, ok := s.limits[l.Topic]; ok {
		n.Topic = s.topicInFlight(l.Topic)
	}
	return n
}

// OpenCircuit keeps the endpoint's lanes from being carried.
func (s *Store) OpenCircuit(ctx context.Context, endpoint string, d time.Duration) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.leave()
	if _, ok := s.endpoints.Get(endpoint); d <= 0 && !ok {
		return nil
	}
	e := s.endpointOf(endpoint)
	s.changeCircuit(e, rules.OpenedCircuit(e.circuit, d, now), now)
	return nil
}

// CloseCircuit closes an endpoint's circuit: its lanes are carried again, at first few jobs.
func (s *Store) CloseCircuit(ctx context.Context, endpoint string) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.leave()
	if e, ok := s.endpoints.Get(endpoint); ok {
		s.changeCircuit(e, rules.ClosedCircuit(e.circuit, now), now)
	}
	return nil
}

// changeCircuit visits the endpoint's lanes after a change of its circuit. It visits them
// by name, so that equal calls have equal effects.
func (s *Store) changeCircuit(e *endpoint, c store.Circuit, now job.Instant) {
	if c == e.circuit {
		return
	}
	e.circuit, s.notClosed[e] = c, struct{}{}
	for _, l := range slices.SortedFunc(maps.Keys(e.lanes), func(a, b *lane) int { return strings.Compare(a.name, b.name) }) {
		l.limited = 0
		s.look(l, now)
	}
}

// Wakeups calls wake when a lane became the earliest.
func (s *Store) Wakeups(ctx context.Context, wake func(shard int)) error {
	if ctx.Err() != nil {
		return nil
	}
	if _, err := s.enter(ctx); err != nil {
		return err
	}
	w := make(chan struct{}, 1)
	w <- struct{}{} // a job that became due before may have been missed
	s.wakers[w] = struct{}{}
	s.leave()
	defer func() {
		s.mu.Lock()
		delete(s.wakers, w)
		s.mu.Unlock()
	}()
	for {
		select {
		case <-w:
			wake(0)
		case <-ctx.Done():
			return nil
		case <-s.done:
			return errClosed
		}
	}
}
