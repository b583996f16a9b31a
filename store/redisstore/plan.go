package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// Carrying reads facts (lua/facts.lua), makes a plan of them in Go, and moves jobs
// (lua/carry.lua). A change between the two calls that could make the plan carry too much
// raises the shard's number of plans: another carrier, new limits, a circuit. The second
// script then refuses the plan. Other changes only leave fewer jobs in flight or more jobs
// due.

// maxPlans bounds how many plans one call makes. Most calls make one.
const maxPlans = 8

// carryFrom carries from lanes that are due. Those beyond them are due, too: they have to wait if their topics have no
// place left.
func (s *Store) carryFrom(ctx context.Context, n int, names, beyond []string, o store.CarryOptions) (store.CarryResult, error) {
	sh, due := s.shards[n], len(names)
	for range maxPlans {
		f, err := s.readFacts(ctx, n, names, due, o)
		if err != nil {
			return store.CarryResult{}, err
		}
		if len(f.rivals) > 0 {
			names = append(names, f.rivals...)
			continue
		}
		if o.Pull != nil {
			r, ok, err := s.pull(ctx, sh, f)
			if err != nil || ok {
				return r, err
			}
			continue
		}
		if f.ready >= rules.HintPlaces(&o) {
			return store.CarryResult{Full: true}, nil
		}
		m := sh.moves(f, beyond)
		reply, err := s.eval(ctx, carryScript, m.keys, m.args)
		if err != nil {
			return store.CarryResult{}, err
		}
		if len(reply) > 1 {
			return sh.carried(reply, m)
		}
	}
	return store.CarryResult{}, nil // other nodes keep changing the facts: the next round makes another plan
}

// pull carries from pull queues. It returns false if the facts are old.
func (s *Store) pull(ctx context.Context, sh *shard, f *facts) (r store.CarryResult, ok bool, err error) {
	later := f.onlyDue()
	f.ready = 0
	m := sh.moves(f, nil)
	if len(m.visited) > 0 { // something is due
		reply, err := s.eval(ctx, carryScript, m.keys, m.args)
		if err != nil || len(reply) <= 1 {
			return r, false, err
		}
		if r, err = sh.carried(reply, m); err != nil {
			return r, false, err
		}
	}
	next := m.next
	if next == 0 || later != 0 && later < next {
		next = later
	}
	r.Wait, r.Full = -1, false
	if next != 0 {
		r.Wait = max(0, next.Sub(f.Now))
	}
	return r, true, nil
}

// moves is one plan in the arguments of lua/carry.lua, list by list.
type moves struct {
	*facts
	run                            *rules.Run
	keys                           []string
	args                           []any
	visited                        []job.Lane // by their numbers in lanes
	topics, closed, waiting, lanes []any
	crowd                          []any       // lanes beyond the plan that wait like those of their topics
	look                           int         // how many of the next due lanes the script returns
	numbers                        map[int]int // of lanes in lanes, from 1, by their numbers in the facts
	next                           job.Instant // when consumers may find more in a pull queue; 0: unknown
}

// note notes when consumers may find more.
func (m *moves) note(at job.Instant) {
	if m.next == 0 || at < m.next {
		m.next = at
	}
}

// Values of a lane's next visit that are not times.
const (
	lookAsNeeded = "" // when the bucket needs one
	lookStays    = "-"
	lookNow      = "0"
)

// moves makes a plan, with the keys and arguments of the script that executes it.
func (sh *shard) moves(f *facts, beyond []string) *moves {
	plan := rules.MakePlan(&f.Facts)
	m := &moves{facts: f, run: plan.Run(min(maxBatch, rules.HintPlaces(&f.Options)-f.ready)), keys: sh.own[carryScript], numbers: map[int]int{}}
	for i := range plan.Visits {
		if m.run.Room() == 0 {
			m.note(f.Now)
			break // the others keep their places in line
		}
		v := &plan.Visits[i]
		if f.Options.Pull != nil && v.PutOff != 0 {
			m.note(v.PutOff)
			continue
		}
		m.visited = append(m.visited, m.Lanes[v.Lane])
		m.numbers[v.Lane] = len(m.visited)
		m.keys = append(m.keys, sh.bucket(f.names[v.Lane]))
		m.visit(v)
	}
	tokens := map[string]string{}
	m.run.Slots(func(v *rules.Visit, at job.Instant) {
		if m.note(at); f.Options.Pull == nil {
			m.setLook(v, at)
		}
	},
		func(topic string, p rules.Pace) { tokens[topic] = strconv.FormatFloat(p.Next, 'f', 3, 64) })
	for i := range plan.Topics {
		t := &plan.Topics[i]
		m.topics = append(m.topics, t.Name, tokens[t.Name], t.Limit, f.readyOf[t.Name], m.toCall(t.Name, beyond))
	}
	m.addCrowd(sh, plan, beyond)
	for _, endpoint := range f.closed {
		m.closed = append(m.closed, endpoint)
	}
	m.args = []any{f.plan, millis(f.Options.Visibility), f.Options.Pull != nil, m.look}
	for _, list := range []struct {
		items []any
		each  int
	}{{m.topics, 5}, {m.closed, 1}, {m.waiting, 4}, {m.lanes, argsOfLane}, {m.crowd, 3}} {
		m.args = append(append(m.args, len(list.items)/list.each), list.items...)
	}
	return m
}

// toCall is how many lanes of a topic that wait for a hint the next plan can visit: one for each hint that the topic may still
// have, without those that are due anyway. If more were called, they would only be put aside again.
func (m *moves) toCall(topic string, due []string) int {
	if m.Options.Pull != nil {
		return 0
	}
	limits := m.Topics[topic].Limits
	more := min(lanesAtOnce, rules.MoreHints(&limits, &m.Options, m.readyOf[topic], m.Ready))
	for _, name := range due {
		if topicOf(name) == topic {
			more--
		}
	}
	return max(0, more)
}

// argsOfLane is the number of arguments of a lane. The last is its next visit.
const argsOfLane = 4

func (m *moves) setLook(v *rules.Visit, at job.Instant) {
	m.lanes[argsOfLane*m.numbers[v.Lane]-1] = int64(at)
}

// visit decides how many jobs of a lane go. Jobs in flight that are due again go first: they
// have their places.
func (m *moves) visit(v *rules.Visit) {
	l, has := m.Lanes[v.Lane], m.facts.lanes[v.Lane]
	add := func(again, fresh int, look any) { m.lanes = append(m.lanes, m.names[v.Lane], again, fresh, look) }
	if v.PutOff != 0 {
		add(0, 0, int64(v.PutOff))
		return
	}
	most := m.run.Most(v)
	again := min(most, has.again)
	fresh := min(most-again, m.run.Free(v, m.inFlight(l)), has.waiting)
	m.add(l, fresh)
	m.run.Took(v, again, fresh)
	if again == has.again && fresh == has.waiting {
		add(again, fresh, lookAsNeeded)
		return
	}
	wait := m.run.Rest(v, again+fresh, m.inFlight(l))
	if m.Options.Pull != nil {
		if !wait.Paced {
			m.note(wait.Pull(m.Now))
		}
		if wait.Called {
			m.await(v, wait)
		}
		add(again, fresh, lookAsNeeded)
		return
	}
	switch {
	case wait.Paced, wait.Cut: // it gets a slot, or keeps its place in line
		add(again, fresh, lookStays)
	case wait.Limit == 0:
		add(again, fresh, lookNow) // to the end of the line
	case wait.Called:
		m.await(v, wait)
		add(again, fresh, lookStays)
	default:
		add(again, fresh, int64(wait.Look))
	}
}

// hint is before the names of lanes in places that wait for a hint: HINT in Lua.
const hint = "+"

// await has a lane called when a place becomes free.
func (m *moves) await(v *rules.Visit, wait rules.Wait) {
	m.waiting = append(m.waiting, m.numbers[v.Lane], inPlaces(m.names[v.Lane], wait), wait.Limit, int64(wait.Look))
}

// inPlaces is the name in places of a lane that waits.
func inPlaces(lane string, wait rules.Wait) string {
	switch {
	case wait.Own:
		return "=" + lane
	case wait.Hint:
		return hint + lane
	}
	return lane
}

// addCrowd has due lanes wait that the plan does not have, if their topics have no place left: visits one
// by one would delay lanes of other topics.
func (m *moves) addCrowd(sh *shard, plan *rules.Plan, beyond []string) {
	waits := map[string]rules.Wait{}
	for i := range plan.Topics {
		t := plan.Topics[i].Name
		if wait := m.run.Crowd(i, m.inFlight(job.Lane{Topic: t})); wait.Limit != 0 {
			waits[t] = wait
		}
	}
	m.look = lanesAtOnce
	if len(waits) > 0 && m.Options.Pull == nil {
		m.look = lanesInCrowd
	}
	for _, name := range beyond {
		wait, ok := waits[topicOf(name)]
		if ok && !slices.Contains(m.names[m.Due:], name) { // no rival
			m.keys, m.crowd = append(m.keys, sh.bucket(name)), append(m.crowd, name, inPlaces(name, wait), int64(wait.Look))
		}
	}
}

// carried reads the answer to a plan that was executed.
func (sh *shard) carried(reply []any, m *moves) (store.CarryResult, error) {
	if len(reply) < 3 {
		return store.CarryResult{}, fmt.Errorf("redisstore: carry answered %d values", len(reply))
	}
	now := sh.clock.observe(reply[0])
	r := store.CarryResult{Wait: -1}
	line, err := lineOf(textsOf(reply[2]))
	if err != nil {
		return r, err
	}
	if len(line) > 0 {
		r.Wait = max(0, line[0].look.Sub(now))
	}
	if m.Options.Pull == nil {
		line = once(line)
		sh.line.Store(&line)
	}
	r.Full = r.Wait == 0 && intOf(reply[1]) >= rules.HintPlaces(&m.Options)
	for _, of := range reply[3:] {
		jobs := listOf(of)
		if len(jobs) < 2 || intOf(jobs[0]) < 1 || intOf(jobs[0]) > len(m.visited) {
			return r, fmt.Errorf("redisstore: carry answered %d values for a lane of %d", len(jobs), len(m.visited))
		}
		lane, from := m.visited[intOf(jobs[0])-1], job.State(intOf(jobs[1]))
		r.Carried = slices.Grow(r.Carried, len(jobs)-2)
		for _, id := range textsOf(jobs[2:]) {
			r.Carried = append(r.Carried, store.Carried{Hint: store.Hint{Lane: lane, ID: id}, From: from})
		}
	}
	return r, nil
}
