package storetest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// carryOnce is one call of Carry on a store with one shard.
func (f *fixture) carryOnce(o store.CarryOptions) store.CarryResult {
	f.Helper()
	r, err := f.Carry(f.ctx, 0, o)
	f.noError("Carry", err)
	return r
}

// carryUntil carries until n jobs have been carried in all. A lane at its
// limit may be looked at again only after a moment.
func (f *fixture) carryUntil(n int, o store.CarryOptions) []store.Carried {
	f.Helper()
	var all []store.Carried
	f.eventually(fmt.Sprintf("%d jobs are carried", n), func() bool {
		all = append(all, f.carry(o)...)
		return len(all) >= n
	})
	equal(f, "number carried", len(all), n)
	return all
}

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

// waitIs expects a result of Carry whose Wait ends at due; the call was made
// after the store's time before.
func (f *fixture) waitIs(r store.CarryResult, due, before job.Instant) {
	f.Helper()
	after := f.now()
	if r.Wait < due.Sub(after) || r.Wait > due.Sub(before) {
		f.Fatalf("wait is %v, want %v to %v", r.Wait, due.Sub(after), due.Sub(before))
	}
}

// comesFree expects that a lane at a limit is looked at again before long. On a slow machine,
// that time may pass within the call.
func (f *fixture) comesFree(r store.CarryResult, o store.CarryOptions) {
	f.Helper()
	equal(f, "full", r.Full, false)
	for try := 0; r.Wait == 0 && try < 100; try++ {
		r = f.carryOnce(o)
		equal(f, "carried at the limit", len(r.Carried), 0)
	}
	equal(f, "a place may soon be free", r.Wait > 0 && r.Wait <= 100*time.Millisecond, true)
}

var carryCases = []testCase{
	{name: "carry/moves what is due, and leaves it in its bucket", options: Options{}, run: func(f *fixture) {
		due := f.add(reg("t", "due"))
		f.add(reg("t", "later", delay(long)))
		r := f.carryOnce(carryOptions)
		equal(f, "carried", r.Carried, []store.Carried{
			{Hint: store.Hint{Lane: laneOf("t", urlA), ID: "due"}, From: job.Waiting},
		})
		j := f.get(due.Key)
		equal(f, "state", j.State, job.Ready)
		equal(f, "version", j.Version, due.Version)
		equal(f, "updated at", j.UpdatedAt, due.UpdatedAt)
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Waiting: 1, job.Ready: 1})
		equal(f, "hints", f.depth().ReadyList, 1)
		equal(f, "ready jobs", keys(f.list(store.Query{States: stateOf(job.Ready)})), []string{"t/due"})
		equal(f, "carried again", f.carry(carryOptions), nil)
	}},
	{name: "carry/a delay passes", options: Options{}, run: func(f *fixture) {
		j := f.add(reg("t", "a", delay(short)))
		f.waitPast(j.DueAt)
		equal(f, "carried", carriedKeys(f.carry(carryOptions)), []string{"t/a"})
	}},
	{name: "carry/tells the states that jobs come from", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "retrying"))
		f.settle(store.Applied, failed(f.takeOne(), always))
		f.add(reg("t", "waiting"))
		states := map[string]job.State{}
		for _, c := range f.carry(carryOptions) {
			states[c.Hint.ID] = c.From
		}
		equal(f, "from", states, map[string]job.State{"retrying": job.Retrying, "waiting": job.Waiting})
	}},
	{name: "carry/again when nobody claims in time", options: Options{}, run: func(f *fixture) {
		key := f.add(reg("t", "a")).Key
		o := carryOptions
		o.Visibility = short
		f.carry(o)
		hints := f.pop() // and lost
		f.waitPast(f.now().Add(short))
		carried := f.carry(carryOptions)
		equal(f, "carried again", carried, []store.Carried{{Hint: hints[0].Hint, From: job.Ready}})
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Ready: 1})
		claims := f.claim(append(hints, f.pop()...), terms())
		equal(f, "claimed", claimedKeys(claims), []string{key.String()})
		equal(f, "expired leases", claims[0].Job.ExpiredLeases, 0)
	}},
	{name: "carry/again when a lease expires", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.carry(carryOptions)
		c := f.expireLeases(f.pop())[0]
		carried := f.carry(carryOptions)
		equal(f, "carried", carried, []store.Carried{{Hint: store.Hint{Lane: c.Job.Lane(), ID: "a"}, From: job.Running}})
		j := f.get(c.Job.Key)
		equal(f, "state", j.State, job.Ready)
		equal(f, "version", j.Version, c.Job.Version)
		equal(f, "token", j.Token, c.Job.Token)
	}},
	{name: "carry/not what is leased", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.takeOne()
		equal(f, "carried", f.carry(carryOptions), nil)
	}},
	{name: "carry/a job whose TTL ends before it is due", options: Options{}, run: func(f *fixture) {
		j := f.add(reg("t", "a", delay(long), ttl(short)))
		f.waitPast(j.ExpiresAt)
		c := f.takeOne()
		equal(f, "before", c.Job.Before(c.From, c.Earlier, c.Now), &job.Outcome{Kind: job.OutcomeExpired})
		equal(f, "next at", c.Job.NextAt, j.NextAt)
	}},
	{name: "carry/no more of a topic than it may have hints", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 10)...)
		o := carryOptions
		o.Cap = 3
		equal(f, "carried", len(f.carryOnce(o).Carried), 3)
		r := f.carryOnce(o)
		equal(f, "carried beyond", len(r.Carried), 0)
		equal(f, "a claim calls the carrier, and nothing else", r.Wait > time.Second, true)
		equal(f, "hints", f.depth().ReadyList, 3)
		hints := f.pop()
		equal(f, "carried while nobody claims", f.carry(o), nil)
		claims := f.claim(hints[:2], terms())
		f.carryUntil(2, o)
		f.settle(store.Applied, delivered(claims[0]))
		equal(f, "carried after an end", f.carry(o), nil)
		f.update(hints[2].Key(), cancel)
		f.carryUntil(1, o)
		for left := 4; left > 0; {
			f.claim(f.pop(), terms())
			left -= len(f.carry(o))
		}
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Ready: 1, job.Running: 7})
	}},
	{name: "carry/a topic leaves room for others", options: Options{}, run: func(f *fixture) {
		o := carryOptions
		o.Cap = 20
		f.register(store.Created, toMany("big", 200)...)
		f.carryUntil(20, o)
		for i := range 3 {
			f.register(store.Created, many(fmt.Sprintf("small%d", i), 2, to(urlB))...)
		}
		f.carryUntil(6, o)
		f.register(store.Created, toMany("other", 200)...)
		f.carryUntil(7, o) // as many as stay free
		for r := f.carryOnce(o); r.Wait == 0; r = f.carryOnce(o) {
			equal(f, "carried with all hints taken", r.Carried, nil)
		}
		for i := range 20 {
			f.add(reg("late", fmt.Sprint(i), to(urlB)))
		}
		f.carryUntil(3, o)
	}},
	{name: "carry/weights are shares of the hints", options: Options{}, run: func(f *fixture) {
		f.limit("heavy", store.Limits{Weight: 3 * store.DefaultWeight})
		f.register(store.Created, toMany("light", 150)...)
		f.register(store.Created, toMany("heavy", 150)...)
		o := carryOptions
		o.Cap = 25
		sent := map[string]int{}
		for round := range 4 {
			f.carry(o)
			hints := f.pop()
			for _, h := range hints {
				if round > 0 { // the light topic came first
					sent[h.Lane.Topic]++
				}
			}
			f.claim(hints, terms())
		}
		if light, heavy := sent["light"], sent["heavy"]; 2*heavy < 3*light || heavy > 4*light {
			f.Fatalf("carried %d of the light topic and %d of the heavy one, want two to three times as many", light, heavy)
		}
	}},
	{name: "carry/an exact fit is not full", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 3)...)
		o := carryOptions
		o.Cap = 4
		r := f.carryOnce(o)
		equal(f, "carried", len(r.Carried), 3)
		equal(f, "full", r.Full, false)
	}},
	{name: "carry/tells how long nothing is due", options: Options{}, run: func(f *fixture) {
		equal(f, "nothing waits", f.carryOnce(carryOptions).Wait < 0, true)
		before := f.now()
		far := f.add(reg("t", "far", delay(2*long)))
		f.waitIs(f.carryOnce(carryOptions), far.DueAt, before)
		near := f.add(reg("t", "near", delay(long)))
		f.waitIs(f.carryOnce(carryOptions), near.DueAt, before)
		other := f.add(reg("u", "nearer", delay(long-time.Minute), to(urlB)))
		f.waitIs(f.carryOnce(carryOptions), other.DueAt, before)
		expiring := f.add(reg("t", "expiring", delay(long), ttl(30*time.Minute)))
		f.waitIs(f.carryOnce(carryOptions), expiring.ExpiresAt, before)
		sooner := f.update(far.Key, func(j *job.Job, now job.Instant) error {
			return j.Reschedule(job.When{Delay: time.Minute}, now)
		})
		f.waitIs(f.carryOnce(carryOptions), sooner.DueAt, before)
		// After a job was taken away or put off, a look too early does no harm.
		for _, key := range []job.Key{expiring.Key, other.Key, near.Key} {
			f.update(key, cancel)
		}
		far = f.update(far.Key, func(j *job.Job, now job.Instant) error {
			return j.Reschedule(job.When{Delay: 2 * long}, now)
		})
		r := f.carryOnce(carryOptions)
		equal(f, "carried", r.Carried, nil)
		equal(f, "it waits no longer than until the last", r.Wait > 0 && r.Wait <= far.DueAt.Sub(before), true)
	}},
	{name: "carry/waits for leases and visibility too", options: Options{}, run: func(f *fixture) {
		key := f.add(reg("t", "a")).Key
		r := f.carryOnce(carryOptions)
		equal(f, "it waits for the visibility", r.Wait > 0 && r.Wait <= carryOptions.Visibility, true)
		o := terms()
		o.Lease = long / 2
		c := f.claim(f.pop(), o)[0]
		r = f.carryOnce(carryOptions)
		equal(f, "it waits for the lease", r.Wait > 0 && r.Wait <= o.Lease, true)
		done := f.settle(store.Applied, failed(c, after(long/4)))
		f.waitIs(f.carryOnce(carryOptions), done.NextAt, done.Now)
		f.update(key, cancel)
		equal(f, "nothing waits", f.carryOnce(carryOptions).Wait < 0, true)
	}},
	{name: "carry/any number of carriers push each job once", options: Options{Shards: 2}, run: func(f *fixture) {
		const n = 500
		for i := range 5 {
			f.register(store.Created, many(fmt.Sprintf("t%d", i), n/5)...)
		}
		var mu sync.Mutex
		var all []store.Carried
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for shard := range f.Shards() {
					for range 100 {
						r, err := f.Carry(f.ctx, shard, carryOptions)
						if err != nil {
							f.Errorf("Carry: %v", err)
							return
						}
						mu.Lock()
						all = append(all, r.Carried...)
						mu.Unlock()
						if r.Wait != 0 {
							break
						}
					}
				}
			})
		}
		wg.Wait()
		hints := f.pop()
		equal(f, "carried", len(all), n)
		equal(f, "hints", len(hints), n)
		equal(f, "claimed", len(f.claim(hints, terms())), n)
	}},
}

var laneCases = []testCase{
	{name: "carry/lanes take turns", options: Options{}, run: func(f *fixture) {
		for i := range 4 {
			f.register(store.Created, many(fmt.Sprintf("big%d", i), 1_000)...)
		}
		f.waitPast(f.now()) // the small lanes are due after the big ones
		f.register(store.Created, many("small", 5)...)
		f.register(store.Created, many("small2", 5, to(urlB))...)
		o := carryOptions
		o.Cap = 200
		small, carried := 0, 0
		for small < 10 {
			for _, c := range f.carry(o) {
				carried++
				if strings.HasPrefix(c.Hint.Lane.Topic, "small") {
					small++
				}
			}
			if carried > 2_500 {
				f.Fatalf("%d jobs of the big lanes were carried before those of the small ones", carried)
			}
			f.pop()
		}
	}},
	{name: "carry/a topic's limit counts what is carried and claimed", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 10)...)
		f.register(store.Created, many("t", 2, to(urlB), biz("b"), func(r *store.Registration) { r.Key.ID += "-b" })...)
		o := carryOptions
		o.TopicLimits = map[string]int{"t": 3}
		r := f.carryOnce(o)
		lanes := map[job.Lane]int{}
		for _, c := range r.Carried {
			lanes[c.Hint.Lane]++
		}
		equal(f, "carried", lanes, map[job.Lane]int{laneOf("t", urlA): 3, laneOf("t", urlB): 2})
		f.comesFree(r, o)

		claims := f.claim(f.pop(), terms())
		equal(f, "carried while at the limit", f.carry(o), nil)
		for _, c := range claims {
			if c.Job.Lane() != laneOf("t", urlA) {
				continue
			}
			f.settle(store.Applied, delivered(c))
			equal(f, "lane", f.carryUntil(1, o)[0].Hint.Lane, laneOf("t", urlA))
			equal(f, "carried while at the limit", f.carry(o), nil)
		}
		f.carryUntil(4, carryOptions) // without a limit, the rest
	}},
	{name: "carry/a retry frees its place under the limit", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 4)...)
		o := carryOptions
		o.EndpointLimit = 2
		f.carry(o)
		for _, c := range f.claim(f.pop(), terms()) {
			f.settle(store.Applied, failed(c, after(long)))
		}
		f.carryUntil(2, o)
	}},
	{name: "carry/a cancel frees its place under the limit", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 3)...)
		o := carryOptions
		o.EndpointLimit = 1
		key := f.carry(o)[0].Hint.Key()
		f.update(key, cancel)
		key = f.carryUntil(1, o)[0].Hint.Key()
		f.update(key, respecify(func(s *job.Spec) { s.Destination = urlB }))
		f.carryUntil(2, o) // one in either lane
	}},
	{name: "carry/an endpoint's limit counts all its lanes", options: Options{}, run: func(f *fixture) {
		for _, topic := range []string{"t", "u", "v"} {
			f.register(store.Created, many(topic, 10)...)
		}
		f.register(store.Created, many("t", 2, to(urlB), func(r *store.Registration) { r.Key.ID += "-b" })...)
		o := carryOptions
		o.EndpointLimit = 5
		r := f.carryOnce(o)
		f.comesFree(r, o)
		equal(f, "carried", perEndpoint(r.Carried), map[string]int{laneOf("", urlA).Endpoint: 5, laneOf("", urlB).Endpoint: 2})
		equal(f, "carried while at the limit", f.carry(o), nil)

		// A claim changes nothing, each end of an attempt gives a place back.
		claims := f.claim(f.pop(), terms())
		equal(f, "carried while at the limit", f.carry(o), nil)
		ends := []job.Settlement{delivered(claims[0]), failed(claims[1], after(long)), released(claims[2], long)}
		left := 25
		for i, c := range claims[:3] {
			f.settle(store.Applied, ends[i])
			if c.Job.Lane().Endpoint == laneOf("", urlA).Endpoint {
				f.carryUntil(1, o)
				left--
			}
			equal(f, "carried while at the limit", f.carry(o), nil)
		}
		f.carryUntil(left, carryOptions) // without a limit, the rest
	}},
	{name: "carry/a job whose lease expired keeps its place under the limit", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 4)...)
		o := carryOptions
		o.EndpointLimit = 2
		f.carry(o)
		expired := f.expireLeases(f.pop())
		equal(f, "carried again", carriedKeys(f.carryUntil(2, o)), claimedKeys(expired))
		equal(f, "carried while at the limit", f.carry(o), nil)
		for _, c := range f.claim(f.pop(), terms()) {
			f.settle(store.Applied, delivered(c))
		}
		f.carryUntil(2, o)
	}},
	{name: "carry/a job claimed without being carried takes a place", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 3)...)
		c := f.claim([]popped{{Hint: store.Hint{Lane: laneOf("t", urlA), ID: many("t", 3)[0].Key.ID}}}, terms())
		equal(f, "number claimed", len(c), 1)
		o := carryOptions
		o.EndpointLimit = 1
		equal(f, "carried while at the limit", f.carry(o), nil)
		f.settle(store.Applied, delivered(c[0]))
		f.carryUntil(1, o)
	}},
	{name: "carry/a topic's limit below and above the endpoint's", options: Options{}, run: func(f *fixture) {
		for _, topic := range []string{"small", "t", "big"} {
			f.register(store.Created, many(topic, 20)...)
		}
		o := carryOptions
		o.EndpointLimit, o.TopicLimits = 6, map[string]int{"small": 2, "big": 15}
		topics := map[string]int{}
		for _, c := range f.carryUntil(15, o) {
			topics[c.Hint.Lane.Topic]++
		}
		equal(f, "carried while at the limits", f.carry(o), nil)
		if topics["small"] > 2 || topics["t"] > 6 || topics["big"] > 15 || topics["small"]+topics["t"] > 6 {
			f.Fatalf("carried beyond the limits: %v", topics)
		}
	}},
	{name: "carry/lanes of an endpoint at its limit take turns", options: Options{}, run: func(f *fixture) {
		for _, topic := range []string{"a", "b", "c"} {
			f.register(store.Created, many(topic, 20)...)
		}
		o := carryOptions
		o.EndpointLimit = 1
		turns := map[string]int{}
		for range 40 {
			c := f.carryUntil(1, o)[0]
			turns[c.Hint.Lane.Topic]++
			f.settle(store.Applied, delivered(f.claim(f.pop(), terms())[0]))
		}
		for _, topic := range []string{"a", "b", "c"} {
			if turns[topic] < 2 {
				f.Fatalf("the lanes' turns: %v", turns)
			}
		}
	}},
	{name: "carry/jobs whose leases expired come back although their lane is at its limits", options: Options{}, run: func(f *fixture) {
		// The backlog was due long before the leases expired.
		f.register(store.Created, many("t", 600)...)
		o := carryOptions
		o.EndpointLimit, o.TopicLimits = 4, map[string]int{"t": 4}
		f.carry(o)
		expired := claimedKeys(f.expireLeases(f.pop()))
		equal(f, "number expired", len(expired), 4)
		carried := f.carryUntil(4, o)
		equal(f, "carried again", carriedKeys(carried), expired)
		for _, c := range carried {
			equal(f, "from", c.From, job.Running)
		}
	}},
}
