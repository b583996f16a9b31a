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

// perEndpoint counts claims by endpoint.
func perEndpoint(claims []store.Claimed) map[string]int {
	n := map[string]int{}
	for _, c := range claims {
		n[c.Job.Lane().Endpoint]++
	}
	return n
}

var limitCases = []testCase{
	{name: "half-open/few jobs are carried", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 10)...)
		f.openBriefly()
		o := generous
		o.Limits.HalfOpenLimit = 2
		r := f.takeOnce(o)
		claims := r.Claims
		equal(f, "taken", len(claims), 2)
		f.comesFree(r, o)
		f.takeNone(o)
		f.settle(store.Applied, failed(claims[0], after(long)))
		f.takeUntil(1, o)
		f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("", urlA).Endpoint, store.CircuitClosed, 0))
		f.takeUntil(7, generous)
	}},
	{name: "half-open/the limit is the endpoint's", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 3)...)
		f.register(store.Created, many("u", 3)...)
		f.register(store.Created, many("t", 3, to(urlB), func(r *store.Registration) { r.Key.ID += "-b" })...)
		f.openBriefly()
		o := generous
		o.Limits.HalfOpenLimit, o.Limits.TopicLimits = 1, map[string]int{"u": 100}
		equal(f, "carried", perEndpoint(f.takeWith(o)), map[string]int{laneOf("", urlA).Endpoint: 1, laneOf("", urlB).Endpoint: 3})
	}},
	{name: "ramp/more jobs are carried second by second", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 100)...)
		f.openBriefly()
		before := f.now()
		f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("", urlA).Endpoint, store.CircuitClosed, 0))
		after := f.now()
		o := generous
		o.Limits.HalfOpenLimit = 2
		out := len(f.takeWith(o))
		equal(f, "carried at first", out >= 1 && out <= o.Limits.HalfOpenLimit, true)
		for step := range 2 {
			step++
			f.waitPast(after.Add(time.Duration(step) * time.Second))
			f.eventually("more are carried", func() bool {
				out += len(f.takeWith(o))
				return out >= o.Limits.HalfOpenLimit<<step
			})
			if most := o.Limits.HalfOpenLimit << (f.now().Sub(before) / time.Second); out > most {
				f.Fatalf("%d jobs are out, at most %d may be", out, most)
			}
		}
	}},
	{name: "ramp/it ends at the endpoint's limit", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 9)...)
		f.openBriefly()
		f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("", urlA).Endpoint, store.CircuitClosed, 0))
		o := generous
		o.Limits.HalfOpenLimit, o.Limits.EndpointLimit = 1, 3
		f.takeUntil(3, o)
		f.takeNone(o)
	}},
	{name: "ramp/a closed circuit needs none", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 9)...)
		f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("", urlA).Endpoint, store.CircuitClosed, 0))
		o := generous
		o.Limits.HalfOpenLimit = 1
		equal(f, "carried", len(f.takeWith(o)), 9)
	}},
	{name: "half-open/opening again ends it", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 3)...)
		f.openBriefly()
		f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("", urlA).Endpoint, store.CircuitOpen, long))
		f.takeNone(generous)
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
		equal(f, "carried", claimedKeys(f.take()), []string{"t/other"})
		r := f.takeOnce(generous)
		equal(f, "it says to wait", r.Wait > 0 && r.Wait <= long, true)

		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitClosed, 0))
		equal(f, "open circuits", f.depth().OpenCircuits, 0)
		f.takeUntil(8, generous)
	}},
	{name: "circuit/expired and retried jobs of an open circuit stay", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 3)...)
		o := generous
		o.Max = 2
		claims := f.takeOnce(o).Claims
		f.expire(generous)
		endpoint := laneOf("t", urlA).Endpoint
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitOpen, long))
		f.settle(store.Applied, failed(claims[0], always))
		f.settle(store.Applied, released(claims[1], 0))
		f.takeNone(generous)
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitClosed, 0))
		f.takeUntil(3, generous)
	}},
	{name: "circuit/an endpoint without jobs", options: Options{}, run: func(f *fixture) {
		endpoint := laneOf("t", urlA).Endpoint
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitClosed, 0))
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitOpen, long))
		equal(f, "open circuits", f.depth().OpenCircuits, 1)
		f.add(reg("t", "a"))
		f.takeNone(generous)
		f.update(job.Key{Topic: "t", ID: "a"}, cancel) // the lane goes, the circuit stays open
		f.add(reg("t", "a"))
		f.takeNone(generous)
	}},
	{name: "circuit/each endpoint on every shard", options: Options{Shards: 3}, run: func(f *fixture) {
		for i, url := range []string{urlA, urlB} {
			f.register(store.Created, many([]string{"t", "u"}[i], 20, to(url))...)
		}
		f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("t", urlA).Endpoint, store.CircuitOpen, long))
		for _, c := range f.take() {
			equal(f, "topic", c.Job.Topic, "u")
		}
		equal(f, "open circuits", f.depth().OpenCircuits, 1)
		f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("t", urlA).Endpoint, store.CircuitClosed, 0))
		f.takeUntil(20, generous)
	}},
}
