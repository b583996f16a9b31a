package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// hintCases are asked only of stores with a ready list.
var hintCases = []testCase{
	{name: "claim/of nothing", options: Options{}, run: func(f *fixture) {
		equal(f, "claims", f.claim(nil, terms()), nil)
		claims, err := f.readyList().Claim(f.ctx, 0, nil, terms())
		f.noError("Claim", err)
		equal(f, "claims", claims, nil)
	}},
	{name: "claim/leaves out what it may not have", options: Options{Retention: long}, run: func(f *fixture) {
		hint := func(topic, id, url string) popped { return popped{Hint: store.Hint{Lane: laneOf(topic, url), ID: id}} }
		var refused []popped
		for _, state := range finals {
			f.end(reg("t", state.String()), state)
			refused = append(refused, hint("t", state.String(), urlA))
		}
		f.add(reg("t", "retrying"))
		f.settle(store.Applied, failed(f.takeOne(), after(long)))
		f.add(reg("t", "running"))
		f.takeOne()
		f.add(reg("t", "later", delay(long)))
		f.add(reg("t", "moved"))
		f.update(job.Key{Topic: "t", ID: "moved"}, respecify(func(s *job.Spec) { s.Destination = urlB }))
		refused = append(refused, hint("t", "retrying", urlA), hint("t", "running", urlA), hint("t", "later", urlA),
			hint("t", "moved", urlA), hint("t", "missing", urlA), hint("u", "moved", urlB), hint("", "", ""))
		equal(f, "claimed", claimedKeys(f.claim(refused, terms())), nil)

		f.add(reg("t", "good"))
		mixed := append([]popped{hint("t", "good", urlA)}, refused...)
		mixed = append(mixed, hint("t", "moved", urlB))
		equal(f, "claimed", claimedKeys(f.claim(mixed, terms())), []string{"t/good", "t/moved"})
	}},
	{name: "claim/a hint that came many times gives one claim", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.carry(carryOptions)
		hints := slices.Repeat(f.pop(), 1_200) // more than a store claims at once
		o := terms()
		equal(f, "claimed", claimedKeys(f.claim(hints, o)), []string{"t/a"})
		equal(f, "claimed again", claimedKeys(f.claim(hints, o)), []string{"t/a"})
	}},
	{name: "claim/an older hint serves while the job is due", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.carry(carryOptions)
		hints := f.pop()
		c := f.claim(hints, terms())[0]
		f.settle(store.Applied, failed(c, always))
		claims := f.claim(hints, terms()) // due again, though not carried
		equal(f, "claimed", claimedKeys(claims), []string{"t/a"})
		f.from(claims[0], job.Retrying)
		equal(f, "carried", f.carry(carryOptions), nil)
	}},
	{name: "claim/repeated with its nonce gives the same", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 3)...)
		f.carry(carryOptions)
		hints := f.pop()
		o := terms()
		first := f.claim(hints, o)
		equal(f, "number of claims", len(first), 3)
		again := f.claim(hints, o)
		equal(f, "jobs claimed again", jobsOf(again), jobsOf(first))
		equal(f, "the stored job", f.get(first[0].Job.Key), first[0].Job)
		equal(f, "claims with another nonce", f.claim(hints, terms()), nil)

		f.settle(store.Applied, delivered(first[1]))
		again = f.claim(hints, o)
		equal(f, "jobs claimed again", jobsOf(again), []job.Job{first[0].Job, first[2].Job})
	}},
	{name: "claim/leaves what would make the answer too large", options: Options{}, run: func(f *fixture) {
		const large, small = 20, 40
		for n := range large {
			f.add(reg("large", fmt.Sprint(n), body(strings.Repeat("x", store.BatchBytes/4))))
		}
		f.register(store.Created, many("small", small)...)
		f.carry(carryOptions)
		hints := f.pop()
		claimed := map[string]int{}
		for call := 0; len(hints) > 0; call++ {
			var left []popped
			o := terms()
			o.Left = func(hints []store.Hint) {
				left = nil // it may have been called twice
				for _, h := range hints {
					left = append(left, popped{Hint: h})
				}
			}
			bytes := 0
			claims := f.claim(hints, o)
			for _, c := range claims {
				claimed[c.Job.Topic]++
				bytes += len(c.Job.Spec.Body)
			}
			if bytes > 4*store.BatchBytes || len(claims) == 0 || len(claims)+len(left) != len(hints) {
				f.Fatalf("call %d: %d hints, %d claims of %d bytes, %d left", call, len(hints), len(claims), bytes, len(left))
			}
			if call == 0 {
				equal(f, "small jobs claimed by the first call", claimed["small"], small)
			}
			hints = left
		}
		equal(f, "large jobs claimed", claimed["large"], large)
	}},
	{name: "claim/of many at once one gets the job", options: Options{}, run: func(f *fixture) {
		const n, callers = 50, 4
		f.register(store.Created, many("t", n)...)
		f.carry(carryOptions)
		var hints []store.Hint
		for _, h := range f.pop() {
			hints = append(hints, h.Hint)
		}
		var mu sync.Mutex
		claimed := map[string]int{}
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				claims, err := f.readyList().Claim(f.ctx, 0, hints, terms())
				if err != nil {
					f.Errorf("Claim: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, c := range claims {
					claimed[c.Job.ID]++
				}
			})
		}
		wg.Wait()
		equal(f, "jobs claimed", len(claimed), n)
		for id, times := range claimed {
			equal(f, "claims of "+id, times, 1)
		}
	}},
	{name: "lease/a repetition after it has expired is a new claim and does not count", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.carry(carryOptions)
		hints := f.pop()
		o := terms()
		o.Lease = short
		first := f.claim(hints, o)[0]
		f.waitPast(first.Now.Add(short))
		second := f.claim(hints, o)[0]
		equal(f, "token grows", second.Job.Token > first.Job.Token, true)
		f.from(second, job.Ready)
		equal(f, "expired leases", second.Job.ExpiredLeases, 0)
		f.waitPast(second.Now.Add(short))
		o = terms()
		third := f.claim(hints, o)[0]
		f.from(third, job.Running)
		equal(f, "expired leases", third.Job.ExpiredLeases, 1)
	}},
	{name: "lease/an expired one is counted and the token grows", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.carry(carryOptions)
		hints := f.pop()
		first := f.expireLeases(hints)[0]
		second := f.claim(hints, terms())[0] // by the older hint, before it is carried
		f.from(second, job.Running)
		equal(f, "expired leases", second.Job.ExpiredLeases, 1)
		equal(f, "token grows", second.Job.Token > first.Job.Token, true)
		equal(f, "attempts", second.Job.Attempts, 0)
		equal(f, "the stored job", f.get(second.Job.Key), second.Job)
		f.unchangedBy(delivered(first))
		f.settle(store.Applied, delivered(second))
	}},
	{name: "lease/a late outcome counts until another claims", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 2)...)
		f.carry(carryOptions)
		hints := f.pop()
		claims := f.expireLeases(hints)
		f.settle(store.Applied, delivered(claims[0])) // expired, not carried again
		f.carry(carryOptions)
		equal(f, "state", f.get(claims[1].Job.Key).State, job.Ready)
		done := f.settle(store.Applied, failed(claims[1], after(long))) // carried again
		equal(f, "settled to", done.To, job.Retrying)
		equal(f, "claimed by the hint left over", f.claim(f.pop(), terms()), nil)
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Retrying: 1})
		equal(f, "carried", f.carry(carryOptions), nil)
	}},
}

func jobsOf(claims []store.Claimed) []job.Job {
	jobs := make([]job.Job, len(claims))
	for i, c := range claims {
		jobs[i] = c.Job
	}
	return jobs
}
