package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// waiting are generous terms of a call that waits for jobs.
func waiting(d time.Duration) store.TakeOptions {
	o := generous
	o.Wait = d
	return o
}

// whileWaiting makes a change while a call of Take waits, and returns what the call took.
func (f *fixture) whileWaiting(o store.TakeOptions, change func()) []store.Claimed {
	f.Helper()
	found := make(chan []store.Claimed, 1)
	go func() {
		taken, err := f.Store.(store.Taking).Take(f.ctx, 0, o)
		if err != nil {
			f.Errorf("Take: %v", err)
		}
		found <- taken.Claims
	}()
	f.waitPast(f.now().Add(short)) // so that it waits, most probably
	change()
	return <-found
}

// waitCases are asked of stores that take jobs at once: nobody has to carry while a call waits.
var waitCases = []testCase{
	{name: "wait/for the first", options: Options{}, run: func(f *fixture) {
		changes := map[string]func(){
			"registered": func() { f.add(reg("t", "registered")) },
			"put forward": func() {
				f.add(reg("t", "put forward", delay(long)))
				f.update(job.Key{Topic: "t", ID: "put forward"}, runNow)
			},
			"delayed": func() { f.add(reg("t", "delayed", delay(short))) },
			"resumed": func() {
				f.limit("paused", store.Limits{Paused: true})
				f.add(reg("paused", "resumed"))
				f.limit("paused", store.Limits{})
			},
			"closed": func() {
				endpoint := laneOf("t", urlB).Endpoint
				f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitOpen, long))
				f.add(reg("t", "closed", to(urlB)))
				f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitClosed, 0))
			},
		}
		for id, change := range changes {
			equal(f, id, idsOf(f.whileWaiting(waiting(patience), change)), []string{id})
		}
	}},
	{name: "wait/for a place, a retry and a lease", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Concurrency: 1})
		f.register(store.Created, many("t", 2)...)
		c := f.takeOne()
		next := f.whileWaiting(waiting(patience), func() { f.settle(store.Applied, delivered(c)) })
		equal(f, "taken when a place is free", len(next), 1)
		again := f.whileWaiting(waiting(patience), func() { f.settle(store.Applied, failed(next[0], after(short))) })
		equal(f, "retries", claimedKeys(again), claimedKeys(next))
		f.settle(store.Applied, delivered(again[0]))
		f.add(reg("t", "dies"))
		f.expire(generous)
		taken, err := f.Store.(store.Taking).Take(f.ctx, 0, waiting(patience))
		f.noError("Take", err)
		equal(f, "expired", idsOf(taken.Claims), []string{"dies"})
	}},
	{name: "wait/for jobs of pull queues", options: Options{}, run: func(f *fixture) {
		o := pulling(5, "t")
		o.Wait = patience
		equal(f, "pulled", idsOf(f.whileWaiting(o, func() { f.add(reg("t", "a", pulled, delay(short))) })), []string{"a"})
	}},
	{name: "wait/is none after its time", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a", delay(long)))
		for _, wait := range []time.Duration{0, short} {
			taken, err := f.Store.(store.Taking).Take(f.ctx, 0, waiting(wait))
			f.noError("Take", err)
			equal(f, "claims", taken.Claims, nil)
		}
	}},
	{name: "wait/ends with its context", options: Options{}, run: func(f *fixture) {
		ctx, cancel := context.WithCancel(f.ctx)
		result := make(chan error, 1)
		go func() {
			_, err := f.Store.(store.Taking).Take(ctx, 0, waiting(patience))
			result <- err
		}()
		f.waitPast(f.now().Add(short)) // so that it waits, most probably
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			f.Errorf("Take: %v, want context.Canceled", err)
		}
		f.add(reg("t", "a"))
		if _, err := f.Store.(store.Taking).Take(ctx, 0, waiting(patience)); !errors.Is(err, context.Canceled) {
			f.Errorf("Take: %v, want context.Canceled", err)
		}
		f.takeOne()
	}},
	{name: "wait/of many at once each job goes to one", options: Options{}, run: func(f *fixture) {
		const n, callers = 300, 4
		counts := make([]int, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				o := waiting(10 * short)
				o.Max = 7
				for {
					taken, err := f.Store.(store.Taking).Take(f.ctx, 0, o)
					if err != nil {
						f.Errorf("Take: %v", err)
						return
					}
					if len(taken.Claims) == 0 {
						return
					}
					counts[i] += len(taken.Claims)
				}
			})
		}
		f.register(store.Created, many("t", n)...)
		wg.Wait()
		total := len(f.take()) // should the callers have waited in vain
		for _, c := range counts {
			total += c
		}
		equal(f, "jobs", total, n)
	}},
}

// workers are generous terms for so many free workers.
func workers(free int, has map[string]int) store.TakeOptions {
	o := generous
	o.Max, o.Workers = free, &store.Workers{Free: free, Has: has}
	return o
}

// perTopic counts claims by topic.
func perTopic(claims []store.Claimed) map[string]int {
	n := map[string]int{}
	for _, c := range claims {
		n[c.Job.Topic]++
	}
	return n
}

var workerCases = []testCase{
	{name: "workers/a topic leaves some to others", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, toMany("big", 200)...)
		has := map[string]int{}
		add := func(o store.TakeOptions) map[string]int {
			f.Helper()
			got := map[string]int{}
			for range 20 { // a topic may wait for its share in between
				for topic, n := range perTopic(f.takeOnce(o).Claims) {
					got[topic] += n
					has[topic] += n
					o.Workers.Free -= n
					o.Max -= n
				}
				if o.Max == 0 {
					break
				}
				o.Workers.Has = has
			}
			return got
		}
		equal(f, "of 90 workers", add(workers(90, has)), map[string]int{"big": 80})
		for i := range 3 {
			f.register(store.Created, many(fmt.Sprintf("small%d", i), 1, to(urlB))...)
		}
		equal(f, "of 10", add(workers(10, has)), map[string]int{"small0": 1, "small1": 1, "small2": 1})
		has["big"] = 60 // 20 have ended
		equal(f, "of 27", add(workers(27, has)), map[string]int{"big": 17})
	}},
	{name: "workers/a topic without an attempt finds one", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 5)...)
		equal(f, "the last", len(f.takeOnce(workers(1, map[string]int{"other": 99})).Claims), 1)
		equal(f, "another one", len(f.takeOnce(workers(1, map[string]int{"t": 9})).Claims), 0)
		equal(f, "with more free ones", len(f.takeOnce(workers(8, map[string]int{"t": 9})).Claims) > 0, true)
	}},
	{name: "workers/by weight", options: Options{}, run: func(f *fixture) {
		f.limit("heavy", store.Limits{Weight: 100})
		f.register(store.Created, toMany("heavy", 300)...)
		f.register(store.Created, toMany("plain", 300)...)
		has := map[string]int{}
		o := workers(100, has)
		for range 20 {
			for topic, n := range perTopic(f.takeOnce(o).Claims) {
				has[topic] += n
				o.Workers.Free -= n
				o.Max -= n
			}
		}
		if has["heavy"] < 5*has["plain"] || has["plain"] == 0 {
			f.Errorf("taken %v with weights of 100 and %d", has, store.DefaultWeight)
		}
	}},
	{name: "workers/priorities hold", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, ofPriorities("t", mixed)...)
		equal(f, "taken", idsOf(f.takeOnce(workers(9, nil)).Claims), mixedInOrder[:8])
	}},
	{name: "workers/leases that expired take them, too", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 20)...)
		equal(f, "expired", len(f.expire(generous)), 20)
		equal(f, "taken", len(f.takeOnce(workers(9, nil)).Claims), 8)
	}},
	{name: "workers/a call waits while a lease that expired has none", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 1)...)
		equal(f, "expired", len(f.expire(generous)), 1)
		o := workers(1, map[string]int{"t": 9})
		o.Wait = short
		equal(f, "without a worker", len(f.takeOnce(o).Claims), 0)
		equal(f, "with one", len(f.takeOnce(workers(9, nil)).Claims), 1)
	}},
	{name: "workers/a call waits while a lease that expired has none, of a topic at its limit", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Concurrency: 1})
		f.register(store.Created, many("t", 2)...)
		equal(f, "expired", len(f.expire(generous)), 1)
		o := workers(1, map[string]int{"t": 9})
		o.Wait = short
		equal(f, "without a worker", len(f.takeOnce(o).Claims), 0)
		equal(f, "with one", len(f.takeOnce(workers(9, nil)).Claims), 1)
	}},
	{name: "workers/a topic whose receivers never answer delays no other", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, toMany("big", 2_000)...)
		has := map[string]int{"big": 88}
		for range 200 { // until all of its lanes wait
			f.takeOnce(workers(12, has))
			if len(f.takeOnce(workers(12, has)).Claims) == 0 {
				break
			}
		}
		f.add(reg("small", "a", to(urlB)))
		equal(f, "at once", perTopic(f.takeOnce(workers(12, has)).Claims)["small"], 1)
	}},
}
