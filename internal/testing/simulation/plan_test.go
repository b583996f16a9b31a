package simulation

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/duehook/duehook/carrier"
	"github.com/duehook/duehook/dispatcher"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
)

// plan is what a seed decides before anything runs: how the program is set up,
// and how hard life is made for it.
type plan struct {
	seed      uint64
	nodes     int
	clients   int
	shards    int
	retention time.Duration
	policy    retrypolicy.Policy
	carrier   carrier.Options
	dispatch  dispatcher.Options

	// priorities and operator: jobs have priorities, and somebody sets limits of
	// topics, while there are faults.
	priorities, operator bool

	// schedules is how many there are; steps: the clock of the store is set while there are
	// faults. Both are of newSchedulePlan.
	schedules int
	steps     bool

	direct bool // calls to the store take no time
	// rough is how long there are faults, calm how long there are none after.
	rough, calm time.Duration
	// Chances that a call to the store meets each trouble, in thousandths.
	refused, lost, slow, crash int
	// bad is the chance that a request meets a receiver in a bad mood, in percent.
	bad    int
	events []event
}

// event is a trouble that lasts.
type event struct {
	what  string // one of the events below
	whom  int    // node or endpoint
	after time.Duration
	lasts time.Duration
}

// The events.
const (
	eventCrash  = "crash"   // the process dies, and is started again
	eventStop   = "stop"    // SIGTERM, and a start
	eventCut    = "cut"     // the store refuses the node at once
	eventHang   = "hang"    // calls to the store time out
	eventStall  = "stall"   // the process stands still, and goes on
	eventOutage = "outage"  // an endpoint refuses
	eventSilent = "silent"  // an endpoint accepts and says nothing
	eventFails  = "failing" // an endpoint answers 500
)

var (
	topics    = []string{"orders", "payments", "mail"}
	endpoints = []string{"http://a.example:80", "http://b.example:80", "https://c.example:443"}
)

// source gives random numbers for one purpose. They depend on the seed and the
// purpose only, not on who else drew some before.
func source(seed uint64, purpose string, n int) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s#%d", purpose, n)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

func oneOf[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// between draws a duration to the nanosecond, so that hardly any two things
// happen at the same time: their order would be the scheduler's choice.
func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}

func newPlan(seed uint64, shards int) *plan {
	r := source(seed, "plan", 0)
	p := &plan{
		seed: seed, nodes: 1 + r.IntN(3), clients: 2 + r.IntN(2), shards: 1 + r.IntN(shards),
		retention: oneOf(r, 0, time.Minute, 1000*time.Hour, 1000*time.Hour),
		policy: retrypolicy.Policy{
			Steps: oneOf(r, []time.Duration{time.Second, 5 * time.Second, 20 * time.Second, time.Minute},
				[]time.Duration{15 * time.Second, 3 * time.Minute}, []time.Duration{10 * time.Millisecond}),
			Limit:  2 + r.IntN(6),
			Jitter: oneOf(r, 0, 0, retrypolicy.DefaultJitter),
		},
		rough: between(r, 2*time.Minute, 6*time.Minute), calm: 10 * time.Minute,
		refused: oneOf(r, 0, 5, 30), lost: oneOf(r, 0, 5, 30), slow: oneOf(r, 0, 5, 20), crash: oneOf(r, 0, 0, 1, 3),
		bad: oneOf(r, 0, 20, 50),
	}
	p.carrier = carrier.Options{
		CarryOptions: store.CarryOptions{
			Cap: oneOf(r, 1, 3, 20, 1000), Visibility: oneOf(r, 2*time.Second, 15*time.Second),
			FlightLimits: store.FlightLimits{EndpointLimit: oneOf(r, 1, 3, 256), HalfOpenLimit: 1 + r.IntN(3)},
		},
		Poll: oneOf(r, time.Second, 5*time.Second), Housekeeping: time.Minute,
	}
	if r.IntN(3) == 0 {
		p.carrier.TopicLimits = map[string]int{topics[0]: 1 + r.IntN(3)}
	}
	p.dispatch = dispatcher.Options{
		Workers: oneOf(r, 1, 4, 16), Timeout: oneOf(r, 2*time.Second, 10*time.Second),
		LeaseMargin: oneOf(r, dispatcher.MinLeaseMargin, 10*time.Second), Grace: oneOf(r, time.Second, 15*time.Second),
		BreakerFailures: oneOf(r, -1, 3, 20), BreakerOpen: oneOf(r, 3*time.Second, 10*time.Second), BreakerProbes: 1 + r.IntN(3),
		CatchUpRate: oneOf(r, -1, 2, 100), Policy: p.policy,
	}
	p.events = newEvents(r, p)
	p.priorities, p.operator = r.IntN(2) == 0, r.IntN(2) == 0
	return p
}

// newSchedulePlan has schedules instead of clients. In a third of the worlds, the clock of
// the store steps.
func newSchedulePlan(seed uint64, shards int) *plan {
	p, r := newPlan(seed, shards), source(seed, "schedules", 0)
	p.clients, p.operator, p.schedules, p.steps = 0, false, 1+r.IntN(3), r.IntN(3) == 0
	p.crash = oneOf(r, 0, 1, 3, 10)
	return p
}

func newEvents(r *rand.Rand, p *plan) []event {
	var events []event
	for range r.IntN(8) {
		e := event{
			what: oneOf(r, eventCrash, eventCrash, eventStop, eventCut, eventHang, eventStall),
			whom: r.IntN(p.nodes), after: between(r, 0, p.rough),
		}
		e.lasts = between(r, 0, 90*time.Second)
		events = append(events, e)
	}
	for range r.IntN(3) {
		events = append(events, event{
			what: oneOf(r, eventOutage, eventSilent, eventFails), whom: r.IntN(len(endpoints)),
			after: between(r, 0, p.rough), lasts: between(r, time.Second, p.rough),
		})
	}
	slices.SortFunc(events, func(a, b event) int { return int(a.after - b.after) })
	return events
}
