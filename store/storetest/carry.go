package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// carryOnce is one call of Carry on a store with one shard.
func (f *fixture) carryOnce(o store.CarryOptions) store.CarryResult {
	f.Helper()
	r, err := f.readyList().Carry(f.ctx, 0, o)
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

// hintIDs are the ids of hints in their order.
func hintIDs(hints []popped) []string {
	ids := make([]string, len(hints))
	for i, h := range hints {
		ids[i] = h.ID
	}
	return ids
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
		f.waitIs(store.Taken{Wait: f.carryOnce(carryOptions).Wait}, done.NextAt, done.Now)
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
						r, err := f.readyList().Carry(f.ctx, shard, carryOptions)
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
	{name: "carry/a job that was carried", options: Options{}, run: func(f *fixture) {
		j := f.add(reg("t", "a"))
		f.add(reg("t", "b"))
		f.add(reg("u", "c"))
		f.add(reg("t", "d", to(urlB)))
		f.carry(carryOptions)
		o := f.outlook(j.Key)
		equal(f, "state", o.Job.State, job.Ready)
		equal(f, "figures", figuresOf(o), figures{EndpointInFlight: 3, LaneInFlight: 2, ReadyList: 4})
		equal(f, "it is visible again in time", o.At > o.Now && o.At <= o.Now.Add(carryOptions.Visibility), true)
		equal(f, "worker", o.Worker, "")
	}},
	{name: "carry/what was carried is given back", options: Options{}, run: func(f *fixture) {
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
	{name: "carry/what was carried is claimed when its time has come", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.carry(carryOptions)
		hints := f.pop()
		until := f.now().Add(time.Millisecond)
		f.limit("t", store.Limits{Paused: true, PausedUntil: until})
		f.waitPast(until)
		equal(f, "claimed", len(f.claim(hints, terms())), 1)
	}},
	{name: "carry/a retry that was carried is given back as one", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.settle(store.Applied, failed(f.takeOne(), always))
		f.carry(carryOptions)
		f.limit("t", store.Limits{Paused: true})
		equal(f, "claimed", f.claim(f.pop(), terms()), nil)
		equal(f, "state", f.get(job.Key{Topic: "t", ID: "a"}).State, job.Retrying)
	}},
	{name: "carry/only what was carried is claimed", options: Options{}, run: func(f *fixture) {
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
	{name: "carry/jobs carried before may be claimed", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.carry(carryOptions)
		f.noError("SetCircuit", f.SetCircuit(f.ctx, laneOf("t", urlA).Endpoint, store.CircuitOpen, long))
		claims := f.claim(f.pop(), terms())
		equal(f, "claimed", claimedKeys(claims), []string{"t/a"})
		f.settle(store.Applied, delivered(claims[0]))
	}},
	{name: "carry/a changed priority", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, ofPriorities("t", []int{5, 8, 2})...)
		set := func(p job.Priority) func(*job.Job, job.Instant) error {
			return respecify(func(s *job.Spec) { s.Priority = p })
		}
		f.update(job.Key{Topic: "t", ID: "2-0"}, set(9))
		f.update(job.Key{Topic: "t", ID: "8-0"}, set(0))
		f.carry(carryOptions)
		stale := f.pop()
		equal(f, "hints", hintIDs(stale), []string{"2-0", "5-0", "8-0"})
		// One that was carried waits again, and its hint is stale.
		f.update(job.Key{Topic: "t", ID: "8-0"}, set(7))
		equal(f, "claimed", claimedKeys(f.claim(stale, terms())), []string{"t/2-0", "t/5-0"})
		equal(f, "claimed", claimedKeys(f.take()), []string{"t/8-0"})
	}},
	{name: "carry/a job of a pull queue that nobody claims comes back", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a", pulled))
		o := carryOptions
		o.Cap, o.Pull, o.Visibility = 1, []string{"t"}, time.Millisecond
		r, err := f.readyList().Carry(f.ctx, 0, o)
		f.noError("Carry", err)
		equal(f, "carried", carriedKeys(r.Carried), []string{"t/a"})
		f.waitPast(f.now().Add(o.Visibility))
		equal(f, "carried to dispatchers", carriedKeys(f.carry(carryOptions)), []string{"t/a"})
		f.settle(store.Applied, released(f.claim(f.pop(), terms())[0], 0))
		equal(f, "fetched", claimedKeys(f.pull(1, "t")), []string{"t/a"})
	}},
}
