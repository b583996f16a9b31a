package diskstore

import (
	"context"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
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
	var result store.CarryResult
	err := s.change(ctx, false, func(t *txn) {
		if s.wentBack {
			t.afterStep(o.Longest)
		}
		c := carrying{txn: t, o: o, room: min(rules.HintPlaces(&o)-len(s.ready), maxCarry), met: map[string]struct{}{}}
		if o.Pull != nil {
			result = c.pull()
			return
		}
		result = c.run()
	})
	if err != nil {
		return store.CarryResult{}, err
	}
	return result, nil
}

func (c *carrying) run() store.CarryResult {
	s := c.s
	for looks := 0; c.room > 0 && looks < maxLooks && c.err == nil; {
		lanes := c.due()
		if len(lanes) == 0 {
			break
		}
		c.carryFrom(lanes)
		c.pass()
		looks += len(lanes)
	}
	// A lane without a carried job comes first the next time.
	for _, w := range slices.Concat(c.unserved, c.served) {
		w.lane.limited = w.look
		s.queue(w.lane, w.look)
	}
	s.earlier = false // the result tells the caller
	if len(c.carried) > 0 && s.pushed != nil {
		close(s.pushed)
		s.pushed = nil
	}
	wait := s.untilDue(c.now)
	full := wait == 0 && len(s.ready) >= rules.HintPlaces(&c.o)
	return store.CarryResult{Carried: c.carried, Wait: wait, Full: full}
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
	*txn
	o                store.CarryOptions
	room             int // hints that may still be pushed
	carried          []store.Carried
	served, unserved []waiting           // lanes to visit again for a free place
	met              map[string]struct{} // topics whose lanes were visited
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
		Now: c.now, Lanes: make([]job.Lane, len(lanes)), Due: due, Options: c.o, Shards: 1,
		Topics: map[string]rules.Topic{}, Circuits: map[string]store.Circuit{}, Ready: c.s.hints(),
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
	c.met[l.Topic] = struct{}{}
	if v.PutOff != 0 {
		l.limited = v.PutOff
		c.s.queue(l, v.PutOff)
		return
	}
	most := run.Most(v)
	again := c.again(most, l)
	if l.Pulled() { // the others wait for consumers
		c.room -= again
		run.Took(v, again, 0)
		c.s.queue(l, l.head(c.txn, 0))
		return
	}
	fresh := c.take(min(most-again, run.Free(v, c.s.inFlight(l))), l)
	taken := again + fresh
	c.room -= taken
	run.Took(v, again, fresh)
	if head := l.head(c.txn, 0); head > c.now {
		c.s.queue(l, head)
		return
	}
	wait := run.Rest(v, taken, c.s.inFlight(l))
	switch {
	case wait.Paced, wait.Cut: // it gets a slot, or keeps its place in line
	case wait.Limit == 0:
		c.s.queue(l, c.now) // to the end of the line
	case wait.Called:
		c.awaitPlace(l, wait)
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

// again carries up to n jobs in flight that are due again, and returns their number.
func (c *carrying) again(n int, l *lane) (taken int) {
	for ; taken < n; taken++ {
		f, ok := l.flights.Min()
		if !ok || f.until > c.now {
			break
		}
		from := f.state()
		c.extend(f, c.now.Add(c.o.Visibility), true)
		c.push(l, f.key.ID, from)
	}
	return taken
}

// take carries up to n jobs that are due, and returns their number.
func (c *carrying) take(n int, l *lane) int {
	due := l.due(c.txn, n)
	for _, e := range due {
		c.launch(l, e, c.now.Add(c.o.Visibility))
		c.push(l, e.id, e.state)
	}
	return len(due)
}

func (c *carrying) push(l *lane, id string, from job.State) {
	hint := store.Hint{Lane: l.Lane, ID: id}
	if c.o.Pull == nil {
		c.s.ready = append(c.s.ready, hint)
	}
	c.carried = append(c.carried, store.Carried{Hint: hint, From: from})
}

// inFlight counts the jobs in flight that may limit a lane.
func (s *Store) inFlight(l *lane) rules.InFlight {
	n := rules.InFlight{Endpoint: l.endpoint.inFlight, Own: s.inFlightOf(l)}
	if t, ok := s.topics.Get(l.Topic); ok {
		n.Topic, n.Ready = t.counts.inFlight(), int(t.counts[job.Ready])
	}
	return n
}

// SetCircuit opens or closes the circuit of an endpoint.
func (s *Store) SetCircuit(ctx context.Context, endpoint string, to store.CircuitState, d time.Duration) error {
	return s.change(ctx, false, func(t *txn) {
		e, ok := s.endpoints.Get(endpoint)
		if !ok {
			if to != store.CircuitOpen {
				return
			}
			e = s.endpointOf(endpoint)
		}
		t.changeCircuit(e, rules.ChangedCircuit(e.circuit, to, d, t.now))
	})
}

// changeCircuit visits the endpoint's lanes after a change of its circuit. It visits them
// by name, so that equal calls have equal effects.
func (t *txn) changeCircuit(e *endpoint, c store.Circuit) {
	if c == e.circuit {
		return
	}
	e.circuit, t.s.notClosed[e] = c, struct{}{}
	e.lanes.Scan(func(_ string, l *lane) bool {
		l.limited = 0
		t.look(l)
		return true
	})
}
