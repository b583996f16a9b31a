package rules

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
)

const now = job.Instant(1_000_000_000_003)

// shard is what a plan is carried out on: jobs by lane, and counts.
type shard struct {
	Facts
	again, waiting []int // due jobs by lane: in flight, and not
	endpoint       map[string]int
	own            map[job.Lane]int // by lane without its priority
	topic, ready   map[string]int
}

// priorities are those of lanes' names in these tests: higher ones, and a lower one.
var priorities = map[string]job.Priority{"A": 9, "B": 8, "C": 7, "z": 1}

// lane is one lane of a shard. Jobs in flight that are not due are counts only.
type lane struct {
	name     string
	due      int // waiting jobs that are due
	again    int // jobs in flight that are due again
	inFlight int // others
	ready    int // of those in flight
	rival    bool
}

func newShard(f Facts, lanes []lane) *shard {
	if f.Shards == 0 {
		f.Shards = 1
	}
	f.Now, f.Options.Cap = now, cmp.Or(f.Options.Cap, 1000)
	s := &shard{Facts: f, endpoint: map[string]int{}, own: map[job.Lane]int{}, topic: map[string]int{}, ready: map[string]int{}}
	for _, l := range lanes {
		name := strings.Split(l.name, "|")
		parsed := job.Lane{Topic: name[0], Endpoint: name[len(name)-1]}
		if len(name) == 3 {
			parsed.Priority = priorities[name[1]]
		}
		s.Lanes = append(s.Lanes, parsed)
		if !l.rival {
			s.Due++
		}
		s.again, s.waiting = append(s.again, l.again), append(s.waiting, l.due)
		s.count(parsed, l.again+l.inFlight)
		s.ready[parsed.Topic] += l.ready
		s.Ready += l.ready
	}
	return s
}

func (s *shard) count(l job.Lane, n int) {
	s.endpoint[l.Endpoint] += n
	s.own[l.Plain()] += n
	s.topic[l.Topic] += n
}

func (s *shard) inFlight(l job.Lane) InFlight {
	return InFlight{s.endpoint[l.Endpoint], s.own[l.Plain()], s.topic[l.Topic], s.ready[l.Topic]}
}

// outcome is what came of a plan, by lane.
type outcome struct {
	went []int
	look []job.Instant // after now in ms; 0: unknown, or it goes on in turn
	next map[string]float64
	room int
	full map[int]bool // lanes that had their turn and are not limited, but have more
}

// carryOut does what a store does with a plan.
func (s *shard) carryOut(room int) outcome {
	o := outcome{went: make([]int, len(s.Lanes)), look: make([]job.Instant, len(s.Lanes)), next: map[string]float64{}, full: map[int]bool{}}
	plan := MakePlan(&s.Facts)
	run := plan.Run(room)
	for i := range plan.Visits {
		v := &plan.Visits[i]
		if run.Room() == 0 {
			break
		}
		if v.PutOff != 0 {
			o.look[v.Lane] = v.PutOff - now
			continue
		}
		s.visit(run, v, &o)
	}
	run.Slots(func(v *Visit, at job.Instant) { o.look[v.Lane] = at - now }, func(topic string, p Pace) { o.next[topic] = p.Next - float64(now) })
	o.room = run.Room()
	return o
}

func (s *shard) visit(run *Run, v *Visit, o *outcome) {
	n, l := v.Lane, s.Lanes[v.Lane]
	most := run.Most(v)
	again := min(most, s.again[n])
	fresh := min(most-again, run.Free(v, s.inFlight(l)), s.waiting[n])
	s.again[n], s.waiting[n] = s.again[n]-again, s.waiting[n]-fresh
	s.count(l, fresh)
	s.ready[l.Topic] += fresh
	o.went[n] = again + fresh
	run.Took(v, again, fresh)
	if s.again[n]+s.waiting[n] == 0 {
		return
	}
	wait := run.Rest(v, o.went[n], s.inFlight(l))
	switch {
	case wait.Limit > 0:
		o.look[n] = wait.Look - now
	case !wait.Paced && !wait.Cut:
		o.full[n] = true
	}
}

// What each rule lets go, and when a lane that has more is looked at again.
func TestPlan(t *testing.T) {
	const a, b, c = "http://a:80", "http://b:80", "http://c:80"
	pause := func(d time.Duration) job.Instant { return job.Instant(d.Milliseconds()) }
	unlimited := store.CarryOptions{FlightLimits: store.FlightLimits{HalfOpenLimit: 2}}
	atMost := func(n int) store.CarryOptions {
		return store.CarryOptions{FlightLimits: store.FlightLimits{HalfOpenLimit: 2, EndpointLimit: n}}
	}
	topic := func(l store.Limits) map[string]Topic { return map[string]Topic{"t": {Limits: l}} }
	for _, tc := range []struct {
		name  string
		facts Facts
		lanes []lane
		room  int // 0: 100
		went  []int
		look  []job.Instant
		next  map[string]float64
	}{
		{
			name: "lanes of a topic share the room", facts: Facts{Options: unlimited},
			lanes: []lane{{name: "t|" + a, due: 500}, {name: "t|" + b, due: 3}, {name: "t|" + c, due: 500}}, went: []int{34, 3, 34},
		},
		{
			name: "topics share first", facts: Facts{Options: unlimited},
			lanes: []lane{{name: "t|" + a, due: 500}, {name: "t|" + b, due: 500}, {name: "t|" + c, due: 500}, {name: "u|" + b, due: 500}},
			went:  []int{17, 17, 16, 50},
		},
		{
			name: "topics take turns", facts: Facts{Options: unlimited}, room: 2,
			lanes: []lane{{name: "t|" + a, due: 5}, {name: "t|" + b, due: 5}, {name: "u|" + b, due: 5}}, went: []int{1, 0, 1},
		},
		{
			name: "each lane of a topic has one place", facts: Facts{Options: unlimited}, room: 2,
			lanes: []lane{{name: "t|" + a, due: 5}, {name: "t|" + b, due: 5}, {name: "t|" + c, due: 5}}, went: []int{1, 1, 0},
		},
		{
			name: "by weight", facts: Facts{Options: unlimited, Topics: topic(store.Limits{Weight: 30})},
			lanes: []lane{{name: "t|" + a, due: 500}, {name: "u|" + a, due: 500}}, went: []int{75, 25},
		},
		{
			name: "by weight, whatever the number of lanes", facts: Facts{Options: unlimited, Topics: topic(store.Limits{Weight: 30})},
			lanes: []lane{{name: "u|" + a, due: 500}, {name: "u|" + b, due: 500}, {name: "t|" + a, due: 500}, {name: "u|" + c, due: 500}},
			went:  []int{9, 9, 75, 7},
		},
		{
			name: "a topic alone fills the ready list", facts: Facts{Options: unlimited},
			lanes: []lane{{name: "t|" + a, due: 50}, {name: "t|" + b, due: 50, inFlight: 980, ready: 980}},
			went:  []int{10, 10}, look: []job.Instant{0, pause(UncalledLook)},
		},
		{
			name: "and leaves room for others", facts: Facts{Options: unlimited},
			lanes: []lane{{name: "t|" + a, due: 50, inFlight: 1000, ready: 1000}, {name: "u|" + b, due: 50}},
			went:  []int{0, 50}, look: []job.Instant{pause(UncalledLook), 0},
		},
		{
			name: "running jobs take no room", facts: Facts{Options: unlimited},
			lanes: []lane{{name: "t|" + a, due: 50, inFlight: 5000}}, went: []int{50},
		},
		{
			name: "two topics have two thirds each", facts: Facts{Options: store.CarryOptions{Cap: 30}},
			lanes: []lane{{name: "t|" + a, due: 50, inFlight: 30, ready: 30}, {name: "u|" + b, due: 50, inFlight: 17, ready: 17}},
			went:  []int{0, 0}, look: []job.Instant{pause(UncalledLook), pause(UncalledLook)},
		},
		{
			name: "of more topics, one has at least one hint", facts: Facts{Options: store.CarryOptions{Cap: 10}},
			lanes: []lane{{name: "t|" + a, inFlight: 10, ready: 10}, {name: "u|" + b, inFlight: 10, ready: 10}, {name: "v|" + b, due: 50}},
			went:  []int{0, 0, 1}, look: []job.Instant{0, 0, pause(UncalledLook)},
		},
		{
			name:  "a weight is a share of the hints",
			facts: Facts{Options: store.CarryOptions{Cap: 100}, Topics: topic(store.Limits{Weight: 30})},
			lanes: []lane{{name: "t|" + a, due: 500, inFlight: 110, ready: 110}, {name: "u|" + b, due: 50, inFlight: 40, ready: 40}},
			went:  []int{10, 0}, look: []job.Instant{pause(UncalledLook), pause(UncalledLook)},
		},
		{
			name:  "jobs in flight that are due again need no other place for a hint",
			facts: Facts{Options: store.CarryOptions{Cap: 5}},
			lanes: []lane{{name: "t|" + a, due: 5, again: 5, ready: 5}}, went: []int{5}, look: []job.Instant{pause(UncalledLook)},
		},
		{
			name:  "consumers of pull queues share no hints",
			facts: Facts{Options: store.CarryOptions{Cap: 5, Pull: []string{"t"}}},
			lanes: []lane{{name: "t|pull:", due: 50, inFlight: 50, ready: 50}}, went: []int{50},
		},
		{
			name:  "a lane that is put off has no share",
			facts: Facts{Options: unlimited, Circuits: map[string]store.Circuit{b: {OpenUntil: now + 7, HalfOpenUntil: now + 99}}},
			lanes: []lane{{name: "t|" + a, due: 99}, {name: "t|" + b, due: 500}}, went: []int{99, 0}, look: []job.Instant{0, 7},
		},
		{
			name: "an endpoint's limit, of all its lanes", facts: Facts{Options: atMost(5)},
			lanes: []lane{{name: "t|" + a, due: 2, inFlight: 2}, {name: "u|" + a, due: 9}, {name: "u|" + b, due: 9}},
			went:  []int{2, 1, 5}, look: []job.Instant{0, 7, 7},
		},
		{
			name: "jobs in flight that are due again keep their places", facts: Facts{Options: atMost(2)},
			lanes: []lane{{name: "t|" + a, due: 5, again: 2}}, went: []int{2}, look: []job.Instant{7},
		},
		{
			name:  "a topic's limit at an endpoint below the endpoint's",
			facts: Facts{Options: store.CarryOptions{FlightLimits: store.FlightLimits{EndpointLimit: 10, TopicLimits: map[string]int{"t": 3}}}},
			lanes: []lane{{name: "t|" + a, due: 5}, {name: "u|" + a, due: 5}}, went: []int{3, 5}, look: []job.Instant{pause(LaneLook), 0},
		},
		{
			name:  "and above it",
			facts: Facts{Options: store.CarryOptions{FlightLimits: store.FlightLimits{EndpointLimit: 4, TopicLimits: map[string]int{"t": 7}}}},
			lanes: []lane{{name: "u|" + a, due: 9}, {name: "t|" + a, due: 9}}, went: []int{4, 3}, look: []job.Instant{7, 7},
		},
		{
			name:  "shards have equal shares of both, rounded up",
			facts: Facts{Options: store.CarryOptions{FlightLimits: store.FlightLimits{EndpointLimit: 5, TopicLimits: map[string]int{"t": 1}}}, Shard: 1, Shards: 2},
			lanes: []lane{{name: "t|" + a, due: 9}, {name: "u|" + a, due: 9}}, went: []int{1, 2}, look: []job.Instant{pause(LaneLook), 7},
		},
		{
			name:  "half-open",
			facts: Facts{Options: atMost(5), Circuits: map[string]store.Circuit{a: {HalfOpenUntil: now + 1}}},
			lanes: []lane{{name: "t|" + a, due: 9}, {name: "u|" + a, due: 9}, {name: "u|" + b, due: 9}},
			went:  []int{2, 0, 5}, look: []job.Instant{97, 97, 7},
		},
		{
			name:  "ramping up: twice as many each second",
			facts: Facts{Options: unlimited, Circuits: map[string]store.Circuit{a: {RampFrom: now - 2_999}}},
			lanes: []lane{{name: "t|" + a, due: 99}}, went: []int{8}, look: []job.Instant{97},
		},
		{
			name:  "a ramp above the limit",
			facts: Facts{Options: atMost(7), Circuits: map[string]store.Circuit{a: {RampFrom: now - 2_999}}},
			lanes: []lane{{name: "t|" + a, due: 99}}, went: []int{7}, look: []job.Instant{7},
		},
		{
			name:  "a ramp that begins later, because the clock went back",
			facts: Facts{Options: unlimited, Circuits: map[string]store.Circuit{a: {RampFrom: now + 2_999}}},
			lanes: []lane{{name: "t|" + a, due: 99}}, went: []int{2}, look: []job.Instant{97},
		},
		{
			name: "paused", facts: Facts{Options: unlimited, Topics: topic(store.Limits{Paused: true})},
			lanes: []lane{{name: "t|" + a, due: 9, again: 1}, {name: "u|" + a, due: 9}}, went: []int{0, 9}, look: []job.Instant{pause(UncalledLook), 0},
		},
		{
			name: "paused until a time", facts: Facts{Options: unlimited, Topics: topic(store.Limits{Paused: true, PausedUntil: now + 50})},
			lanes: []lane{{name: "t|" + a, due: 9, again: 1}, {name: "u|" + a, due: 9}}, went: []int{0, 9}, look: []job.Instant{50, 0},
		},
		{
			name: "paused until now", facts: Facts{Options: unlimited, Topics: topic(store.Limits{Paused: true, PausedUntil: now})},
			lanes: []lane{{name: "t|" + a, due: 9}, {name: "u|" + a, due: 9}}, went: []int{9, 9}, look: []job.Instant{0, 0},
		},
		{
			name: "a concurrency, of all endpoints", facts: Facts{Options: unlimited, Topics: topic(store.Limits{Concurrency: 4})},
			lanes: []lane{{name: "t|" + a, due: 9, inFlight: 1}, {name: "t|" + b, due: 9}, {name: "u|" + b, due: 9}},
			went:  []int{3, 0, 9}, look: []job.Instant{pause(UncalledLook), pause(UncalledLook), 0},
		},
		{
			name: "a shard's share of a concurrency", facts: Facts{Options: unlimited, Topics: topic(store.Limits{Concurrency: 4}), Shard: 1, Shards: 3},
			lanes: []lane{{name: "t|" + a, due: 9}}, went: []int{1}, look: []job.Instant{pause(UncalledLook)},
		},
		{
			name:  "of several limits the endpoint's decides when to look",
			facts: Facts{Options: atMost(2), Topics: topic(store.Limits{Concurrency: 2})},
			lanes: []lane{{name: "t|" + a, due: 9}}, went: []int{2}, look: []job.Instant{7},
		},
		{
			name:  "a rate, and slots for lanes of which nothing went first",
			facts: Facts{Options: unlimited, Topics: map[string]Topic{"t": {Limits: store.Limits{Rate: 100}, Next: float64(now) - 15}}},
			lanes: []lane{{name: "t|" + a, due: 9}, {name: "t|" + b, due: 9}, {name: "t|" + c, due: 9}},
			went:  []int{2, 0, 0}, look: []job.Instant{25, 5, 15}, next: map[string]float64{"t": 5},
		},
		{
			name:  "a rate whose turn has not come",
			facts: Facts{Options: unlimited, Topics: map[string]Topic{"t": {Limits: store.Limits{Rate: 100}, Next: float64(now) + 4}}},
			lanes: []lane{{name: "t|" + a, due: 9, again: 1}, {name: "u|" + a, due: 1}}, went: []int{0, 1}, look: []job.Instant{4, 0},
		},
		{
			name:  "by priority, siblings with one share",
			facts: Facts{Options: unlimited},
			lanes: []lane{{name: "t|" + a, due: 99}, {name: "t|A|" + a, due: 10}, {name: "t|z|" + a, due: 99}, {name: "u|" + b, due: 99}},
			went:  []int{40, 10, 0, 50},
		},
		{
			name:  "lower priorities get what is left",
			facts: Facts{Options: unlimited},
			lanes: []lane{{name: "t|z|" + b, due: 99}, {name: "t|A|" + a, due: 10}}, went: []int{90, 10},
		},
		{
			name:  "lanes of one rank share equally",
			facts: Facts{Options: unlimited}, room: 90,
			lanes: []lane{{name: "t|A|" + a, due: 99}, {name: "t|A|" + b, due: 99}, {name: "u|" + c, due: 99}}, went: []int{23, 22, 45},
		},
		{
			name:  "a rival that is no higher does not go",
			facts: Facts{Options: unlimited},
			lanes: []lane{{name: "t|" + b, due: 1}, {name: "t|A|" + a, due: 1}, {name: "t|" + a, due: 1, rival: true}}, went: []int{1, 1, 0},
		},
		{
			name:  "an endpoint without places holds up no lower priority of another",
			facts: Facts{Options: atMost(20)},
			lanes: []lane{{name: "t|z|" + b, due: 99}, {name: "t|A|" + a, due: 99}}, went: []int{20, 20}, look: []job.Instant{7, 7},
		},
		{
			name:  "nor does an open circuit",
			facts: Facts{Options: unlimited, Circuits: map[string]store.Circuit{a: {OpenUntil: now + 50}}},
			lanes: []lane{{name: "t|z|" + b, due: 99}, {name: "t|A|" + a, due: 99}}, went: []int{99, 0}, look: []job.Instant{0, 50},
		},
		{
			name:  "siblings share a topic's limit at an endpoint",
			facts: Facts{Options: store.CarryOptions{FlightLimits: store.FlightLimits{TopicLimits: map[string]int{"t": 4}}}},
			lanes: []lane{{name: "t|" + a, due: 9}, {name: "t|A|" + a, due: 3}}, went: []int{1, 3}, look: []job.Instant{7, 0},
		},
		{
			name:  "a concurrency goes to the highest",
			facts: Facts{Options: unlimited, Topics: topic(store.Limits{Concurrency: 2})},
			lanes: []lane{{name: "t|" + b, due: 9}, {name: "t|C|" + a, due: 9, rival: true}},
			went:  []int{0, 2}, look: []job.Instant{pause(UncalledLook), pause(UncalledLook)},
		},
		{
			name:  "rivals go first if they are higher, and keep their slots",
			facts: Facts{Options: unlimited, Topics: map[string]Topic{"t": {Limits: store.Limits{Rate: 100}}}},
			lanes: []lane{{name: "t|" + b, due: 1}, {name: "t|A|" + a, due: 1, rival: true}, {name: "t|B|" + a, due: 9, rival: true}, {name: "t|z|" + a, due: 9, rival: true}},
			went:  []int{0, 1, 0, 0}, look: []job.Instant{11, 0, 0, 0}, next: map[string]float64{"t": 10},
		},
		{
			name:  "slots by priority, lower ones a millisecond later",
			facts: Facts{Options: unlimited, Topics: map[string]Topic{"t": {Limits: store.Limits{Rate: 100}}}},
			lanes: []lane{{name: "t|" + b, due: 9}, {name: "t|A|" + b, due: 9}, {name: "t|A|" + a, due: 9}},
			went:  []int{0, 1, 0}, look: []job.Instant{31, 20, 10}, next: map[string]float64{"t": 10},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.room == 0 {
				tc.room = 100
			}
			if tc.look == nil {
				tc.look = make([]job.Instant, len(tc.lanes))
			}
			if tc.next == nil {
				tc.next = map[string]float64{}
			}
			o := newShard(tc.facts, tc.lanes).carryOut(tc.room)
			must.Same(t, "went", o.went, tc.went)
			must.Same(t, "looked at again in", o.look, tc.look)
			must.Same(t, "next of rates", o.next, tc.next)
		})
	}
}

// How each further lane of the first topic waits after the plan.
func TestCrowd(t *testing.T) {
	for _, tc := range []struct {
		name   string
		topic  store.Limits
		pull   []string
		due    int
		others int // ready jobs of another topic
		want   Wait
	}{
		{name: "room", due: 9},
		{name: "as many as may run", topic: store.Limits{Concurrency: 5}, due: 9, want: Wait{Places: Places{Limit: 5, Look: now.Add(UncalledLook), Called: true}}},
		{name: "one fewer", topic: store.Limits{Concurrency: 5}, due: 4},
		{name: "its hints", due: 99, want: Wait{Places: Places{Limit: 10, Look: now.Add(UncalledLook), Called: true}, Hint: true}},
		{name: "its hints beside another topic", due: 99, others: 10, want: Wait{Places: Places{Limit: 5, Look: now.Add(UncalledLook), Called: true}, Hint: true}},
		{name: "its hints by weight", topic: store.Limits{Weight: 1}, due: 99, want: Wait{Places: Places{Limit: 1, Look: now.Add(UncalledLook), Called: true}, Hint: true}},
		{name: "its rate", topic: store.Limits{Rate: 1}, due: 99},
		{name: "consumers need no hints", pull: []string{"t"}, due: 99},
	} {
		t.Run(tc.name, func(t *testing.T) {
			facts := Facts{Options: store.CarryOptions{Cap: 10, Pull: tc.pull}, Topics: map[string]Topic{"t": {Limits: tc.topic}}}
			s := newShard(facts, []lane{{name: "t|a", due: tc.due}, {name: "other|b", inFlight: tc.others, ready: tc.others}})
			run := MakePlan(&s.Facts).Run(100)
			v, l := &run.plan.Visits[0], s.Lanes[0]
			went := min(run.Most(v), run.Free(v, s.inFlight(l)), tc.due)
			run.Took(v, 0, went)
			s.count(l, went)
			s.ready["t"] += went
			must.Same(t, "wait", run.Crowd(v.Topic, s.inFlight(l)), tc.want)
		})
	}
}

func TestTakeTurns(t *testing.T) {
	lanes := []string{"a1", "a2", "a3", "b1", "c1", "b2", "a4"}
	TakeTurns(lanes, func(l string) string { return l[:1] })
	must.Same(t, "order", strings.Join(lanes, " "), "a1 b1 c1 a2 b2 a3 a4")
}

// Whatever the facts, no limit is passed, and what stays has a reason.
func TestPlanKeepsLimits(t *testing.T) {
	for seed := range uint64(3_000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		s, room := randomShard(rnd), 1+rnd.IntN(60)
		before := shard{endpoint: maps.Clone(s.endpoint), own: maps.Clone(s.own), topic: maps.Clone(s.topic)}
		o := s.carryOut(room)
		total := 0
		for _, n := range o.went {
			total += n
		}
		if total+o.room != room || o.room < 0 {
			t.Fatalf("seed %d: %d of %d places were used, %d are left", seed, total, room, o.room)
		}
		s.checkLimits(t, seed, &before)
		s.checkTopics(t, seed, o)
		if o.room > 0 {
			s.checkRest(t, seed, o)
		}
	}
}

func randomShard(rnd *rand.Rand) *shard {
	f := Facts{
		Options:  store.CarryOptions{FlightLimits: store.FlightLimits{EndpointLimit: rnd.IntN(8), HalfOpenLimit: 1 + rnd.IntN(3), TopicLimits: map[string]int{}}},
		Topics:   map[string]Topic{},
		Circuits: map[string]store.Circuit{},
	}
	circuits := []store.Circuit{{}, {OpenUntil: now + 5}, {HalfOpenUntil: now + 5}, {RampFrom: now - 1_500}}
	var lanes []lane
	for i := range 3 {
		topic, endpoint := fmt.Sprint("t", i), fmt.Sprint("http://e", i)
		f.Topics[topic] = Topic{
			Limits: store.Limits{
				Paused: rnd.IntN(9) == 0, Concurrency: rnd.IntN(9), Rate: float64(rnd.IntN(2) * 100), Weight: rnd.IntN(30),
			},
			Next: float64(now) - float64(rnd.IntN(100)),
		}
		f.Circuits[endpoint] = circuits[rnd.IntN(len(circuits))]
		f.Options.TopicLimits[topic] = rnd.IntN(9)
	}
	for _, n := range rnd.Perm(27)[:1+rnd.IntN(20)] {
		letter := []string{"", "A|", "z|"}[n%3]
		name := fmt.Sprintf("t%d|%shttp://e%d", n/9, letter, n/3%3)
		lanes = append(lanes, lane{name: name, due: rnd.IntN(20), again: rnd.IntN(2), inFlight: rnd.IntN(2)})
	}
	return newShard(f, lanes)
}

// checkLimits: no count is above its limit that was not above it before.
func (s *shard) checkLimits(t *testing.T, seed uint64, before *shard) {
	t.Helper()
	for _, l := range s.Lanes {
		options, c := s.Options, s.Circuits[l.Endpoint]
		highest := options.EndpointLimit
		for _, n := range options.TopicLimits {
			highest = max(highest, n)
		}
		if n := s.endpoint[l.Endpoint]; options.EndpointLimit > 0 && n > max(before.endpoint[l.Endpoint], highest) {
			t.Fatalf("seed %d: %d in flight at %s", seed, n, l.Endpoint)
		} else if c.HalfOpenUntil != 0 && n > max(before.endpoint[l.Endpoint], options.HalfOpenLimit) {
			t.Fatalf("seed %d: %d in flight at the half-open %s", seed, n, l.Endpoint)
		} else if c.OpenUntil != 0 && n > before.endpoint[l.Endpoint] {
			t.Fatalf("seed %d: more in flight at the open %s", seed, l.Endpoint)
		}
		if n, limit := s.own[l.Plain()], options.TopicLimits[l.Topic]; limit > 0 && n > max(before.own[l.Plain()], limit) {
			t.Fatalf("seed %d: %d in flight of %v", seed, n, l)
		}
		if n, limit := s.topic[l.Topic], s.Topics[l.Topic].Concurrency; limit > 0 && n > max(before.topic[l.Topic], limit) {
			t.Fatalf("seed %d: %d in flight of %s", seed, n, l.Topic)
		}
	}
}

// checkTopics: what went of a topic with a rate is what its next turn says, and no
// more than allowed.
func (s *shard) checkTopics(t *testing.T, seed uint64, o outcome) {
	t.Helper()
	went := map[string]int{}
	for i, l := range s.Lanes {
		went[l.Topic] += o.went[i]
	}
	for name, topic := range s.Topics {
		if topic.Paused && went[name] > 0 {
			t.Fatalf("seed %d: %d went of the paused %s", seed, went[name], name)
		}
		if topic.Rate == 0 {
			continue
		}
		p := PaceOf(topic.Rate, 1, topic.Next)
		allowed := p.Allowed(now)
		if went[name] > allowed {
			t.Fatalf("seed %d: %d went of %s, allowed are %d", seed, went[name], name, allowed)
		}
		if next := p.After(went[name]).Next - float64(now); went[name] > 0 && o.next[name] != next {
			t.Fatalf("seed %d: the next of %s is %f, want %f", seed, name, o.next[name], next)
		}
	}
}

// checkRest: while there was room, a lane that has more waits for something or had its
// share, and no job of a lower priority went before one that waits for its turn only.
func (s *shard) checkRest(t *testing.T, seed uint64, o outcome) {
	t.Helper()
	for i, l := range s.Lanes {
		if s.waiting[i]+s.again[i] > 0 && o.look[i] == 0 && !o.full[i] {
			t.Fatalf("seed %d: nobody looks at %v again", seed, l)
		}
		if !o.full[i] {
			continue
		}
		for k, other := range s.Lanes {
			if other.Topic == l.Topic && rankOf(other) > rankOf(l) && o.went[k] > 0 {
				t.Fatalf("seed %d: of %v went %d before the rest of %v", seed, other, o.went[k], l)
			}
		}
	}
}
