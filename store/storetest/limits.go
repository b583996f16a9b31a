package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

func (f *fixture) limit(topic string, l store.Limits) {
	f.Helper()
	f.noError("SetLimits", f.SetLimits(f.ctx, topic, l))
}

// outcomes registers, and gives what became of each.
func (f *fixture) outcomes(regs ...store.Registration) []store.RegisterOutcome {
	f.Helper()
	results, err := f.Register(f.ctx, regs)
	f.noError("Register", err)
	out := make([]store.RegisterOutcome, len(results))
	for i := range results {
		out[i] = results[i].Outcome
	}
	return out
}

// span is a time between two looks at the clock: what happened, happened from first to last.
type span struct{ first, last job.Instant }

// most is the largest number of jobs that were carried for certain within any window of that
// length. A machine that is busy makes spans longer, and so never more of them certain.
func most(at []span, window time.Duration) int {
	best := 0
	for i := range at {
		n := i
		for n < len(at) && at[n].last.Sub(at[i].first) < window {
			n++
		}
		best = max(best, n-i)
	}
	return best
}

var settingCases = []testCase{
	{name: "limits/what is set is given", options: Options{Shards: 3}, run: func(f *fixture) {
		all := store.Limits{Paused: true, PausedUntil: f.now().Add(time.Hour), Draining: true, Capacity: 7, Rate: 2.5, Concurrency: 4, Weight: 20}
		f.limit("t", all)
		f.limit("u", store.Limits{Rate: 50})
		f.limit("gone", store.Limits{Capacity: 1})
		f.limit("gone", store.Limits{})
		f.limit("never", store.Limits{})
		got, err := f.Limits(f.ctx)
		f.noError("Limits", err)
		equal(f, "limits", got, map[string]store.Limits{"t": all, "u": {Rate: 50}})
		f.limit("t", store.Limits{Weight: 5})
		got, err = f.Limits(f.ctx)
		f.noError("Limits", err)
		equal(f, "limits", got, map[string]store.Limits{"t": {Weight: 5}, "u": {Rate: 50}})
	}},
	{name: "limits/outlook", options: Options{}, run: func(f *fixture) {
		l := store.Limits{Rate: 1.0 / 3600, Concurrency: 9}
		f.limit("t", l)
		f.register(store.Created, many("t", 3)...)
		f.register(store.Created, reg("t", "elsewhere", to(urlB), delay(long)))
		equal(f, "taken", len(f.take()), 1)
		o := f.outlook(job.Key{Topic: "t", ID: "elsewhere"})
		equal(f, "limits", o.Limits, l)
		equal(f, "topic out", o.TopicInFlight, 1)
		if wait := o.NextByRate.Sub(o.Now); wait <= 0 || wait > long {
			f.Errorf("the next job may go in %v", wait)
		}
	}},
}

var pauseCases = []testCase{
	{name: "pause/nothing is taken, until it ends", options: Options{Shards: 2}, run: func(f *fixture) {
		f.limit("t", store.Limits{Paused: true})
		f.register(store.Created, many("t", 5)...)
		f.register(store.Created, many("t", 5, to(urlB), func(r *store.Registration) { r.Key.ID += "-b" })...)
		f.add(reg("u", "free"))
		equal(f, "taken", claimedKeys(f.take()), []string{"u/free"})
		for shard := range f.Shards() {
			equal(f, "it says to wait", f.takeFrom(shard, generous).Wait != 0, true)
		}
		f.limit("t", store.Limits{})
		f.takeUntil(10, generous)
	}},
	{name: "pause/one with a time ends by itself", options: Options{Shards: 2}, run: func(f *fixture) {
		until := f.now().Add(500 * time.Millisecond)
		f.limit("t", store.Limits{Paused: true, PausedUntil: until})
		f.register(store.Created, many("t", 5)...)
		for _, c := range f.takeUntil(5, generous) {
			equal(f, "taken when the time had come", c.Now >= until, true)
		}
	}},
	{name: "pause/attempts under way end as ever", options: Options{Retention: long}, run: func(f *fixture) {
		f.register(store.Created, many("t", 2)...)
		claims := f.take()
		f.limit("t", store.Limits{Paused: true})
		f.settle(store.Applied, delivered(claims[0]))
		f.settle(store.Applied, failed(claims[1], always))
		f.takeNone(generous)
		f.limit("t", store.Limits{})
		f.takeUntil(1, generous)
	}},
	{name: "pause/an expired lease waits, too", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.expire(generous)
		f.limit("t", store.Limits{Paused: true})
		f.takeNone(generous)
		f.limit("t", store.Limits{})
		f.takeUntil(1, generous)
	}},
}

var capacityCases = []testCase{
	{name: "capacity/no more than that are unfinished", options: Options{Retention: long}, run: func(f *fixture) {
		f.limit("t", store.Limits{Capacity: 2})
		a, b, c := reg("t", "a"), reg("t", "b"), reg("t", "c")
		equal(f, "outcomes", f.outcomes(a, b, c, reg("u", "c")),
			[]store.RegisterOutcome{store.Created, store.Created, store.TopicFull, store.Created})
		f.notFound(c.Key)
		// What is there already is no more.
		again, other := a, reg("t", "a", body("other"))
		again.UID = newUID()
		equal(f, "outcomes of the same keys", f.outcomes(again, other), []store.RegisterOutcome{store.Same, store.Exists})
		f.register(store.Created, reg("t", "b", body("other"), onConflict(job.ConflictReplace)))
		f.update(a.Key, cancel)
		equal(f, "outcomes when one has ended", f.outcomes(c, reg("t", "d")),
			[]store.RegisterOutcome{store.Created, store.TopicFull})
		equal(f, "outcome for a key that has ended", f.outcomes(reg("t", "a", body("anew"))),
			[]store.RegisterOutcome{store.TopicFull})
		equal(f, "state", f.get(a.Key).State, job.Cancelled)
	}},
	{name: "capacity/a job that has ended is not sent again", options: Options{Retention: long}, run: func(f *fixture) {
		key := f.end(reg("t", "a"), job.Dead).Key
		f.limit("t", store.Limits{Capacity: 1})
		f.add(reg("t", "b", delay(long)))
		j, err := f.Update(f.ctx, key, replay)
		f.isError("Update", err, store.ErrTopicFull)
		equal(f, "state", j.State, job.Dead)
		f.update(job.Key{Topic: "t", ID: "b"}, later) // of one that is unfinished it asks nothing
		f.update(job.Key{Topic: "t", ID: "b"}, cancel)
		equal(f, "state", f.update(key, replay).State, job.Waiting)
	}},
	{name: "capacity/what was there before stays", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 3)...)
		f.limit("t", store.Limits{Capacity: 1})
		equal(f, "outcome", f.outcomes(reg("t", "more")), []store.RegisterOutcome{store.TopicFull})
		equal(f, "taken", len(f.take()), 3)
	}},
	{name: "capacity/drain", options: Options{Retention: long}, run: func(f *fixture) {
		key := f.end(reg("t", "dead"), job.Dead).Key
		f.add(reg("t", "a"))
		f.limit("t", store.Limits{Draining: true})
		equal(f, "outcomes", f.outcomes(reg("t", "b"), reg("u", "b")),
			[]store.RegisterOutcome{store.TopicDraining, store.Created})
		_, err := f.Update(f.ctx, key, replay)
		f.isError("Update", err, store.ErrTopicDraining)
		equal(f, "outcome in the place of a dead letter", f.outcomes(reg("t", "dead", onConflict(job.ConflictReplace))),
			[]store.RegisterOutcome{store.TopicDraining})
		f.update(job.Key{Topic: "u", ID: "b"}, cancel)
		f.settle(store.Applied, delivered(f.takeOne()))
		f.limit("t", store.Limits{})
		f.add(reg("t", "b"))
	}},
	{name: "capacity/parts of shards add up", options: Options{Shards: 3}, run: func(f *fixture) {
		f.limit("t", store.Limits{Capacity: 7})
		created := 0
		for i := range 200 {
			if f.outcomes(reg("t", fmt.Sprint(i), delay(long)))[0] == store.Created {
				created++
			}
		}
		equal(f, "created", created, 7)
	}},
}

var concurrencyCases = []testCase{
	{name: "concurrency/of all endpoints together", options: Options{Retention: long}, run: func(f *fixture) {
		f.limit("t", store.Limits{Concurrency: 3})
		f.register(store.Created, many("t", 4)...)
		f.register(store.Created, many("t", 4, to(urlB), func(r *store.Registration) { r.Key.ID += "-b" })...)
		f.register(store.Created, many("u", 4)...)
		claims := f.take()
		perTopic := map[string]int{}
		for _, c := range claims {
			perTopic[c.Job.Topic]++
		}
		equal(f, "out", perTopic, map[string]int{"t": 3, "u": 4})
		claims = slices.DeleteFunc(claims, func(c store.Claimed) bool { return c.Job.Topic != "t" })
		for done := 1; len(claims) > 0; done++ {
			f.settle(store.Applied, delivered(claims[0]))
			claims = append(claims[1:], f.takeUntil(min(1, max(0, 8-done-2)), generous)...)
		}
	}},
	{name: "concurrency/places are called for", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Concurrency: 1})
		f.register(store.Created, many("t", 3)...)
		f.register(store.Created, many("t", 3, to(urlB), func(r *store.Registration) { r.Key.ID += "-b" })...)
		r := f.takeOnce(generous)
		claims := r.Claims
		for r.Wait == 0 {
			r = f.takeOnce(generous)
			claims = append(claims, r.Claims...)
		}
		if r.Wait < time.Second {
			f.Errorf("a topic without a place is looked at again after %v", r.Wait)
		}
		ends := []func(store.Claimed){
			func(c store.Claimed) { f.settle(store.Applied, delivered(c)) },
			func(c store.Claimed) { f.settle(store.Applied, failed(c, after(long))) },
			func(c store.Claimed) { f.settle(store.Applied, released(c, long)) },
		}
		for _, end := range ends {
			equal(f, "claimed", len(claims), 1)
			end(claims[0])
			claims = f.takeUntil(1, generous)
		}
		f.limit("t", store.Limits{Concurrency: 2})
		f.takeUntil(1, generous)
	}},
	{name: "concurrency/an expired lease keeps its place", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Concurrency: 1})
		f.register(store.Created, many("t", 3)...)
		expired := f.expire(generous)
		equal(f, "taken", claimedKeys(f.takeUntil(1, generous)), claimedKeys(expired))
		f.takeNone(generous)
	}},
	{name: "concurrency/a lane's own limit is called for", options: Options{}, run: func(f *fixture) {
		o := generous
		o.Limits.TopicLimits = map[string]int{"t": 1}
		f.register(store.Created, many("t", 2)...)
		f.settle(store.Applied, delivered(f.takeWith(o)[0]))
		f.takeUntil(1, o)
	}},
}

var rateCases = []testCase{
	{name: "rate/evenly spread, over all endpoints", options: Options{}, run: func(f *fixture) {
		const rate, jobs = 50, 60
		f.limit("t", store.Limits{Rate: rate})
		f.register(store.Created, many("t", jobs/2)...)
		f.register(store.Created, many("t", jobs/2, to(urlB), func(r *store.Registration) { r.Key.ID += "-b" })...)
		began := f.now()
		_, at := f.takenUntil(jobs)
		slack := int(rules.PaceSlack.Seconds() * rate)
		if n := most(at, 200*time.Millisecond); n > 200*rate/1000+slack+2 {
			f.Errorf("%d jobs within 200 ms at %d/s", n, rate)
		}
		if took := at[jobs-1].last.Sub(began); took < (jobs-1)*time.Second/rate-rules.PaceSlack {
			f.Errorf("%d jobs at %d/s within %v", jobs, rate, took)
		}
	}},
	{name: "rate/other topics go on", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Rate: 1.0 / 3600})
		f.register(store.Created, many("t", 3)...)
		f.register(store.Created, many("u", 5)...)
		equal(f, "carried", len(f.take()), 6)
	}},
	{name: "rate/the wait is until the next may go", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Rate: 0.02})
		f.register(store.Created, many("t", 2)...)
		equal(f, "carried", len(f.take()), 1)
		r := f.takeOnce(generous)
		equal(f, "taken", len(r.Claims), 0)
		if r.Wait <= 0 || r.Wait > 50*time.Second {
			f.Errorf("it says to wait %v, want at most 50s", r.Wait)
		}
		f.limit("t", store.Limits{Rate: 100})
		f.takenUntil(1)
	}},
	{name: "rate/a rest saves nothing up", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Rate: 5})
		f.add(reg("t", "first"))
		f.takenUntil(1)
		f.waitPast(f.now().Add(time.Second))
		f.register(store.Created, many("t", 5)...)
		_, at := f.takenUntil(5)
		if took := at[4].last.Sub(at[0].first); took < 4*200*time.Millisecond-4*rules.PaceSlack {
			f.Errorf("after a rest five jobs went within %v at 5/s", took)
		}
	}},
	{name: "rate/a fast one goes by several at a time", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Rate: 100_000})
		f.register(store.Created, many("t", 300)...)
		f.takenUntil(300)
	}},
	{name: "rate/beside a concurrency", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Rate: 1000, Concurrency: 2})
		f.register(store.Created, many("t", 5)...)
		claims, _ := f.takenUntil(2)
		f.takeNone(generous)
		f.settle(store.Applied, delivered(claims[0]))
		f.takenUntil(1)
	}},
}

var weightCases = []testCase{
	{name: "weight/a heavier topic gets more of the room", options: Options{}, run: func(f *fixture) {
		f.limit("heavy", store.Limits{Weight: 100})
		f.register(store.Created, many("heavy", 400)...)
		f.register(store.Created, many("plain", 400, to(urlB))...)
		o := generous
		o.Max = 110
		got := map[string]int{}
		for _, c := range f.takeOnce(o).Claims {
			got[c.Job.Topic]++
		}
		if got["heavy"] <= 2*got["plain"] {
			f.Errorf("carried %v with weights of 100 and %d", got, store.DefaultWeight)
		}
	}},
}
