package rules

import (
	"math"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// Run carries a plan out, visit by visit. A store counts the jobs of a lane, and Run decides
// how many of them go and how the others wait.
type Run struct {
	plan        *Plan
	first, room int   // free places on the ready list: at first, and now
	free        int   // places for hints that topics share
	cut         bool  // the last visit had less than its share, because the room or the topic's part ended
	allowed     []int // by topic: jobs that its rate still allows
	left, lanes []int // by topic: the rest of its part, and of its lanes
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
	cut int // the rank of a lane that had more than its share; 0: none had
}

// Run begins to carry the plan out with so many free places on the ready list.
func (p *Plan) Run(room int) *Run {
	r := &Run{
		plan: p, first: room, room: room, free: p.Free, groups: make([]group, len(p.Groups)),
		allowed: make([]int, len(p.Topics)), left: make([]int, len(p.Topics)), lanes: make([]int, len(p.Topics)), slow: make([][]slow, len(p.Topics)),
	}
	for n := range p.Groups {
		r.groups[n].Group = p.Groups[n]
	}
	for n := range p.Topics {
		t := &p.Topics[n]
		r.allowed[n], r.left[n], r.lanes[n] = t.Allowed, t.part(room), t.Lanes
	}
	return r
}

// part is the topic's part of so many places.
func (t *TopicTerms) part(places int) int { return max(1, int(math.Ceil(float64(places)*t.Part))) }

// Room is how many places of the ready list are left.
func (r *Run) Room() int { return r.room }

// Most is how many jobs of a lane may go. Ready and running jobs that are due again go
// first. They need no other place, because they have one.
func (r *Run) Most(v *Visit) int {
	t, left := &r.plan.Topics[v.Topic], max(0, r.left[v.Topic])
	share := (t.part(r.first) + t.Lanes - 1) / t.Lanes
	if v.Group != 0 {
		share = r.groups[v.Group-1].share(v.Rank, left)
		left = share
	}
	if r.paced(v) {
		share = min(share, r.allowed[v.Topic])
	}
	if r.plan.Workers != nil {
		workers := r.plan.Workers.More(t.Name)
		share, left = min(share, r.among(v, workers)), min(left, workers)
	}
	most := min(share, left, r.room)
	r.cut = share > most
	return most
}

// Share is how many jobs of a lane need be known: its equal part of the places, before a visit. Most may be more for a lane
// of a topic with priorities. Then the lane keeps its place in line.
func (r *Run) Share(v *Visit) int {
	t := &r.plan.Topics[v.Topic]
	lanes := t.Lanes
	if v.Group != 0 {
		lanes = r.plan.Groups[v.Group-1].Ranks[v.Rank]
	}
	return min(r.first, (t.part(r.first)+lanes-1)/max(1, lanes))
}

// share is an equal part of what is left for a rank. Lanes of lower ranks get nothing once one had
// more than its share.
func (g *group) share(rank, left int) int {
	if g.cut != 0 && g.cut < rank {
		return 0
	}
	share := (left + g.Ranks[rank] - 1) / g.Ranks[rank]
	g.Ranks[rank]--
	return share
}

func (r *Run) paced(v *Visit) bool { return r.plan.Topics[v.Topic].Paced }

// InFlight counts jobs in flight. Ready are the ready ones of the topic.
type InFlight struct{ Endpoint, Own, Topic, Ready int }

// Free is how many jobs may become in flight beside these. The lanes of a topic that are visited yet
// share its places for hints; of a topic with priorities, those of the same rank.
func (r *Run) Free(v *Visit, n InFlight) int {
	hints := r.hints(v.Topic, n.Ready)
	if hints < unlimited {
		hints = r.among(v, hints)
	}
	return min(v.Endpoint.Left(n.Endpoint), v.Own.Left(n.Own), r.plan.Topics[v.Topic].Left(n.Topic), hints)
}

// among is a lane's equal part of what its topic may have, after Most has counted the lane.
func (r *Run) among(v *Visit, n int) int {
	lanes := r.lanes[v.Topic]
	if v.Group != 0 {
		lanes = r.groups[v.Group-1].Ranks[v.Rank] + 1
	}
	return (n + lanes - 1) / lanes
}

// hints is how many more hints a topic may have that has some.
func (r *Run) hints(topic, has int) int {
	if !r.plan.Shared {
		return unlimited
	}
	return moreHints(r.plan.Topics[topic].Weight, has, r.free)
}

// Took notes how many jobs of a lane went that were in flight before, and how many others.
func (r *Run) Took(v *Visit, again, fresh int) {
	n := again + fresh
	if r.plan.Workers != nil {
		r.plan.Workers.Took(r.plan.Topics[v.Topic].Name, n)
	}
	r.room -= n
	r.free -= fresh
	r.left[v.Topic] -= n
	r.lanes[v.Topic]--
	if r.paced(v) {
		r.allowed[v.Topic] -= n
	}
}

// Wait is how a lane waits that has more due jobs: for a place if Limit is not zero,
// for its topic's rate if Paced, else only for the others. If Cut, it is the next one.
type Wait struct {
	Places
	Own        bool // the place is one of Terms.Own
	Hint       bool // the place is one for a hint of its topic, or a worker: a job of it is claimed, or ends
	Paced, Cut bool
}

// Rest returns the wait of a lane that has more due jobs after took went, given the jobs in
// flight then.
func (r *Run) Rest(v *Visit, took int, n InFlight) Wait {
	if r.paced(v) && r.allowed[v.Topic] == 0 {
		if took > 0 || !v.Rival {
			r.await(v, took > 0)
		}
		return Wait{Paced: true}
	}
	switch {
	case v.Endpoint.Left(n.Endpoint) == 0:
		return Wait{Places: v.Endpoint}
	case v.Own.Left(n.Own) == 0:
		return Wait{Places: v.Own, Own: true}
	}
	if w := r.Crowd(v.Topic, n); w.Limit != 0 {
		return w
	}
	if v.Group != 0 && r.groups[v.Group-1].cut == 0 {
		r.groups[v.Group-1].cut = v.Rank
	}
	return Wait{Cut: r.cut}
}

// Crowd is how each lane of a topic waits that has no more places, given the jobs in flight. So a store need not visit
// many lanes one by one. It is zero if the topic has places, or its lanes wait for its rate.
func (r *Run) Crowd(topic int, n InFlight) Wait {
	t := &r.plan.Topics[topic]
	switch {
	case t.Paced && r.allowed[topic] == 0:
		return Wait{}
	case t.Left(n.Topic) == 0:
		return Wait{Places: t.Places}
	case r.hints(topic, n.Ready) == 0:
		return Wait{Places: Places{Limit: n.Ready, Look: r.plan.HintLook, Called: true}, Hint: true}
	case r.plan.Workers != nil && r.plan.Workers.More(t.Name) == 0:
		return Wait{Places: Places{Limit: 1, Look: r.plan.HintLook, Called: true}, Hint: true}
	}
	return Wait{}
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
	all := &r.slow[v.Topic]
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
