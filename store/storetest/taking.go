package storetest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// many is n registrations due now.
func many(topic string, n int, with ...func(*store.Registration)) []store.Registration {
	regs := make([]store.Registration, n)
	for i := range regs {
		regs[i] = reg(topic, fmt.Sprintf("job-%d", i), with...)
	}
	return regs
}

// toMany is registrations due now, each with an endpoint of its own.
func toMany(topic string, n int) []store.Registration {
	regs := many(topic, n)
	for i := range regs {
		regs[i].Spec.Destination = job.Destination(fmt.Sprintf("http://%d.example:8080/hook", i))
	}
	return regs
}

// waitIs expects a result of Take whose Wait ends at due; the call was made
// after the store's time before.
func (f *fixture) waitIs(r store.Taken, due, before job.Instant) {
	f.Helper()
	after := f.now()
	if r.Wait < due.Sub(after) || r.Wait > due.Sub(before) {
		f.Fatalf("wait is %v, want %v to %v", r.Wait, due.Sub(after), due.Sub(before))
	}
}

// comesFree expects that a lane at a limit is looked at again before long. On a slow machine,
// that time may pass within the call.
func (f *fixture) comesFree(r store.Taken, o store.TakeOptions) {
	f.Helper()
	for try := 0; r.Wait == 0 && try < 100; try++ {
		r = f.takeOnce(o)
		equal(f, "taken at the limit", len(r.Claims), 0)
	}
	equal(f, "a place may soon be free", r.Wait > 0 && r.Wait <= 100*time.Millisecond, true)
}

var takeCases = []testCase{
	{name: "take/a delay passes", options: Options{}, run: func(f *fixture) {
		j := f.add(reg("t", "a", delay(short)))
		f.waitPast(j.DueAt)
		equal(f, "taken", claimedKeys(f.take()), []string{"t/a"})
	}},
	{name: "take/not what is leased", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.takeOne()
		f.takeNone(generous)
	}},
	{name: "take/a job whose TTL ends before it is due", options: Options{}, run: func(f *fixture) {
		j := f.add(reg("t", "a", delay(long), ttl(short)))
		f.waitPast(j.ExpiresAt)
		c := f.takeOne()
		equal(f, "before", c.Job.Before(c.From, c.Earlier, c.Now), &job.Outcome{Kind: job.OutcomeExpired})
		equal(f, "next at", c.Job.NextAt, j.NextAt)
	}},
	{name: "take/tells how long nothing is due", options: Options{}, run: func(f *fixture) {
		equal(f, "nothing waits", f.takeOnce(generous).Wait < 0, true)
		before := f.now()
		far := f.add(reg("t", "far", delay(2*long)))
		f.waitIs(f.takeOnce(generous), far.DueAt, before)
		near := f.add(reg("t", "near", delay(long)))
		f.waitIs(f.takeOnce(generous), near.DueAt, before)
		other := f.add(reg("u", "nearer", delay(long-time.Minute), to(urlB)))
		f.waitIs(f.takeOnce(generous), other.DueAt, before)
		expiring := f.add(reg("t", "expiring", delay(long), ttl(30*time.Minute)))
		f.waitIs(f.takeOnce(generous), expiring.ExpiresAt, before)
		sooner := f.update(far.Key, func(j *job.Job, now job.Instant) error {
			return j.Reschedule(job.When{Delay: time.Minute}, now)
		})
		f.waitIs(f.takeOnce(generous), sooner.DueAt, before)
		// After a job was taken away or put off, a look too early does no harm.
		for _, key := range []job.Key{expiring.Key, other.Key, near.Key} {
			f.update(key, cancel)
		}
		far = f.update(far.Key, func(j *job.Job, now job.Instant) error {
			return j.Reschedule(job.When{Delay: 2 * long}, now)
		})
		r := f.takeOnce(generous)
		equal(f, "taken", claimedKeys(r.Claims), nil)
		equal(f, "it waits no longer than until the last", r.Wait > 0 && r.Wait <= far.DueAt.Sub(before), true)
	}},
	{name: "take/a topic's limit counts what is in flight", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 10)...)
		f.register(store.Created, many("t", 2, to(urlB), biz("b"), func(r *store.Registration) { r.Key.ID += "-b" })...)
		o := generous
		o.Limits.TopicLimits = map[string]int{"t": 3}
		r := f.takeOnce(o)
		claims := r.Claims
		lanes := map[job.Lane]int{}
		for _, c := range claims {
			lanes[c.Job.Lane()]++
		}
		equal(f, "taken", lanes, map[job.Lane]int{laneOf("t", urlA): 3, laneOf("t", urlB): 2})
		f.comesFree(r, o)
		f.takeNone(o)
		for _, c := range claims {
			if c.Job.Lane() != laneOf("t", urlA) {
				continue
			}
			f.settle(store.Applied, delivered(c))
			equal(f, "lane", f.takeUntil(1, o)[0].Job.Lane(), laneOf("t", urlA))
			f.takeNone(o)
		}
		f.takeUntil(4, generous) // without a limit, the rest
	}},
	{name: "take/a retry frees its place under the limit", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 4)...)
		o := generous
		o.Limits.EndpointLimit = 2
		for _, c := range f.takeWith(o) {
			f.settle(store.Applied, failed(c, after(long)))
		}
		f.takeUntil(2, o)
	}},
	{name: "take/an endpoint's limit counts all its lanes", options: Options{}, run: func(f *fixture) {
		for _, topic := range []string{"t", "u", "v"} {
			f.register(store.Created, many(topic, 10)...)
		}
		f.register(store.Created, many("t", 2, to(urlB), func(r *store.Registration) { r.Key.ID += "-b" })...)
		o := generous
		o.Limits.EndpointLimit = 5
		r := f.takeOnce(o)
		claims := r.Claims
		f.comesFree(r, o)
		equal(f, "taken", perEndpoint(claims), map[string]int{laneOf("", urlA).Endpoint: 5, laneOf("", urlB).Endpoint: 2})
		f.takeNone(o)

		// Each end of an attempt gives a place back.
		ends := []job.Settlement{delivered(claims[0]), failed(claims[1], after(long)), released(claims[2], long)}
		left := 25
		for i, c := range claims[:3] {
			f.settle(store.Applied, ends[i])
			if c.Job.Lane().Endpoint == laneOf("", urlA).Endpoint {
				f.takeUntil(1, o)
				left--
			}
			f.takeNone(o)
		}
		f.takeUntil(left, generous) // without a limit, the rest
	}},
	{name: "take/a job whose lease expired keeps its place under the limit", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 4)...)
		o := generous
		o.Limits.EndpointLimit = 2
		expired := f.expire(o)
		claims := f.takeUntil(2, o)
		equal(f, "taken again", claimedKeys(claims), claimedKeys(expired))
		f.takeNone(o)
		for _, c := range claims {
			f.settle(store.Applied, delivered(c))
		}
		f.takeUntil(2, o)
	}},
	{name: "take/a topic's limit below and above the endpoint's", options: Options{}, run: func(f *fixture) {
		for _, topic := range []string{"small", "t", "big"} {
			f.register(store.Created, many(topic, 20)...)
		}
		o := generous
		o.Limits.EndpointLimit, o.Limits.TopicLimits = 6, map[string]int{"small": 2, "big": 15}
		topics := map[string]int{}
		for _, c := range f.takeUntil(15, o) {
			topics[c.Job.Topic]++
		}
		f.takeNone(o)
		if topics["small"] > 2 || topics["t"] > 6 || topics["big"] > 15 || topics["small"]+topics["t"] > 6 {
			f.Fatalf("taken beyond the limits: %v", topics)
		}
	}},
	{name: "take/lanes of an endpoint at its limit take turns", options: Options{}, run: func(f *fixture) {
		for _, topic := range []string{"a", "b", "c"} {
			f.register(store.Created, many(topic, 20)...)
		}
		o := generous
		o.Limits.EndpointLimit = 1
		turns := map[string]int{}
		for range 40 {
			c := f.takeUntil(1, o)[0]
			turns[c.Job.Topic]++
			f.settle(store.Applied, delivered(c))
		}
		least := 12
		if f.carries { // a carrier visits lanes that are due at one time in the order of their names
			least = 2
		}
		for _, topic := range []string{"a", "b", "c"} {
			if turns[topic] < least {
				f.Fatalf("the lanes' turns: %v", turns)
			}
		}
	}},
	{name: "take/jobs whose leases expired come back although their lane is at its limits", options: Options{}, run: func(f *fixture) {
		// The backlog was due long before the leases expired.
		f.register(store.Created, many("t", 600)...)
		o := generous
		o.Limits.EndpointLimit, o.Limits.TopicLimits = 4, map[string]int{"t": 4}
		expired := claimedKeys(f.expire(o))
		equal(f, "number expired", len(expired), 4)
		claims := f.takeUntil(4, o)
		equal(f, "taken again", claimedKeys(claims), expired)
		for _, c := range claims {
			f.from(c, job.Running)
		}
	}},
	{name: "take/takes turns between lanes", options: Options{}, run: func(f *fixture) {
		for i := range 4 {
			f.register(store.Created, many(fmt.Sprintf("big%d", i), 1_000)...)
		}
		f.waitPast(f.now()) // the small lanes are due after the big ones
		f.register(store.Created, many("small", 5)...)
		f.register(store.Created, many("small2", 5, to(urlB))...)
		o := generous
		o.Max = 200
		small, taken := 0, 0
		for small < 10 {
			for _, c := range f.takeOnce(o).Claims {
				taken++
				if strings.HasPrefix(c.Job.Topic, "small") {
					small++
				}
			}
			if taken > 2_500 {
				f.Fatalf("%d jobs of the big lanes were taken before those of the small ones", taken)
			}
		}
	}},
	{name: "take/up to so many", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, toMany("t", 7)...)
		o := generous
		o.Max = 3
		for _, want := range []int{3, 3, 1, 0} {
			equal(f, "taken", len(f.takeOnce(o).Claims), want)
		}
	}},
	{name: "take/waits for leases, too", options: Options{}, run: func(f *fixture) {
		key := f.add(reg("t", "a")).Key
		o := generous
		o.Lease = long / 2
		c := f.takeOnce(o).Claims[0]
		r := f.takeOnce(o)
		equal(f, "it waits for the lease", r.Wait > 0 && r.Wait <= o.Lease, true)
		done := f.settle(store.Applied, failed(c, after(long/4)))
		f.waitIs(f.takeOnce(o), done.NextAt, done.Now)
		f.update(key, cancel)
		equal(f, "nothing waits", f.takeOnce(o).Wait < 0, true)
	}},
	{name: "take/a cancel in flight frees its place when it ends", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 3)...)
		o := generous
		o.Limits.EndpointLimit = 1
		c := f.takeWith(o)[0]
		f.update(c.Job.Key, cancel)
		f.takeNone(o)
		f.settle(store.Applied, failed(c, always))
		f.takeUntil(1, o)
	}},
	{name: "take/any number of callers take each job once", options: Options{Shards: 2}, run: func(f *fixture) {
		const n = 500
		for i := range 5 {
			f.register(store.Created, many(fmt.Sprintf("t%d", i), n/5)...)
		}
		var mu sync.Mutex
		var all []store.Claimed
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				o := generous
				o.Max = 30
				claims := f.takeWith(o)
				mu.Lock()
				defer mu.Unlock()
				all = append(all, claims...)
			})
		}
		wg.Wait()
		all = append(all, f.take()...) // should one have met another
		equal(f, "taken", len(all), n)
		seen := map[string]bool{}
		for _, c := range all {
			seen[c.Job.Key.String()] = true
		}
		equal(f, "jobs", len(seen), n)
	}},
}
