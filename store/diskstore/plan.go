package diskstore

import (
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// Bounds of one look, which holds the lock: jobs, lanes, and lanes of one plan.
const (
	maxTake     = 1_000
	maxLooks    = 1_000
	lanesAtOnce = 64
)

// pick is a job to claim, with its state before.
type pick struct {
	*flight
	from job.State
}

// waiting is a lane that waits for a free place.
type waiting struct {
	lane *lane
	look job.Instant
}

// pick puts due jobs into flight, of topics and endpoints in turn.
func (c *taking) pick() {
	s := c.s
	c.callShared()
	for looks := 0; c.room > 0 && looks < maxLooks && c.err == nil; {
		lanes := c.due()
		if len(lanes) == 0 {
			break
		}
		c.pickFrom(lanes)
		c.pass()
		looks += len(lanes)
	}
	// A lane of which nothing went comes first the next time.
	for _, w := range slices.Concat(c.unserved, c.served) {
		w.lane.limited = w.look
		s.queue(w.lane, w.look)
	}
	c.wait = s.untilDue(c.now)
	c.sharing = c.shares != nil && len(s.shared) > 0
}

// untilDue is Taken.Wait.
func (s *Store) untilDue(now job.Instant) time.Duration {
	l, ok := s.line.Min()
	if !ok {
		return -1
	}
	return max(0, l.wake.Sub(now))
}

// due are the first lanes in line, for one plan.
func (c *taking) due() []*lane {
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
func (c *taking) facts(lanes []*lane, due int) *rules.Facts {
	f := &rules.Facts{
		Now: c.now, Lanes: make([]job.Lane, len(lanes)), Due: due, Shards: 1, Workers: c.shares,
		Options: store.CarryOptions{FlightLimits: c.o.Limits, Pull: c.o.Pull},
		Topics:  map[string]rules.Topic{}, Circuits: map[string]store.Circuit{},
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

// pickFrom makes a plan for due lanes and carries it out.
func (c *taking) pickFrom(due []*lane) {
	lanes := c.withRivals(due)
	plan := rules.MakePlan(c.facts(lanes, len(due)))
	run := plan.Run(c.room)
	for i := range plan.Visits {
		if run.Room() == 0 || c.room <= 0 {
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

// visit picks jobs of a lane that may go. Those whose leases have expired go first: they were
// due before.
func (c *taking) visit(run *rules.Run, v *rules.Visit, l *lane) {
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
		// Whatever else is full: a job whose lease has expired needs no place, but a worker.
		wait.Hint = wait.Hint || c.shares != nil && most == 0
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

// again picks up to n jobs whose leases have expired, and returns their number.
func (c *taking) again(n int, l *lane) (taken int) {
	for ; taken < n; taken++ {
		f, ok := l.flights.Min()
		if !ok || f.until > c.now || !c.fits(f.entry.size) {
			break
		}
		c.extend(f, c.now.Add(c.o.Lease))
		c.picked = append(c.picked, pick{f, job.Running})
	}
	return taken
}

// take picks up to n jobs that are due, and returns their number.
func (c *taking) take(n int, l *lane) int {
	due := l.due(c.txn, n)
	for i, e := range due {
		if !c.fits(e.size) {
			l.next, l.known = e, true // due went on
			return i
		}
		c.picked = append(c.picked, pick{c.launch(l, e, c.now.Add(c.o.Lease)), e.state})
	}
	return len(due)
}

// fits reports whether a job of a size may be claimed beside the others. If not, the call ends.
func (c *taking) fits(size int) bool {
	if c.bytes >= store.BatchBytes {
		c.room = 0
		return false
	}
	c.bytes += size
	return true
}

// inFlight counts the jobs in flight that may limit a lane.
func (s *Store) inFlight(l *lane) rules.InFlight {
	return rules.InFlight{Endpoint: l.endpoint.inFlight, Own: s.inFlightOf(l), Topic: s.topicInFlight(l.Topic)}
}
