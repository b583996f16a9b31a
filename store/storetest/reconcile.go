package storetest

import (
	"errors"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

func (f *fixture) restorable() store.Restorable {
	f.Helper()
	s, ok := f.Store.(store.Restorable)
	if !ok {
		f.Fatal("the store is not a store.Restorable")
	}
	return s
}

func (f *fixture) standings(keys ...job.Key) []store.Standing {
	f.Helper()
	all, err := f.restorable().Standings(f.ctx, keys)
	f.noError("Standings", err)
	return all
}

func (f *fixture) swapEpoch(epoch, whole string) []string {
	f.Helper()
	before, err := f.restorable().SwapEpoch(f.ctx, epoch, whole)
	f.noError("SwapEpoch", err)
	if len(before) != f.Shards() {
		f.Fatalf("%d epochs for %d shards", len(before), f.Shards())
	}
	return before
}

// over is a job to be restored over old.
func over(r store.RestoredJob, old job.Job) store.RestoredJob {
	s := store.StandingOf(&old)
	r.Over = &s
	return r
}

var restorableCases = []testCase{
	{name: "standings/of many jobs", options: Options{Retention: long, Shards: 3}, run: func(f *fixture) {
		keys := make([]job.Key, 300)
		want := make([]store.Standing, len(keys))
		regs := many("t", len(keys)/2)
		for i, j := range f.register(store.Created, regs...) {
			keys[2*i], want[2*i] = j.Key, store.StandingOf(&j)
			keys[2*i+1] = job.Key{Topic: "none", ID: j.ID}
		}
		equal(f, "standings", f.standings(keys...), want)
		equal(f, "exists", want[0].Exists(), true)
		equal(f, "exists", want[1].Exists(), false)
		equal(f, "no standings", f.standings(), nil)
	}},
	{name: "standings/of a job on its way", options: Options{Retention: long}, run: func(f *fixture) {
		j := f.add(reg("t", "a"))
		same := func(what string, want job.State) {
			f.Helper()
			got, now := f.standings(j.Key)[0], f.get(j.Key)
			equal(f, what, got, store.StandingOf(&now))
			equal(f, what, got.State, want)
		}
		same("waiting", job.Waiting)
		f.carry(carryOptions)
		same("ready", job.Waiting)
		c := f.claim(f.pop(), terms())[0]
		same("running", job.Running)
		f.settle(store.Applied, failed(c, after(0)))
		same("retrying", job.Retrying)
		f.settle(store.Applied, delivered(f.takeOne()))
		same("delivered", job.Delivered)
	}},
	{name: "epoch/of each shard", options: Options{Shards: 3}, run: func(f *fixture) {
		for _, before := range f.swapEpoch("one", "") {
			if !f.repeats {
				equal(f, "the first epoch", before, "")
			}
		}
		for _, before := range f.swapEpoch("two", "") {
			if !f.repeats || before != "two" {
				equal(f, "the epoch before", before, "one")
			}
		}
	}},
	{name: "epoch/jobs with order keys wait until the shard is whole", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a", ordered("k")))
		f.add(reg("t", "plain"))
		await, claims := carryOptions, terms()
		await.AwaitWhole, claims.AwaitWhole = true, true
		whole := func() bool { return f.outlook(job.Key{Topic: "t", ID: "a"}).Whole }
		equal(f, "a new shard is whole", whole(), false)
		equal(f, "carried", len(f.carry(await)), 1)
		equal(f, "claimed", claimedKeys(f.claim(f.pop(), claims)), []string{"t/plain"})
		f.eventually("others carry it", func() bool { return len(f.carry(carryOptions)) == 1 })
		equal(f, "claimed then", claimedKeys(f.claim(f.pop(), claims)), nil)
		equal(f, "it waits again", f.get(job.Key{Topic: "t", ID: "a"}).State, job.Waiting)
		equal(f, "its carrier looks again", f.Shards() > 1 || f.outlook(job.Key{Topic: "t", ID: "a"}).Look <= f.now(), true)
		f.swapEpoch("one", "")
		f.swapEpoch("two", "another")
		equal(f, "with another epoch", whole(), false)
		f.eventually("the shard is whole", func() bool {
			f.swapEpoch("two", "two")
			return whole()
		})
		var taken []store.Claimed
		f.eventually("it goes", func() bool {
			f.carry(await)
			taken = f.claim(f.pop(), claims)
			return len(taken) > 0
		})
		equal(f, "at last", claimedKeys(taken), []string{"t/a"})
		f.swapEpoch("three", "")
		equal(f, "whole without an epoch", whole(), false)
	}},
	{name: "epoch/a shard that is not whole refuses claims", options: Options{}, run: func(f *fixture) {
		j := f.add(reg("t", "a"))
		f.carry(carryOptions)
		hint, only := f.pop()[0], terms()
		only.OnlyWhole = true
		refused := func(what string) {
			f.Helper()
			if _, err := f.Claim(f.ctx, hint.shard, []store.Hint{hint.Hint}, only); !errors.Is(err, store.ErrNotWhole) {
				f.Fatalf("%s: %v, want ErrNotWhole", what, err)
			}
		}
		refused("a new shard")
		f.swapEpoch("one", "")
		refused("an epoch alone")
		equal(f, "what a refusal leaves", f.get(j.Key).Version, j.Version)
		f.swapEpoch("one", "one")
		f.swapEpoch("one", "one")
		equal(f, "claimed of a whole shard", claimedKeys(f.claim([]popped{hint}, only)), []string{"t/a"})
	}},
	{name: "restorable/of a closed store", closes: true, run: func(f *fixture) {
		s := f.restorable()
		f.noError("Close", s.Close())
		_, err := s.Standings(f.ctx, []job.Key{{Topic: "t", ID: "a"}})
		f.unavailable("Standings", err)
		_, err = s.SwapEpoch(f.ctx, "one", "")
		f.unavailable("SwapEpoch", err)
		_, err = s.Restore(f.ctx, []store.RestoredJob{{Job: restorable("t", "a", job.Waiting)}})
		f.unavailable("Restore", err)
	}},
}

var restoreOverCases = []testCase{
	{name: "restore/over what stands there", options: Options{Retention: long}, run: func(f *fixture) {
		for _, from := range job.States {
			for _, to := range job.States {
				f.restoreOver(from, to)
			}
		}
		equal(f, "jobs", f.sum("t"), int64(len(job.States)*len(job.States)))
	}},
	{name: "restore/not over anything else", options: Options{Retention: long}, run: func(f *fixture) {
		j := f.add(reg("t", "a", delay(long)))
		fresh := store.RestoredJob{Job: restorable("t", "a", job.Waiting)}
		older := j
		older.Version--
		f.restore(0, over(fresh, older))
		other := j
		other.UID = newUID()
		f.restore(0, over(fresh, other))
		equal(f, "the job", f.get(j.Key), j)
		f.restore(1, store.RestoredJob{Job: restorable("t", "b", job.Waiting), Over: &store.Standing{UID: newUID(), Version: 1}})
	}},
	{name: "restore/over a claim takes it away", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		c := f.takeOne()
		j := restorable("t", "a", job.Retrying)
		j.UID, j.Token, j.NextAt = c.Job.UID, c.Job.Token, c.Now.Add(long)
		f.restore(1, over(store.RestoredJob{Job: j}, c.Job))
		f.settle(store.Stale, delivered(c))
		equal(f, "claims", len(f.take()), 0)
		equal(f, "depth", f.depth().States[job.Running], int64(0))
		equal(f, "the job", f.get(j.Key), j)
	}},
}

// restoreOver brings a job into a state and restores another over it.
func (f *fixture) restoreOver(from, to job.State) {
	f.Helper()
	id := from.String() + "-" + to.String()
	first := restorable("t", id, from)
	first.Spec.BizKey = "first"
	if from == job.Ready || from == job.Running {
		f.add(reg("t", id, biz("first")))
		f.carry(carryOptions)
		if from == job.Running {
			f.claim(f.pop(), terms())
		}
		first = f.get(first.Key)
	} else {
		f.restore(1, store.RestoredJob{Job: first})
	}
	want := restorable("t", id, to)
	want.Spec.Destination, want.Spec.BizKey, want.Version = urlB, "second", 20
	if !to.Final() {
		want.NextAt = f.now().Add(long)
		want.DueAt = want.NextAt
	}
	f.restore(1, over(store.RestoredJob{Job: want}, first))
	if !to.Final() {
		want.State = want.Pending()
	}
	equal(f, "the job", f.get(want.Key), want)
	equal(f, "by the old biz_key", len(f.list(store.Query{BizKey: "first", Limit: 100})), 0)
	equal(f, "by state", len(f.list(store.Query{States: []job.State{want.State}, BizKey: "second", Limit: 1000})) > 0, true)
	equal(f, "jobs due", len(f.take()), 0)
}
