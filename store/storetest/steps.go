package storetest

import (
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Step sets a store's clock forward, or back. One whose clock cannot be set moves
// the times that it has stored the other way.
type Step func(t testing.TB, s store.Store, by time.Duration)

// RunSteps runs tests in which the store's clock jumps ahead, and back: what was
// stored meanwhile must stop nothing for the size of the jump.
func RunSteps(t *testing.T, h Harness, step Step) {
	for _, c := range stepCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h.run(t, func(t *testing.T) {
				f := h.open(t, Options{Retention: long}, false)
				f.noError("Ping", f.Ping(f.ctx))
				c.run(f, func(by time.Duration) { step(t, f.Store, by) })
			})
		})
	}
}

// jump is by how much clocks go wrong.
const jump = time.Hour

// soon has everything that a clock ahead put off be due within moments.
func soon() store.CarryOptions {
	o := carryOptions
	o.Visibility, o.Longest, o.HalfOpenLimit = short, short, 3
	return o
}

// within does what waits for the store's clock, and expects that it takes far less
// than the jump.
func (f *fixture) within(do func()) {
	f.Helper()
	began := f.now()
	do()
	if took := f.now().Sub(began); took > jump/2 {
		f.Errorf("it took %v", took)
	}
}

var stepCases = []struct {
	name string
	run  func(f *fixture, step func(by time.Duration))
}{
	{"a topic with a rate goes on", func(f *fixture, step func(time.Duration)) {
		f.limit("t", store.Limits{Rate: 100})
		f.register(store.Created, many("t", 10)...)
		step(jump)
		n := len(f.carry(carryOptions))
		if n == 0 {
			f.Error("nothing was carried while the clock was ahead")
		}
		step(-jump)
		f.within(func() { f.carryUntil(10-n, carryOptions) })
	}},
	{"a turn in the future is not told of", func(f *fixture, step func(time.Duration)) {
		f.limit("t", store.Limits{Rate: 100})
		f.register(store.Created, many("t", 10)...)
		step(jump)
		f.carry(soon())
		step(-jump)
		equal(f, "next turn", f.outlook(job.Key{Topic: "t", ID: "job-9"}).NextByRate, 0)
	}},
	{"an endpoint with an open circuit is tried", func(f *fixture, step func(time.Duration)) {
		f.add(reg("t", "a"))
		step(jump)
		f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("t", urlA).Endpoint, store.CircuitOpen, time.Minute))
		equal(f, "carried while open", f.carry(soon()), nil)
		step(-jump)
		f.within(func() { f.carryUntil(1, soon()) })
	}},
	{"an endpoint ramps up", func(f *fixture, step func(time.Duration)) {
		f.register(store.Created, many("t", 10)...)
		endpoint := laneOf("t", urlA).Endpoint
		step(jump)
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitOpen, time.Minute))
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitClosed, 0))
		step(-jump)
		o := soon()
		o.Visibility, o.Longest = long, long
		f.within(func() { f.carryUntil(10, o) })
	}},
	{"a lane at a limit is looked at", func(f *fixture, step func(time.Duration)) {
		f.register(store.Created, many("t", 2)...)
		step(jump)
		o := soon()
		o.EndpointLimit, o.Visibility, o.Longest = 1, long, long
		equal(f, "carried", len(f.carry(o)), 1)
		c := f.claim(f.pop(), terms())
		step(-jump)
		f.settle(store.Applied, delivered(c[0]))
		f.within(func() { f.carryUntil(1, o) })
	}},
	{"what was carried or claimed is carried again", func(f *fixture, step func(time.Duration)) {
		f.register(store.Created, many("t", 4)...)
		f.add(reg("t", "later", delay(24*time.Hour)))
		step(jump)
		equal(f, "carried", len(f.carry(soon())), 4)
		o := terms()
		o.Lease = short
		equal(f, "claimed", len(f.claim(f.pop()[:2], o)), 2)
		step(-jump)
		f.within(func() { f.carryOthers(4) })
		for key, n := range map[job.State]int64{job.Waiting: 1, job.Ready: 4} {
			equal(f, key.String(), f.states("t")[key], n)
		}
	}},
	{"leases that a right clock gave last", func(f *fixture, step func(time.Duration)) {
		f.add(reg("t", "a"))
		o := soon()
		o.Visibility, o.Longest = long, long
		f.carry(o)
		claims := f.claim(f.pop(), terms())
		step(jump)
		step(-jump)
		equal(f, "carried", f.carry(o), nil)
		f.settle(store.Applied, delivered(claims[0]))
	}},
}

// carryOthers carries until so many jobs were, of which some may be carried again.
func (f *fixture) carryOthers(n int) {
	f.Helper()
	seen := map[job.Key]bool{}
	f.eventually("all are carried", func() bool {
		for _, c := range f.carry(soon()) {
			seen[c.Hint.Key()] = true
		}
		return len(seen) >= n
	})
}
