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
func soon() store.TakeOptions {
	o := generous
	o.Lease, o.LeaseMargin, o.Limits.Longest, o.Limits.HalfOpenLimit = short, 0, short, 3
	return o
}

// right is the same with leases that last.
func right() store.TakeOptions {
	o := soon()
	o.Lease, o.Limits.Longest = long, long
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
		n := len(f.take())
		if n == 0 {
			f.Error("nothing was taken while the clock was ahead")
		}
		step(-jump)
		f.within(func() { f.takeUntil(10-n, generous) })
	}},
	{"a turn in the future is not told of", func(f *fixture, step func(time.Duration)) {
		f.limit("t", store.Limits{Rate: 100})
		f.register(store.Created, many("t", 10)...)
		step(jump)
		f.takeOnce(soon())
		step(-jump)
		equal(f, "next turn", f.outlook(job.Key{Topic: "t", ID: "job-9"}).NextByRate, 0)
	}},
	{"an endpoint with an open circuit is tried", func(f *fixture, step func(time.Duration)) {
		f.add(reg("t", "a"))
		step(jump)
		f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("t", urlA).Endpoint, store.CircuitOpen, time.Minute))
		f.takeNone(right())
		step(-jump)
		f.within(func() { f.takeUntil(1, right()) })
	}},
	{"an endpoint ramps up", func(f *fixture, step func(time.Duration)) {
		f.register(store.Created, many("t", 10)...)
		endpoint := laneOf("t", urlA).Endpoint
		step(jump)
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitOpen, time.Minute))
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitClosed, 0))
		step(-jump)
		f.within(func() { f.takeUntil(10, right()) })
	}},
	{"a lane at a limit is looked at", func(f *fixture, step func(time.Duration)) {
		f.register(store.Created, many("t", 2)...)
		step(jump)
		o := right()
		o.Limits.EndpointLimit = 1
		c := f.takeUntil(1, o)[0]
		step(-jump)
		f.settle(store.Applied, delivered(c))
		f.within(func() { f.takeUntil(1, o) })
	}},
	{"what was claimed is taken again", func(f *fixture, step func(time.Duration)) {
		f.register(store.Created, many("t", 4)...)
		f.add(reg("t", "later", delay(24*time.Hour)))
		step(jump)
		equal(f, "taken", len(f.takeOnce(soon()).Claims), 4)
		step(-jump)
		f.within(func() { f.takeOthers(4) })
		equal(f, "states", f.states("t"), map[job.State]int64{job.Waiting: 1, job.Running: 4})
	}},
	{"leases that a right clock gave last", func(f *fixture, step func(time.Duration)) {
		f.add(reg("t", "a"))
		c := f.takeUntil(1, right())[0]
		step(jump)
		step(-jump)
		f.takeNone(right())
		f.settle(store.Applied, delivered(c))
	}},
}

// takeOthers takes until so many jobs were, of which some may be taken again.
func (f *fixture) takeOthers(n int) {
	f.Helper()
	seen := map[job.Key]bool{}
	f.eventually("all are taken", func() bool {
		for _, c := range f.takeOnce(soon()).Claims {
			seen[c.Job.Key] = true
		}
		return len(seen) >= n
	})
}
