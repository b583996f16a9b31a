package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Taking jobs. A test that is about a ready list is in carry.go; every other one takes jobs
// with the helpers here, which carry first if the store has a ready list.

// readyList is a store with a ready list: due jobs are carried there, popped and claimed.
type readyList interface {
	Carry(ctx context.Context, shard int, o store.CarryOptions) (store.CarryResult, error)
	Locker(shard int) store.Locker
	Pop(ctx context.Context, shard, limit int, wait time.Duration) ([]store.Hint, error)
	Claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error)
}

// readyList is the store's, in a test that is asked only of stores with one.
func (f *fixture) readyList() readyList {
	f.Helper()
	l, ok := f.Store.(readyList)
	if !ok {
		f.Fatal("the store has no ready list: Harness.ReadyList is wrong")
	}
	return l
}

// generous has every due job taken, and none again.
var generous = store.TakeOptions{
	Max: 10_000, Lease: long, LeaseMargin: 10 * time.Second, By: "storetest",
	Limits: store.FlightLimits{HalfOpenLimit: 10_000},
}

// takeFrom is one call of Take on a shard, after a round of the carrier if the store has a ready list.
func (f *fixture) takeFrom(shard int, o store.TakeOptions) store.Taken {
	f.Helper()
	if f.carries {
		return f.carryAndClaim(shard, o)
	}
	taken, err := f.Store.(store.Taking).Take(f.ctx, shard, o)
	f.noError("Take", err)
	return taken
}

// carryAndClaim takes from a store with a ready list. The wait is the carrier's.
func (f *fixture) carryAndClaim(shard int, o store.TakeOptions) store.Taken {
	f.Helper()
	l := f.readyList()
	r, err := l.Carry(f.ctx, shard, store.CarryOptions{Cap: o.Max, Visibility: long, FlightLimits: o.Limits, Pull: o.Pull})
	f.noError("Carry", err)
	var hints []store.Hint
	if o.Pull == nil {
		hints, err = l.Pop(f.ctx, shard, o.Max, 0)
		f.noError("Pop", err)
		hints = append(f.left[shard], hints...)
	} else {
		for _, c := range r.Carried {
			hints = append(hints, c.Hint)
		}
	}
	with := terms()
	with.Lease, with.LeaseMargin, with.By = o.Lease, o.LeaseMargin, o.By
	f.left[shard] = nil
	with.Left = func(hints []store.Hint) { f.left[shard] = hints } // perhaps twice
	claims, err := l.Claim(f.ctx, shard, hints, with)
	f.noError("Claim", err)
	return store.Taken{Claims: claims, Wait: r.Wait}
}

// takeOnce is one call of Take on a store with one shard.
func (f *fixture) takeOnce(o store.TakeOptions) store.Taken {
	f.Helper()
	return f.takeFrom(0, o)
}

// takeWith takes all that may go now, on all shards.
func (f *fixture) takeWith(o store.TakeOptions) []store.Claimed {
	f.Helper()
	var all []store.Claimed
	for shard := range f.Shards() {
		for range 1_000 {
			taken := f.takeFrom(shard, o)
			all = append(all, taken.Claims...)
			if len(taken.Claims) == 0 && (taken.Wait != 0 || f.carries) {
				break
			}
		}
	}
	return all
}

// take takes all that is due, on long terms.
func (f *fixture) take() []store.Claimed {
	f.Helper()
	return f.takeWith(generous)
}

// takeOne is take when exactly one job is due.
func (f *fixture) takeOne() store.Claimed {
	f.Helper()
	claims := f.take()
	if len(claims) != 1 {
		f.Fatalf("claimed %d jobs, want 1", len(claims))
	}
	return claims[0]
}

// takeNone expects that nothing may go.
func (f *fixture) takeNone(o store.TakeOptions) {
	f.Helper()
	equal(f, "taken", claimedKeys(f.takeWith(o)), nil)
}

// takeUntil takes until n jobs have been taken in all. A lane at its limit may be looked at again
// only after a moment.
func (f *fixture) takeUntil(n int, o store.TakeOptions) []store.Claimed {
	f.Helper()
	var all []store.Claimed
	f.eventually(fmt.Sprintf("%d jobs are taken", n), func() bool {
		all = append(all, f.takeWith(o)...)
		return len(all) >= n
	})
	equal(f, "number taken", len(all), n)
	return all
}

// takenUntil takes until n jobs have been taken, and returns them with when they were.
func (f *fixture) takenUntil(n int) (claims []store.Claimed, at []span) {
	f.Helper()
	f.eventually(fmt.Sprintf("%d jobs are taken", n), func() bool {
		during := span{first: f.now()}
		taken := f.take()
		during.last = f.now()
		for range taken {
			at = append(at, during)
		}
		claims = append(claims, taken...)
		return len(claims) >= n
	})
	equal(f, "number taken", len(claims), n)
	return claims, at
}

// expire takes what may go under the limits of o for a moment, and waits until the leases have expired.
func (f *fixture) expire(o store.TakeOptions) []store.Claimed {
	f.Helper()
	o.Lease = time.Millisecond
	var all []store.Claimed
	for shard := range f.Shards() {
		all = append(all, f.takeFrom(shard, o).Claims...)
	}
	for _, c := range all {
		f.waitPast(c.Now.Add(o.Lease))
	}
	return all
}

// expireOne is expire when exactly one job is due.
func (f *fixture) expireOne() store.Claimed {
	f.Helper()
	claims := f.expire(generous)
	if len(claims) != 1 {
		f.Fatalf("claimed %d jobs, want 1", len(claims))
	}
	return claims[0]
}

// ready has a store with a ready list put due jobs there. Others do nothing until jobs are taken.
// It returns the state that is shown of a job in the state from.
func (f *fixture) ready(from job.State) job.State {
	f.Helper()
	if !f.carries {
		return from
	}
	f.carry(carryOptions)
	return job.Ready
}

// fresh expects a claim of a job that nobody has.
func (f *fixture) fresh(c store.Claimed) {
	f.Helper()
	if !f.repeats && c.From == job.Running {
		f.Fatalf("%s was claimed from %s", c.Job.Key, c.From)
	}
}

// idsOf are the ids of claims in their order.
func idsOf(claims []store.Claimed) []string {
	ids := make([]string, len(claims))
	for i, c := range claims {
		ids[i] = c.Job.ID
	}
	return ids
}

// unlease ends the flight of a claim whose lease has expired: the job is carried again, or
// claimed again and released.
func (f *fixture) unlease(expired store.Claimed) {
	f.Helper()
	if f.carries {
		f.carry(carryOptions)
		f.pop()
		equal(f, "state", f.get(expired.Job.Key).State, job.Ready)
		return
	}
	f.settle(store.Applied, released(f.takeOne(), 0))
}

// wait is a call of Take that may wait.
func (f *fixture) wait(o store.TakeOptions) (store.Taken, error) {
	if t, ok := f.Store.(store.Taking); ok {
		return t.Take(f.ctx, 0, o)
	}
	_, err := f.readyList().Pop(f.ctx, 0, o.Max, o.Wait)
	return store.Taken{}, err
}
