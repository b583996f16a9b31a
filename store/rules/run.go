package rules

import (
	"math"
	"slices"
	"time"

	"github.com/duehook/duehook/job"
)

// Run carries a plan out, visit by visit. A store counts the jobs of a lane, and Run decides
// how many of them go and how the others wait.
type Run struct {
	plan        *Plan
	first, room int   // free places on the ready list: at first, and now
	cut         bool  // the last visit had less than its share, because the room ended
	allowed     []int // by topic: jobs that its rate still allows
	groups      []group
	slow        [][]slow // by topic: visits that wait for its rate, in the order of their slots
}

// slow is a visit that waits for the rate of its topic.
type slow struct {
	*Visit
	served bool // something went
}

// group is the rest for the lanes of a Group.
type group struct {
	Group
	met  bool // a lane was visited
	left int
	cut  int // the rank of a lane that had more than its share; 0: none had
}

// Run begins to carry the plan out with so many free places on the ready list.
func (p *Plan) Run(room int) *Run {
	r := &Run{
		plan: p, first: room, room: room, allowed: make([]int, len(p.Topics)), groups: make([]group, len(p.Groups)),
		slow: make([][]slow, len(p.Topics)),
	}
	for n := range p.Groups {
		r.groups[n].Group = p.Groups[n]
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
		share = r.groups[v.Group-1].share(v.Rank, share)
	}
	if r.paced(v) {
		share = min(share, r.allowed[v.Topic-1])
	}
	r.cut = share > r.room
	return min(share, r.room)
}

// share is an equal part of the rest for a rank, if quantum is the share of one endpoint.
// Lanes of lower ranks get nothing once one had more than its share.
func (g *group) share(rank, quantum int) int {
	if !g.met {
		g.met, g.left = true, g.Endpoints*quantum
	}
	if g.cut != 0 && g.cut < rank {
		return 0
	}
	share := (max(0, g.left) + g.Ranks[rank] - 1) / g.Ranks[rank]
	g.Ranks[rank]--
	return share
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
		r.groups[v.Group-1].left -= n
	}
	if r.paced(v) {
		r.allowed[v.Topic-1] -= n
	}
}

// Wait is how a lane waits that has more due jobs: for a place if Limit is not zero,
// for its topic's rate if Paced, else only for the others. If Cut, it is the next one.
type Wait struct {
	Places
	Own        bool // the place is one of Terms.Own
	Paced, Cut bool
}

// Rest returns the wait of a lane that has more due jobs after took went, given the jobs in
// flight then.
func (r *Run) Rest(v *Visit, took int, n InFlight) Wait {
	if r.paced(v) && r.allowed[v.Topic-1] == 0 {
		if took > 0 || !v.Rival {
			r.await(v, took > 0)
		}
		return Wait{Paced: true}
	}
	topic := r.topicPlaces(v)
	switch {
	case v.Endpoint.Left(n.Endpoint) == 0:
		return Wait{Places: v.Endpoint}
	case v.Own.Left(n.Own) == 0:
		return Wait{Places: v.Own, Own: true}
	case topic.Left(n.Topic) == 0:
		return Wait{Places: topic}
	}
	if v.Group != 0 && r.groups[v.Group-1].cut == 0 {
		r.groups[v.Group-1].cut = v.Rank
	}
	return Wait{Cut: r.cut}
}

// Pull is when consumers look again at a pull queue that has more due jobs, unless Paced. Who
// frees a place tells them, but may miss a consumer that has just begun to wait.
func (w Wait) Pull(now job.Instant) job.Instant {
	if w.Limit == 0 {
		return now
	}
	return min(w.Look, now.Add(pullLook))
}

const pullLook = time.Second

// await queues a visit for a slot. Visits arrive by rank. Within a rank, visits without a
// carried job go first.
func (r *Run) await(v *Visit, served bool) {
	all := &r.slow[v.Topic-1]
	at := len(*all)
	for !served && at > 0 && (*all)[at-1].served && (*all)[at-1].Rank == v.Rank {
		at--
	}
	*all = slices.Insert(*all, at, slow{v, served})
}

// Slots calls look for each lane that waits for its topic's rate, and next for each
// paced topic with a carried job.
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
