package memstore

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Bounds of one call of Carry, so that it does not keep the lock for long, and
// how many jobs a lane may have carried before it is the next lane's turn.
const (
	maxCarry = 1_000
	maxLooks = 1_000
	quantum  = 100
)

// minProbe is how long a lane is probed after its hold, at least.
const minProbe = time.Minute

// How long a lane at a limit is left alone: until a place may have come free.
// Lanes of one endpoint are looked at together, at multiples of it, or one of
// them could take every place that comes free.
const (
	limitPause     = 10 * time.Millisecond
	restraintPause = 100 * time.Millisecond
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
	c := carrying{
		s: s, now: now, o: o, room: min(o.Cap-len(s.ready), maxCarry),
		met: map[string]struct{}{}, paced: map[string]*paced{},
	}
	for looks := 0; c.room > 0 && looks < maxLooks; looks++ {
		l, ok := s.line.Min()
		if !ok || l.wake > now {
			break
		}
		c.visit(l)
	}
	// Those that got nothing come first the next time.
	for _, l := range slices.Concat(c.unserved, c.limited) {
		l.limited = l.endpoint.nextPlaces(now)
		s.queue(l, l.limited)
	}
	c.spread()
	c.pass()
	s.earlier = false // the caller learns it from the result
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
	s                 *Store
	now               job.Instant
	o                 store.CarryOptions
	room              int // hints that may still be pushed
	carried           []store.Carried
	limited, unserved []*lane // lanes at the limit of their endpoint: those that were served, and the others
	paced             map[string]*paced
	met               map[string]struct{} // topics with limits whose lanes were visited
}

// visit carries a lane's share, or what goes before it in its topic.
func (c *carrying) visit(l *lane) {
	limits := c.s.limits[l.Topic]
	share := limits.weighted(quantum)
	if r := c.s.ranked[l.Topic]; r != nil {
		if share = c.letRivalsGoFirst(r, l, limits, share); share == 0 {
			c.s.queue(l, c.now) // to the end of the line
			return
		}
	}
	c.serve(l, limits, share)
}

// serve carries up to a share of a lane, and says how many that were and whether
// more might have been with a larger one. Jobs that are out and lapsed come first: they
// were due before, and carrying them again takes no place under the limits.
func (c *carrying) serve(l *lane, limits *limits, share int) (taken int, more bool) {
	c.s.stopWaiting(l)
	if limits != nil {
		c.met[l.Topic] = struct{}{}
		if limits.Paused {
			l.limited = c.now.Add(store.UncalledLook)
			c.s.queue(l, l.limited)
			return 0, false
		}
	}
	share = limits.paced(share, c.now)
	slow := share == 0 // by the rate
	share = min(share, c.room)
	before := len(c.carried)
	for ; share > 0; share-- {
		rec := l.firstOut()
		if rec == nil || rec.score.at() > c.now {
			break
		}
		c.carry(rec)
	}
	atEndpoint, own := l.places(c.now, c.o), c.s.ownPlaces(l, c.o)
	free := min(atEndpoint, own, c.s.placesOf(limits, l.Topic))
	limited := free < share
	for range min(share, free) {
		rec := l.firstWaiting()
		if rec == nil || rec.score.at() > c.now {
			break
		}
		c.carry(rec)
	}
	taken = len(c.carried) - before
	if limits != nil && limits.Rate > 0 {
		limits.pace.Take(taken)
		slow = limits.pace.Allowed(c.now) == 0
	}
	head := l.head(0)
	switch {
	case head > c.now:
		c.s.queue(l, head)
	case slow:
		c.awaitTurn(l, taken > 0)
	case limited && free < own && free < atEndpoint:
		c.s.awaitPlace(l, c.now, store.UncalledLook)
	case limited && free < atEndpoint:
		c.s.awaitPlace(l, c.now, store.LaneLook)
	case limited && taken > 0:
		c.s.unqueue(l) // until the call ends
		c.limited = append(c.limited, l)
	case limited:
		c.s.unqueue(l)
		c.unserved = append(c.unserved, l)
	default:
		c.s.queue(l, c.now) // to the end of the line
		more = true
	}
	return taken, more
}

func (c *carrying) carry(rec *record) {
	from := rec.shown()
	hint := store.Hint{Lane: rec.lane.Lane, ID: rec.id}
	c.s.rescore(rec, bucketScore(c.now.Add(c.o.Visibility), job.Ready))
	c.s.ready = append(c.s.ready, hint)
	c.carried = append(c.carried, store.Carried{Hint: hint, From: from})
	c.room--
}

// Hold keeps the endpoint's lanes from being carried.
func (s *Store) OpenCircuit(ctx context.Context, endpoint string, d time.Duration) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.leave()
	if e, ok := s.endpoints.Get(endpoint); d <= 0 && (!ok || now >= e.held) {
		return nil
	}
	e := s.endpointOf(endpoint)
	s.notClosed[e] = struct{}{}
	e.held = now.Add(d)
	e.probed, e.ramp = e.held.Add(max(d, minProbe)), 0
	s.lookAll(e, now)
	return nil
}

// CloseCircuit lets the endpoint's lanes be carried again, at first with restraint.
func (s *Store) CloseCircuit(ctx context.Context, endpoint string) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.leave()
	e, ok := s.endpoints.Get(endpoint)
	if !ok || now >= e.probed {
		return nil
	}
	e.held, e.probed, e.ramp = 0, 0, now
	for l := range e.lanes {
		l.limited = 0
	}
	s.lookAll(e, now)
	return nil
}

// lookAll looks at an endpoint's lanes in the order of their names, so that the
// same calls always have the same effect.
func (s *Store) lookAll(e *endpoint, now job.Instant) {
	for _, l := range slices.SortedFunc(maps.Keys(e.lanes), func(a, b *lane) int { return strings.Compare(a.name, b.name) }) {
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
	w <- struct{}{} // what became due before may have been missed
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
