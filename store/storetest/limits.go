package storetest

import (
	"fmt"
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
		equal(f, "carried", len(f.carry(carryOptions)), 1)
		o := f.outlook(job.Key{Topic: "t", ID: "elsewhere"})
		equal(f, "limits", o.Limits, l)
		equal(f, "topic out", o.TopicInFlight, 1)
		if wait := o.NextByRate.Sub(o.Now); wait <= 0 || wait > long {
			f.Errorf("the next job may go in %v", wait)
		}
	}},
}

var pauseCases = []testCase{
	{name: "pause/nothing is carried, until it ends", options: Options{Shards: 2}, run: func(f *fixture) {
		f.limit("t", store.Limits{Paused: true})
		f.register(store.Created, many("t", 5)...)
		f.register(store.Created, many("t", 5, to(urlB), func(r *store.Registration) { r.Key.ID += "-b" })...)
		f.add(reg("u", "free"))
		equal(f, "carried", carriedKeys(f.carry(carryOptions)), []string{"u/free"})
		for shard := range f.Shards() {
			r, err := f.Carry(f.ctx, shard, carryOptions)
			f.noError("Carry", err)
			equal(f, "it says to wait", r.Wait != 0, true)
		}
		f.limit("t", store.Limits{})
		f.carryUntil(10, carryOptions)
	}},
	{name: "pause/what was carried is given back", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a", ttl(long)))
		f.add(reg("t", "b"))
		f.carry(carryOptions)
		hints := f.pop()
		before := f.get(job.Key{Topic: "t", ID: "a"})
		equal(f, "state", before.State, job.Ready)
		f.limit("t", store.Limits{Paused: true})
		equal(f, "claimed", f.claim(hints, terms()), nil)
		after := f.get(before.Key)
		before.State = job.Waiting
		equal(f, "the job", after, before)
		equal(f, "out", f.outlook(before.Key).TopicInFlight, 0)
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Waiting: 2})
		equal(f, "carried", f.carry(carryOptions), nil)
		f.limit("t", store.Limits{})
		f.carryUntil(2, carryOptions)
		equal(f, "claimed", len(f.claim(f.pop(), terms())), 2)
	}},
	{name: "pause/one with a time ends by itself", options: Options{Shards: 2}, run: func(f *fixture) {
		until := f.now().Add(500 * time.Millisecond)
		f.limit("t", store.Limits{Paused: true, PausedUntil: until})
		f.register(store.Created, many("t", 5)...)
		f.carryUntil(5, carryOptions)
		equal(f, "carried when the time had come", f.now() >= until, true)
		equal(f, "claimed", len(f.claim(f.pop(), terms())), 5)
	}},
	{name: "pause/what was carried is claimed when its time has come", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.carry(carryOptions)
		hints := f.pop()
		until := f.now().Add(time.Millisecond)
		f.limit("t", store.Limits{Paused: true, PausedUntil: until})
		f.waitPast(until)
		equal(f, "claimed", len(f.claim(hints, terms())), 1)
	}},
	{name: "pause/a retry that was carried is given back as one", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.settle(store.Applied, failed(f.takeOne(), always))
		f.carry(carryOptions)
		f.limit("t", store.Limits{Paused: true})
		equal(f, "claimed", f.claim(f.pop(), terms()), nil)
		equal(f, "state", f.get(job.Key{Topic: "t", ID: "a"}).State, job.Retrying)
	}},
	{name: "pause/attempts under way end as ever", options: Options{Retention: long}, run: func(f *fixture) {
		f.register(store.Created, many("t", 2)...)
		claims := f.take()
		f.limit("t", store.Limits{Paused: true})
		f.settle(store.Applied, delivered(claims[0]))
		f.settle(store.Applied, failed(claims[1], always))
		equal(f, "carried", f.carry(carryOptions), nil)
		f.limit("t", store.Limits{})
		f.carryUntil(1, carryOptions)
	}},
	{name: "pause/an expired lease waits, too", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.carry(carryOptions)
		f.expireLeases(f.pop())
		f.limit("t", store.Limits{Paused: true})
		equal(f, "carried", f.carry(carryOptions), nil)
		f.limit("t", store.Limits{})
		f.carryUntil(1, carryOptions)
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
		equal(f, "carried", len(f.carry(carryOptions)), 3)
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
		f.carry(carryOptions)
		claims := f.claim(f.pop(), terms())
		perTopic := map[string]int{}
		for _, c := range claims {
			perTopic[c.Job.Topic]++
		}
		equal(f, "out", perTopic, map[string]int{"t": 3, "u": 4})
		done := 0
		for done < 8 {
			for _, c := range claims {
				if c.Job.Topic != "t" {
					continue
				}
				f.settle(store.Applied, delivered(c))
				done++
				f.carryUntil(min(1, max(0, 8-done-2)), carryOptions) // looked at since the place came free
			}
			claims = f.claim(f.pop(), terms())
		}
	}},
	{name: "concurrency/places are called for", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Concurrency: 1})
		f.register(store.Created, many("t", 3)...)
		f.register(store.Created, many("t", 3, to(urlB), func(r *store.Registration) { r.Key.ID += "-b" })...)
		r := f.carryOnce(carryOptions)
		for r.Wait == 0 {
			r = f.carryOnce(carryOptions)
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
			claims := f.claim(f.pop(), terms())
			equal(f, "claimed", len(claims), 1)
			end(claims[0])
			f.carryUntil(1, carryOptions)
		}
		// A cancel of one that is out frees its place, too.
		hints := f.pop()
		f.update(hints[0].Key(), cancel)
		f.carryUntil(1, carryOptions)
		f.limit("t", store.Limits{Concurrency: 2})
		f.carryUntil(1, carryOptions)
	}},
	{name: "concurrency/an expired lease keeps its place", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Concurrency: 1})
		f.register(store.Created, many("t", 3)...)
		f.carry(carryOptions)
		expired := f.expireLeases(f.pop())
		f.carryUntil(1, carryOptions)
		claims := f.claim(f.pop(), terms())
		equal(f, "claimed", claimedKeys(claims), claimedKeys(expired))
		equal(f, "carried", f.carry(carryOptions), nil)
	}},
	{name: "concurrency/only what was carried is claimed", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Concurrency: 1})
		f.register(store.Created, many("t", 2)...)
		f.carry(carryOptions)
		hints := f.pop()
		other := hints[0]
		for _, r := range many("t", 2) {
			if r.Key != other.Key() {
				other.ID = r.Key.ID
			}
		}
		equal(f, "claimed", len(f.claim([]popped{other}, terms())), 0)
		equal(f, "claimed", len(f.claim(hints, terms())), 1)
	}},
	{name: "concurrency/a lane's own limit is called for", options: Options{}, run: func(f *fixture) {
		o := carryOptions
		o.TopicLimits = map[string]int{"t": 1}
		f.register(store.Created, many("t", 2)...)
		f.carry(o)
		f.settle(store.Applied, delivered(f.claim(f.pop(), terms())[0]))
		f.carryUntil(1, o)
	}},
}

// hintsUntil carries until there have been n hints, and gives them with when they
// came. Unlike the results of Carry it misses none of a call that was repeated.
func (f *fixture) hintsUntil(n int) (hints []popped, at []span) {
	f.Helper()
	f.eventually(fmt.Sprintf("there are %d hints", n), func() bool {
		during := span{first: f.now()}
		f.carry(carryOptions)
		during.last = f.now()
		for _, h := range f.pop() {
			hints, at = append(hints, h), append(at, during)
		}
		return len(hints) >= n
	})
	equal(f, "number of hints", len(hints), n)
	return hints, at
}

var rateCases = []testCase{
	{name: "rate/evenly spread, over all endpoints", options: Options{}, run: func(f *fixture) {
		const rate, jobs = 50, 60
		f.limit("t", store.Limits{Rate: rate})
		f.register(store.Created, many("t", jobs/2)...)
		f.register(store.Created, many("t", jobs/2, to(urlB), func(r *store.Registration) { r.Key.ID += "-b" })...)
		began := f.now()
		_, at := f.hintsUntil(jobs)
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
		equal(f, "carried", len(f.carry(carryOptions)), 6)
	}},
	{name: "rate/the carrier is told when the next may go", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Rate: 0.02})
		f.register(store.Created, many("t", 2)...)
		equal(f, "carried", len(f.carry(carryOptions)), 1)
		r := f.carryOnce(carryOptions)
		equal(f, "carried", len(r.Carried), 0)
		if r.Wait <= 0 || r.Wait > 50*time.Second {
			f.Errorf("it says to wait %v, want at most 50s", r.Wait)
		}
		f.pop()
		f.limit("t", store.Limits{Rate: 100})
		f.hintsUntil(1)
	}},
	{name: "rate/a rest saves nothing up", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Rate: 5})
		f.add(reg("t", "first"))
		f.hintsUntil(1)
		f.waitPast(f.now().Add(time.Second))
		f.register(store.Created, many("t", 5)...)
		_, at := f.hintsUntil(5)
		if took := at[4].last.Sub(at[0].first); took < 4*200*time.Millisecond-4*rules.PaceSlack {
			f.Errorf("after a rest five jobs went within %v at 5/s", took)
		}
	}},
	{name: "rate/a fast one goes by several at a time", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Rate: 100_000})
		f.register(store.Created, many("t", 300)...)
		f.hintsUntil(300)
	}},
	{name: "rate/beside a concurrency", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Rate: 1000, Concurrency: 2})
		f.register(store.Created, many("t", 5)...)
		hints, _ := f.hintsUntil(2)
		equal(f, "carried beyond that", f.carry(carryOptions), nil)
		f.settle(store.Applied, delivered(f.claim(hints, terms())[0]))
		f.hintsUntil(1)
	}},
}

var weightCases = []testCase{
	{name: "weight/a heavier topic gets more of the room", options: Options{}, run: func(f *fixture) {
		f.limit("heavy", store.Limits{Weight: 100})
		f.register(store.Created, many("heavy", 400)...)
		f.register(store.Created, many("plain", 400, to(urlB))...)
		o := carryOptions
		o.Cap = 110
		got := map[string]int{}
		for _, c := range f.carry(o) {
			got[c.Hint.Lane.Topic]++
		}
		if got["heavy"] <= 2*got["plain"] {
			f.Errorf("carried %v with weights of 100 and %d", got, store.DefaultWeight)
		}
	}},
}
