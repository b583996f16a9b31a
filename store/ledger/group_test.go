package ledger_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Changes of one job that are written in one transaction must come out as if
// each had been written by itself.
func TestRaceOneTransaction(t *testing.T) {
	register := func(policy job.OnConflict) func(r *rig) {
		return func(r *rig) {
			g := reg("a", time.Minute)
			g.OnConflict = policy
			r.Add(g)
		}
	}
	update := func(change func(*job.Job, job.Instant) error) func(r *rig) {
		return func(r *rig) { r.Change("a", change) }
	}
	take := func(r *rig) { r.TakeOne() }
	fail := func(retry time.Duration) func(r *rig) {
		return func(r *rig) { r.RunOne(job.OutcomeFailed, retry) }
	}
	later := update(runAt(job.When{Delay: time.Hour}))
	deliver := func(r *rig) { r.RunOne(job.OutcomeDelivered, 0) }
	for name, calls := range map[string][]func(r *rig){
		"registered, rescheduled":   {later},
		"registered, delivered":     {deliver},
		"claimed, and a cancel":     {take, update(cancel)},
		"failed, rescheduled":       {fail(time.Minute), later},
		"failed, cancelled":         {fail(time.Minute), update(cancel)},
		"failed, replaced":          {fail(time.Minute), register(job.ConflictReplace)},
		"failed, claimed":           {fail(0), take},
		"failed, claimed, failed":   {fail(0), take, func(r *rig) { r.SettleAll(settlement(r.Last, job.OutcomeFailed, time.Minute)) }},
		"failed, failed, delivered": {fail(0), fail(0), deliver},
		"delivered, replayed":       {deliver, update(replay)},
		"delivered, registered":     {deliver, register(job.ConflictReject)},
		"dead, replaced":            {fail(-1), register(job.ConflictReplace)},
		"dead, replayed":            {fail(-1), update(replay)},
	} {
		t.Run(name, onEach(func(t *testing.T, b *backend) {
			h, option := hook()
			r := freshRig(t, b, retention, option)
			makeWhole(t, h)
			var resume func()
			h.OnRegister = func(call func() ([]store.Registered, error)) ([]store.Registered, error) {
				h.OnRegister = nil
				res, err := call()
				resume = r.Pause() // before the commit
				return res, err
			}
			var wg sync.WaitGroup
			wg.Go(func() { r.Add(reg("a", 0)) })
			synctest.Wait()
			for _, call := range calls {
				wg.Go(func() { call(r) })
				synctest.Wait() // for its answer, or until it waits for the commit
			}
			resume()
			wg.Wait()
			restartLosesNothing(r)
			if r.Job("a").State == job.Running {
				r.SettleAll(settlement(r.Last, job.OutcomeFailed, time.Minute))
				restartLosesNothing(r)
			}
		}))
	}
}

// A call must not come between what the store does for another and the ledger
// hearing of it.
func TestRaceNothingComesBetween(t *testing.T) {
	later := func(r *rig) { r.Change("a", runAt(job.When{Delay: time.Hour})) }
	replacing := func(r *rig) {
		g := reg("a", 0)
		g.Spec.Body, g.OnConflict = []byte(`"other"`), job.ConflictReplace
		r.Add(g)
	}
	for name, c := range map[string]struct {
		before bool // there is a job
		call   func(r *rig)
		other  func(r *rig)
	}{
		"a claim between a registration and its commit": {false, func(r *rig) { r.Add(reg("a", 0)) }, func(r *rig) { r.TakeOne() }},
		"a claim between a replacement and its commit":  {true, replacing, func(r *rig) { r.TakeOne() }},
		"an update between a settlement and its commit": {true, func(r *rig) { r.RunOne(job.OutcomeFailed, time.Minute) }, later},
	} {
		t.Run(name, onEach(func(t *testing.T, b *backend) {
			h, option := hook()
			r := freshRig(t, b, retention, option)
			if c.before {
				r.Add(reg("a", 0))
			}
			var wg sync.WaitGroup
			meanwhile := func() {
				wg.Go(func() { c.other(r) })
				synctest.Wait()
			}
			h.OnRegister = func(call func() ([]store.Registered, error)) ([]store.Registered, error) {
				defer meanwhile()
				return call()
			}
			h.OnSettle = func(call func() ([]store.Settled, error)) ([]store.Settled, error) {
				defer meanwhile()
				return call()
			}
			c.call(r)
			wg.Wait()
			restartLosesNothing(r)
		}))
	}
}
