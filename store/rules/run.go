package rules

import (
	"math"
	"slices"

	"github.com/duehook/duehook/job"
)

// Run carries a plan out, visit by visit, where nothing changes meanwhile. A store whose
// data is elsewhere does there what Run does; lua/carry.lua is the other one.
type Run struct {
	plan        *Plan
	first, room int   // free places on the ready list: at first, and now
	cut         bool  // the last visit had less than its share, because the room ended
	allowed     []int // by topic: what its rate still lets go
	groups      map[int]*group
	slow        [][]slow // by topic: visits that wait for its rate, in the order of their slots
}

// slow is a visit that waits for the rate of its topic.
type slow struct {
	*Visit
	served bool // something went
}

// group is what the lanes of a topic with priorities share.
type group struct {
	left int
	cut  int // the rank of a lane that had more than its share; 0: none had
}

// Run begins to carry the plan out with so many free places on the ready list.
func (p *Plan) Run(room int) *Run {
	r := &Run{
		plan: p, first: room, room: room, allowed: make([]int, len(p.Topics)), groups: map[int]*group{},
		slow: make([][]slow, len(p.Topics)),
	}
	for n := range p.Topics {
		r.allowed[n] = p.Topics[n].Allowed
	}
	return r
}

// Room is how many places of the ready list are left.
func (r *Run) Room() int { return r.room }

// Most is how many jobs of a lane may go. Ready and running jobs that are due again go
// first. They need no other place, because they have one.
func (r *Run) Most(v *Visit) int {
	share := max(1, int(math.Ceil(float64(r.first)*v.Part)))
	if v.Group != 0 {
		share = r.group(v).share(v)
	}
	if r.paced(v) {
		share = min(share, r.allowed[v.Topic-1])
	}
	r.cut = share > r.room
	return min(share, r.room)
}

func (r *Run) group(v *Visit) *group {
	g := r.groups[v.Group]
	if g == nil {
		g = &group{left: v.Endpoints * max(1, int(math.Ceil(float64(r.first)*v.Part)))}
		r.groups[v.Group] = g
	}
	return g
}

// share is an equal part of what is left for a rank. Lanes of lower ranks get nothing
// once one had more than its share.
func (g *group) share(v *Visit) int {
	if g.cut != 0 && g.cut < v.Rank {
		return 0
	}
	return (max(0, g.left) + v.RankLeft - 1) / v.RankLeft
}

func (r *Run) paced(v *Visit) bool { return v.Topic != 0 && r.plan.Topics[v.Topic-1].Paced }

// InFlight counts jobs in flight.
type InFlight struct{ Endpoint, Own, Topic int }

// Free is how many jobs may become in flight beside these.
func (r *Run) Free(v *Visit, n InFlight) int {
	return min(v.Endpoint.Left(n.Endpoint), v.Own.Left(n.Own), r.topicPlaces(v).Left(n.Topic))
}

func (r *Run) topicPlaces(v *Visit) Places {
	if v.Topic == 0 {
		return Places{}
	}
	return r.plan.Topics[v.Topic-1].Places
}

// Took notes how many jobs of a lane went.
func (r *Run) Took(v *Visit, n int) {
	r.room -= n
	if v.Group != 0 {
		r.group(v).left -= n
	}
	if r.paced(v) {
		r.allowed[v.Topic-1] -= n
	}
}

// Wait is how a lane waits that has more due jobs: for a place if Limit is not zero,
// for its topic's rate if Paced, else only for the others. If Cut, it is the next one.
type Wait struct {
	Places
	Paced, Cut bool
}

// Rest says what a lane waits for that has more due jobs after took went, with what is
// in flight then.
func (r *Run) Rest(v *Visit, took int, n InFlight) Wait {
	if r.paced(v) && r.allowed[v.Topic-1] == 0 {
		if took > 0 || !v.Rival {
			r.await(v, took > 0)
		}
		return Wait{Paced: true}
	}
	for _, p := range []struct {
		Places
		n int
	}{{v.Endpoint, n.Endpoint}, {v.Own, n.Own}, {r.topicPlaces(v), n.Topic}} {
		if p.Left(p.n) == 0 {
			return Wait{Places: p.Places}
		}
	}
	if g := r.groups[v.Group]; g != nil && g.cut == 0 {
		g.cut = v.Rank
	}
	return Wait{Cut: r.cut}
}

// await has a visit wait for a slot. Visits come in by rank. Of one rank they go first
// of which nothing went.
func (r *Run) await(v *Visit, served bool) {
	all := &r.slow[v.Topic-1]
	at := len(*all)
	for !served && at > 0 && (*all)[at-1].served && (*all)[at-1].Rank == v.Rank {
		at--
	}
	*all = slices.Insert(*all, at, slow{v, served})
}

// Slots calls look for each lane that waits for its topic's rate, and next for each
// topic with a rate of which something went.
func (r *Run) Slots(look func(v *Visit, at job.Instant), next func(topic string, p Pace)) {
	for i := range r.plan.Topics {
		t := &r.plan.Topics[i]
		if taken := t.Allowed - r.allowed[i]; taken > 0 {
			next(t.Name, t.Pace.After(taken))
		}
		for n, w := range r.slow[i] {
			at := t.Slots[n]
			if w.Late {
				at++
			}
			look(w.Visit, at)
		}
	}
}
