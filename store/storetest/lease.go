package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

var claimCases = []testCase{
	{name: "claim/gives the job, a token and the time", options: Options{}, run: func(f *fixture) {
		r := reg("t", "a", biz("b"))
		was := f.add(r)
		before := f.now()
		claims := f.take()
		equal(f, "number of claims", len(claims), 1)
		c := claims[0]
		f.between("now", c.Now, before, f.now())
		f.fresh(c)
		equal(f, "state", c.Job.State, job.Running)
		equal(f, "spec", c.Job.Spec, r.Spec)
		equal(f, "uid", c.Job.UID, was.UID)
		equal(f, "due at", c.Job.DueAt, was.DueAt)
		equal(f, "expired leases", c.Job.ExpiredLeases, 0)
		equal(f, "token is set", c.Job.Token > was.Token, true)
		equal(f, "version", c.Job.Version, was.Version+1)
		f.between("updated at", c.Job.UpdatedAt, before, c.Now)
		equal(f, "the stored job", f.get(r.Key), c.Job)
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Running: 1})
		equal(f, "running jobs", keys(f.list(store.Query{States: stateOf(job.Running)})), []string{"t/a"})
	}},
	{name: "claim/in large batches", options: Options{Shards: 2}, run: func(f *fixture) {
		f.register(store.Created, many("t", 1_000)...)
		claims := f.take()
		equal(f, "claims", len(claims), 1_000)
		settlements := make([]job.Settlement, len(claims))
		for i, c := range claims {
			settlements[i] = delivered(c)
		}
		results, err := f.Settle(f.ctx, settlements)
		f.noError("Settle", err)
		equal(f, "results", len(results), len(settlements))
		for i, r := range results {
			equal(f, fmt.Sprintf("status %d", i), r.Status, store.Applied)
		}
		equal(f, "jobs left", f.sum("t"), 0)
	}},
	{name: "claim/all of large jobs, in several batches", options: Options{}, run: func(f *fixture) {
		const n = 20
		for i := range n {
			f.add(reg("t", fmt.Sprint(i), body(strings.Repeat("x", store.BatchBytes/4))))
		}
		equal(f, "claims", len(f.take()), n)
	}},
	{name: "claim/leaves large jobs to the next call", options: Options{}, run: func(f *fixture) {
		const large, small = 20, 40
		for n := range large {
			f.add(reg("large", fmt.Sprint(n), body(strings.Repeat("x", store.BatchBytes/4))))
		}
		f.register(store.Created, many("small", small)...)
		claimed := map[string]int{}
		for calls := 0; claimed["large"] < large || claimed["small"] < small; calls++ {
			bytes := 0
			for _, c := range f.takeOnce(generous).Claims {
				claimed[c.Job.Topic]++
				bytes += len(c.Job.Spec.Body)
			}
			if bytes > 4*store.BatchBytes || calls > 2*large {
				f.Fatalf("call %d: %d bytes, %v were claimed before", calls, bytes, claimed)
			}
			if calls == 1 {
				equal(f, "small jobs claimed by the first calls", claimed["small"], small)
			}
		}
	}},
}

var leaseCases = []testCase{
	{name: "lease/an expired one is counted and the token grows", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		first := f.expireOne()
		second := f.takeOne()
		f.from(second, job.Running)
		equal(f, "expired leases", second.Job.ExpiredLeases, 1)
		equal(f, "token grows", second.Job.Token > first.Job.Token, true)
		f.unchangedBy(failed(first, always))
	}},
	{name: "lease/those of a suspect are not counted by claims", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		for n := range job.SuspectAfter + 3 {
			equal(f, "expired leases", f.expireOne().Job.ExpiredLeases, min(n, job.SuspectAfter))
		}
	}},
	{name: "lease/a suspect is given up for expired leases that were charged", options: Options{}, run: func(f *fixture) {
		key := f.add(reg("t", "a")).Key
		for range job.SuspectAfter {
			f.expire(generous)
		}
		for {
			c := f.takeOne()
			f.from(c, job.Running)
			o := *c.Job.Before(c.From, c.Earlier, c.Now)
			if o.Kind == job.OutcomeLeaseExpired {
				equal(f, "settled to", f.settle(store.Applied, job.Settle(&c.Job, o, always)).To, job.Dead)
				break
			}
			equal(f, "reason", o.Reason, job.ReasonQuarantined)
			f.settle(store.Applied, released(c, 0)) // and not after o.After
			c = f.expireOne()
			equal(f, "before", c.Job.Before(c.From, c.Earlier, c.Now), nil)
			charged := f.update(key, func(j *job.Job, _ job.Instant) error { return j.ChargeExpiredLease(c.Job.Token) })
			equal(f, "expired leases", charged.ExpiredLeases, c.Job.ExpiredLeases+1)
			equal(f, "the stored job", f.get(key), charged)
		}
		j := f.get(key)
		equal(f, "reason", j.Reason, job.ReasonLeaseExpired)
		equal(f, "expired leases", j.ExpiredLeases, job.MaxExpiredLeases)
		equal(f, "attempts", j.Attempts, 0)
	}},
	{name: "lease/an outcome takes a charged expiry back", options: Options{}, run: func(f *fixture) {
		key := f.add(reg("t", "a")).Key
		for range job.SuspectAfter {
			f.expire(generous)
		}
		c := f.takeOne()
		charge := func(j *job.Job, _ job.Instant) error { return j.ChargeExpiredLease(c.Job.Token) }
		f.update(key, charge)
		f.settle(store.Applied, released(c, 0))
		equal(f, "expired leases after a release", f.get(key).ExpiredLeases, job.SuspectAfter)
		c = f.takeOne()
		f.update(key, charge)
		f.settle(store.Applied, failed(c, after(long)))
		j := f.get(key)
		equal(f, "expired leases after an attempt", j.ExpiredLeases, 0)
		equal(f, "attempts", j.Attempts, 1)
	}},
	{name: "lease/an outcome ends a row of expired leases", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.expire(generous)
		c := f.takeOne()
		f.settle(store.Applied, released(c, 0))
		equal(f, "expired leases after a release", f.get(c.Job.Key).ExpiredLeases, 1)
		c = f.takeOne()
		equal(f, "expired leases", c.Job.ExpiredLeases, 1)
		f.settle(store.Applied, failed(c, always))
		equal(f, "expired leases after an attempt", f.takeOne().Job.ExpiredLeases, 0)
	}},
	{name: "lease/of a job with a timeout", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "quick", timeout(time.Millisecond)))
		f.add(reg("t", "slow", timeout(long)))
		f.add(reg("t", "plain"))
		o := generous
		o.LeaseMargin = short
		claims := f.takeOnce(o).Claims
		f.waitPast(claims[len(claims)-1].Now.Add(short + time.Millisecond))
		equal(f, "expired with a long lease", claimedKeys(f.takeUntil(1, generous)), []string{"t/quick"})
	}},
	{name: "lease/a timeout outlasts a short lease", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "slow", timeout(long)))
		f.add(reg("t", "plain"))
		f.expire(generous)
		equal(f, "expired", claimedKeys(f.take()), []string{"t/plain"})
		f.takeNone(generous)
	}},
	{name: "lease/a late outcome counts until another claims", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 2)...)
		claims := f.expire(generous)
		f.settle(store.Applied, delivered(claims[0]))
		state := f.ready(job.Running)
		equal(f, "state", f.get(claims[1].Job.Key).State, state)
		done := f.settle(store.Applied, failed(claims[1], after(long)))
		equal(f, "settled to", done.To, job.Retrying)
		f.takeNone(generous)
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Retrying: 1})
	}},
	{name: "lease/tokens and versions only grow", options: Options{Retention: long}, run: func(f *fixture) {
		key := f.add(reg("t", "a")).Key
		var token, version uint64
		grows := func(j job.Job, tokenToo bool) {
			f.Helper()
			if j.Version <= version || j.Token < token || tokenToo && j.Token == token {
				f.Fatalf("token %d, version %d after %d, %d", j.Token, j.Version, token, version)
			}
			token, version = j.Token, j.Version
		}
		for range 5 {
			c := f.takeOne()
			grows(c.Job, true)
			f.settle(store.Applied, failed(c, always))
			grows(f.get(key), false)
			c = f.expireOne()
			grows(c.Job, true)
			grows(f.update(key, cancel), false)
			f.settle(store.Applied, failed(c, always))
			grows(f.get(key), false)
			grows(f.update(key, replay), false)
		}
	}},
}
