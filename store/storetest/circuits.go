package storetest

import (
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// openBriefly opens the circuit of urlA and waits until it is half-open.
func (f *fixture) openBriefly() {
	f.Helper()
	f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("", urlA).Endpoint, store.CircuitOpen, short))
	f.waitPast(f.now().Add(short))
}

// perEndpoint counts carried jobs by endpoint.
func perEndpoint(carried []store.Carried) map[string]int {
	n := map[string]int{}
	for _, c := range carried {
		n[c.Hint.Lane.Endpoint]++
	}
	return n
}

var limitCases = []testCase{
	{name: "half-open/few jobs are carried", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 10)...)
		f.openBriefly()
		o := carryOptions
		o.HalfOpenLimit = 2
		r := f.carryOnce(o)
		equal(f, "carried", len(r.Carried), 2)
		f.comesFree(r, o)
		claims := f.claim(f.pop(), terms())
		equal(f, "carried while the limit is reached", f.carry(o), nil)
		f.settle(store.Applied, failed(claims[0], after(long)))
		f.carryUntil(1, o)
		f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("", urlA).Endpoint, store.CircuitClosed, 0))
		f.carryUntil(7, carryOptions)
	}},
	{name: "half-open/the limit is the endpoint's", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 3)...)
		f.register(store.Created, many("u", 3)...)
		f.register(store.Created, many("t", 3, to(urlB), func(r *store.Registration) { r.Key.ID += "-b" })...)
		f.openBriefly()
		o := carryOptions
		o.HalfOpenLimit, o.TopicLimits = 1, map[string]int{"u": 100}
		equal(f, "carried", perEndpoint(f.carry(o)), map[string]int{laneOf("", urlA).Endpoint: 1, laneOf("", urlB).Endpoint: 3})
	}},
	{name: "ramp/more jobs are carried second by second", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 100)...)
		f.openBriefly()
		before := f.now()
		f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("", urlA).Endpoint, store.CircuitClosed, 0))
		after := f.now()
		o := carryOptions
		o.HalfOpenLimit = 2
		out := len(f.carry(o))
		equal(f, "carried at first", out >= 1 && out <= o.HalfOpenLimit, true)
		for step := range 2 {
			step++
			f.waitPast(after.Add(time.Duration(step) * time.Second))
			f.eventually("more are carried", func() bool {
				out += len(f.carry(o))
				return out >= o.HalfOpenLimit<<step
			})
			if most := o.HalfOpenLimit << (f.now().Sub(before) / time.Second); out > most {
				f.Fatalf("%d jobs are out, at most %d may be", out, most)
			}
		}
	}},
	{name: "ramp/it ends at the endpoint's limit", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 9)...)
		f.openBriefly()
		f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("", urlA).Endpoint, store.CircuitClosed, 0))
		o := carryOptions
		o.HalfOpenLimit, o.EndpointLimit = 1, 3
		f.carryUntil(3, o)
		equal(f, "carried beyond the limit", f.carry(o), nil)
	}},
	{name: "ramp/a closed circuit needs none", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 9)...)
		f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("", urlA).Endpoint, store.CircuitClosed, 0))
		o := carryOptions
		o.HalfOpenLimit = 1
		equal(f, "carried", len(f.carry(o)), 9)
	}},
	{name: "half-open/opening again ends it", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 3)...)
		f.openBriefly()
		f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("", urlA).Endpoint, store.CircuitOpen, long))
		equal(f, "carried", f.carry(carryOptions), nil)
		equal(f, "open circuits", f.depth().OpenCircuits, 1)
	}},
}

var circuitCases = []testCase{
	{name: "circuit/lanes of an open circuit are not carried", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 3)...)
		f.register(store.Created, many("u", 3)...)
		endpoint := laneOf("t", urlA).Endpoint
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitOpen, long))
		equal(f, "open circuits", f.depth().OpenCircuits, 1)
		f.add(reg("v", "new-lane"))
		f.add(reg("t", "new-job"))
		f.add(reg("t", "other", to(urlB)))
		equal(f, "carried", carriedKeys(f.carry(carryOptions)), []string{"t/other"})
		r := f.carryOnce(carryOptions)
		equal(f, "full", r.Full, false)
		equal(f, "it says to wait", r.Wait > 0 && r.Wait <= long, true)

		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitClosed, 0))
		equal(f, "open circuits", f.depth().OpenCircuits, 0)
		f.carryUntil(8, carryOptions)
	}},
	{name: "circuit/expired and retried jobs of an open circuit stay", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 3)...)
		f.carry(carryOptions)
		hints := f.pop()
		endpoint := laneOf("t", urlA).Endpoint
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitOpen, long))
		f.expireLeases(hints[:1])
		claims := f.claim(hints[1:], terms())
		f.settle(store.Applied, failed(claims[0], always))
		f.settle(store.Applied, released(claims[1], 0))
		equal(f, "carried", f.carry(carryOptions), nil)
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitClosed, 0))
		f.carryUntil(3, carryOptions)
	}},
	{name: "circuit/jobs carried before may be claimed", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.carry(carryOptions)
		f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("t", urlA).Endpoint, store.CircuitOpen, long))
		claims := f.claim(f.pop(), terms())
		equal(f, "claimed", claimedKeys(claims), []string{"t/a"})
		f.settle(store.Applied, delivered(claims[0]))
	}},
	{name: "circuit/an endpoint without jobs", options: Options{}, run: func(f *fixture) {
		endpoint := laneOf("t", urlA).Endpoint
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitClosed, 0))
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitOpen, long))
		equal(f, "open circuits", f.depth().OpenCircuits, 1)
		f.add(reg("t", "a"))
		equal(f, "carried", f.carry(carryOptions), nil)
		f.update(job.Key{Topic: "t", ID: "a"}, cancel) // the lane goes, the circuit stays open
		f.add(reg("t", "a"))
		equal(f, "carried", f.carry(carryOptions), nil)
	}},
	{name: "circuit/each endpoint on every shard", options: Options{Shards: 3}, run: func(f *fixture) {
		for i, url := range []string{urlA, urlB} {
			f.register(store.Created, many([]string{"t", "u"}[i], 20, to(url))...)
		}
		f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("t", urlA).Endpoint, store.CircuitOpen, long))
		for _, c := range f.carry(carryOptions) {
			equal(f, "topic", c.Hint.Lane.Topic, "u")
		}
		equal(f, "open circuits", f.depth().OpenCircuits, 1)
		f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("t", urlA).Endpoint, store.CircuitClosed, 0))
		f.carryUntil(20, carryOptions)
	}},
}
