// Package rules decides which due jobs may go now: how lanes share the ready list, what
// limits, rates, pauses and circuits allow, and what goes first by priority. It is pure:
// a store gathers Facts, MakePlan makes a Plan of them, and the store carries it out.
//
// A plan names no jobs. It has the limits of each lane and the time of its next look. So a
// store reads no job to make a plan, and a plan from old facts does no harm: a store
// refuses it, and the jobs stay due. Run carries a plan out.
//
// A further rule is a further limit in Terms, or a further reason to put a lane off. Order
// keys are no such rule: claims enforce them, because a plan names no jobs.
package rules

import (
	"cmp"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

const (
	// UncalledLook is how long a lane goes without a visit while it waits for an event: its
	// topic resumes, or a place of its topic becomes free.
	UncalledLook = 5 * time.Minute
	// LaneLook is the same for a lane at its limit of FlightLimits.TopicLimits: other
	// carriers may have other limits.
	LaneLook = 100 * time.Millisecond
	// Carriers visit a lane at a limit of its endpoint every limitPause, and every
	// restraintPause if the circuit sets the limit. They visit the lanes of one endpoint
	// together, at multiples of the pause. Otherwise one lane could take every place.
	limitPause     = 10 * time.Millisecond
	restraintPause = 100 * time.Millisecond
	// MaxRivals is the most lanes of one kind that a store adds to the due lanes of a
	// topic because they may go first.
	MaxRivals = 64
)

// Facts are the facts of a store about one shard at one instant.
type Facts struct {
	Now job.Instant
	// Lanes are first the Due lanes that are due, in their order, and then their rivals:
	// lanes that may go before one of them. Only a topic with priorities has rivals: all
	// lanes of the same topic and endpoint, and of the topic up to MaxRivals with a
	// priority and MaxRivals that wait for a place. A plan visits those of a higher
	// priority than the last of the topic's due lanes.
	Lanes    []job.Lane
	Due      int
	Topics   map[string]Topic         // topics that have limits
	Circuits map[string]store.Circuit // endpoints whose circuit is not closed
	// Ready counts the ready jobs of the shard, without those of pull queues. They have hints on
	// the ready list, or nodes have taken these.
	Ready int
	// Workers, unless nil, are shared by topics in a store that takes jobs at once. Such a store
	// has no hints: the Cap of Options is zero.
	Workers *Shares
	// Options are the carrier's, for the whole store. The shard is the Shard-th of Shards.
	Options       store.CarryOptions
	Shard, Shards int
}

// Topic is a topic's limits for the whole store, and Pace.Next of its rate in the shard.
type Topic struct {
	store.Limits
	Next float64
}

// Plan says what may go of each lane.
type Plan struct {
	Visits []Visit // in this order: topics take turns
	Topics []TopicTerms
	Groups []Group
	// Free is how many places for hints are free, and HintLook when to look again at a lane for
	// whose topic no place or worker is left. Not Shared: no hints are made, since consumers or
	// workers get the jobs at once.
	Free     int
	HintLook job.Instant
	Shared   bool
	// Workers, unless nil, are shared by topics.
	Workers *Shares
}

// Group is a topic with priorities. Ranks is how many lanes of each rank are visited.
type Group struct {
	Ranks [job.MaxPriority + 1]int
}

// Visit is one lane of Facts.Lanes and its terms.
type Visit struct {
	Lane int
	Terms
}

// Terms are what may go of a lane.
type Terms struct {
	// PutOff, if not zero, is when to visit the lane again. None of its jobs goes now.
	PutOff job.Instant
	// Group, if not zero, is the number (from 1) of the lane's group in Plan.Groups, and
	// Rank the rank of the lane. Rank 1 goes first.
	Group, Rank int
	// Endpoint limits the jobs in flight of the lane's endpoint, Own those of its topic
	// at that endpoint.
	Endpoint, Own Places
	// Topic is the number of the topic in Plan.Topics.
	Topic int
	// Rival: the lane is not due itself. If it waits for its topic's rate anyway and
	// nothing of it goes, it keeps its slot.
	Rival bool
	// Late makes the lane wait a millisecond longer for its topic's rate, so that rounding
	// never puts it before a lane of a higher priority.
	Late bool
}

// Places limit jobs in flight.
type Places struct {
	Limit  int         // 0: any number
	Look   job.Instant // when to look again at a lane for which none is left
	Called bool        // the lane is visited sooner if a place becomes free
}

// Left is how many more jobs may become in flight when there are n.
func (p Places) Left(n int) int {
	if p.Limit == 0 {
		return unlimited
	}
	return max(0, p.Limit-n)
}

const unlimited = int(^uint(0) >> 1)

// TopicTerms are what may go of all lanes of a topic.
type TopicTerms struct {
	Name string
	// Part is the topic's part of the free places on the ready list, at least one place. Its
	// visited Lanes share it; those of a topic with priorities by their groups.
	Part   float64
	Lanes  int
	Weight int
	// Places limit its jobs in flight.
	Places
	// Paced: Allowed jobs may go, and Pace.After is the next pace. Then the waiting lanes
	// get the Slots in turn, by rank; within a rank, lanes without a carried job go first.
	Paced   bool
	Allowed int
	Pace    Pace
	Slots   []job.Instant
}

// MakePlan makes the plan from the facts.
func MakePlan(f *Facts) *Plan {
	m := maker{Facts: f, plan: &Plan{
		Visits: make([]Visit, len(f.Lanes)), Free: HintPlaces(&f.Options) - f.Ready, HintLook: f.Now.Add(UncalledLook),
		Shared: f.Options.Pull == nil && f.Options.Cap > 0, Workers: f.Workers,
	}, topics: map[string]*lanesOf{}}
	m.order()
	for i := range m.plan.Visits {
		m.setTerms(&m.plan.Visits[i])
	}
	weights := 0
	for _, t := range m.topics {
		if t.visited > 0 {
			weights += weightOf(&t.Limits)
		}
	}
	for _, t := range m.topics {
		terms := &m.plan.Topics[t.terms]
		if t.visited > 0 {
			if f.Workers != nil {
				f.Workers.meet(terms.Name)
			}
			terms.Part, terms.Lanes = float64(terms.Weight)/float64(weights), t.visited
		}
		terms.setSlots(t.visited, f.Now)
	}
	for i := range m.plan.Visits {
		v := &m.plan.Visits[i]
		t := m.topics[m.Lanes[v.Lane].Topic]
		v.Late = v.Rank > t.top && t.Rate > 0
	}
	return m.plan
}

// maker makes one plan.
type maker struct {
	*Facts
	plan   *Plan
	topics map[string]*lanesOf
}

// lanesOf are the lanes of one topic.
type lanesOf struct {
	Topic
	terms   int   // the number in Plan.Topics
	group   int   // the number in Plan.Groups; 0: it has no priorities
	at      []int // its places in the order, which are those in Facts.Lanes
	visited int   // lanes that are not put off
	top     int   // the first rank among lanes that are not put off
}

// rankOf is 1 for the lanes that go first.
func rankOf(l job.Lane) int { return job.MaxPriority - l.Priority.Number() + 1 }

// order sorts the lanes into the order of visits: topics take turns, and the lanes of a topic go
// as given, by rank.
func (m *maker) order() {
	for i, l := range m.Lanes {
		m.plan.Visits[i].Lane = i
		t := m.topics[l.Topic]
		if t == nil {
			t = m.topic(l.Topic)
			m.topics[l.Topic] = t
		}
		t.at = append(t.at, i)
		if l.Special() && t.group == 0 {
			m.plan.Groups = append(m.plan.Groups, Group{})
			t.group = len(m.plan.Groups)
		}
	}
	if len(m.plan.Groups) > 0 {
		for _, t := range m.topics {
			if t.group != 0 {
				m.sort(t)
			}
		}
		m.plan.Visits = slices.DeleteFunc(m.plan.Visits, func(v Visit) bool { return v.Lane < 0 })
	}
	if len(m.topics) > 1 {
		TakeTurns(m.plan.Visits, func(v Visit) string { return m.Lanes[v.Lane].Topic })
	}
}

// TakeTurns puts the first lane of each topic before the second lanes, and so on. Otherwise the many
// lanes of one topic could fill the ready list before the lane of another.
func TakeTurns[L any](lanes []L, topicOf func(L) string) {
	var turns [][]L
	met := map[string]int{}
	for _, l := range lanes {
		topic := topicOf(l)
		turn := met[topic]
		if met[topic]++; turn == len(turns) {
			turns = append(turns, nil)
		}
		turns[turn] = append(turns[turn], l)
	}
	copy(lanes, slices.Concat(turns...))
}

// sort puts the lanes of a topic in order, and rivals that go after them aside.
func (m *maker) sort(t *lanesOf) {
	last := 0
	for _, i := range t.at {
		if i < m.Due {
			last = max(last, rankOf(m.Lanes[i]))
		}
	}
	sorted := slices.Clone(t.at)
	slices.SortStableFunc(sorted, func(a, b int) int { return cmp.Compare(rankOf(m.Lanes[a]), rankOf(m.Lanes[b])) })
	for n, i := range t.at {
		m.plan.Visits[i].Lane = sorted[n]
		if sorted[n] >= m.Due && rankOf(m.Lanes[sorted[n]]) >= last {
			m.plan.Visits[i].Lane = -1
		}
	}
}

// topic begins a topic.
func (m *maker) topic(name string) *lanesOf {
	t := &lanesOf{Topic: m.Topics[name], terms: len(m.plan.Topics)}
	terms := TopicTerms{Name: name, Weight: weightOf(&t.Limits)}
	if n := Share(t.Concurrency, m.Shard, m.Shards); n > 0 {
		terms.Places = Places{Limit: n, Look: m.Now.Add(UncalledLook), Called: true}
	}
	if t.Rate > 0 {
		terms.Paced, terms.Pace = true, PaceOf(t.Rate, m.Shards, t.Next)
		terms.Allowed = terms.Pace.Allowed(m.Now)
	}
	m.plan.Topics = append(m.plan.Topics, terms)
	return t
}

// setTerms sets a lane's own terms.
func (m *maker) setTerms(v *Visit) {
	l := m.Lanes[v.Lane]
	t, circuit := m.topics[l.Topic], m.Circuits[l.Endpoint]
	v.Topic = t.terms
	switch {
	case t.PausedAt(m.Now):
		v.PutOff, _ = t.Hold(m.Now, 0)
		return
	case circuit.OpenUntil > m.Now:
		v.PutOff = circuit.OpenUntil
		return
	}
	t.visited++
	v.Rival = v.Lane >= m.Due
	v.Endpoint = m.endpointPlaces(l, circuit)
	v.Own = m.ownPlaces(l, t.group != 0)
	if t.group == 0 {
		return
	}
	v.Group, v.Rank = t.group, rankOf(l)
	m.plan.Groups[t.group-1].Ranks[v.Rank]++
	if t.top == 0 || v.Rank < t.top {
		t.top = v.Rank
	}
}

func (m *maker) endpointPlaces(l job.Lane, circuit store.Circuit) Places {
	if l.Pulled() {
		return Places{} // the limit protects a receiver from calls
	}
	limit, pause := EndpointLimit(&m.Options.FlightLimits, l.Topic, m.Shards), limitPause
	if most := CircuitLimit(circuit, &m.Options.FlightLimits, m.Shards, m.Now); most > 0 && (limit == 0 || most < limit) {
		limit, pause = most, restraintPause
	}
	if limit == 0 {
		return Places{}
	}
	return Places{Limit: limit, Look: m.poll(pause)}
}

// ownPlaces: a place that a lane of another priority frees calls only that lane, so lanes
// of a topic with priorities are visited by time instead.
func (m *maker) ownPlaces(l job.Lane, ranked bool) Places {
	limit := TopicLimit(&m.Options.FlightLimits, l.Topic, m.Shards)
	switch {
	case limit == 0:
		return Places{}
	case ranked:
		return Places{Limit: limit, Look: m.poll(limitPause)}
	}
	return Places{Limit: limit, Look: m.Now.Add(LaneLook), Called: true}
}

// poll is the next multiple of a pause.
func (m *maker) poll(pause time.Duration) job.Instant {
	ms := job.Instant(pause.Milliseconds())
	return (m.Now/ms + 1) * ms
}

// setSlots assigns slots to as many lanes as may wait for the rate. They wait only after
// all allowed jobs went.
func (t *TopicTerms) setSlots(lanes int, now job.Instant) {
	if !t.Paced {
		return
	}
	after := t.Pace.After(t.Allowed)
	t.Slots = make([]job.Instant, lanes)
	for n := range t.Slots {
		t.Slots[n] = after.Look(n, now)
	}
}
