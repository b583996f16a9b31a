package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

func priority(number int) func(*store.Registration) {
	return func(r *store.Registration) { r.Spec.Priority = job.PriorityOf(number) }
}

// ofPriorities is a registration due now for each of numbers, named after it and
// its place among those with the same.
func ofPriorities(topic string, numbers []int, with ...func(*store.Registration)) []store.Registration {
	regs := make([]store.Registration, len(numbers))
	seen := map[int]int{}
	for i, n := range numbers {
		regs[i] = reg(topic, fmt.Sprintf("%d-%d", n, seen[n]), append(with, priority(n))...)
		seen[n]++
	}
	return regs
}

// mixed are priorities in no order, and mixedInOrder the ids of their jobs in the
// order in which they go.
var (
	mixed        = []int{5, 1, 9, 3, 5, 7, 9, 2, 8, 4, 6, 1}
	mixedInOrder = []string{"9-0", "9-1", "8-0", "7-0", "6-0", "5-0", "5-1", "4-0", "3-0", "2-0", "1-0", "1-1"}
)

func idsOf(hints []popped) []string {
	ids := make([]string, len(hints))
	for i, h := range hints {
		ids[i] = h.ID
	}
	return ids
}

// oneByOne carries, claims and delivers n jobs, each when it is on the ready list,
// and gives their ids.
func (f *fixture) oneByOne(n int, o store.CarryOptions) []string {
	f.Helper()
	var ids []string
	f.eventually(fmt.Sprintf("%d jobs are delivered", n), func() bool {
		f.carry(o)
		hints := f.pop()
		ids = append(ids, idsOf(hints)...)
		for _, c := range f.claim(hints, terms()) {
			f.settle(store.Applied, delivered(c))
		}
		return len(ids) >= n
	})
	return ids
}

// spread sends every other registration to another endpoint.
func spread(regs []store.Registration) []store.Registration {
	for i := range regs {
		if i%2 == 1 {
			regs[i].Spec.Destination = urlB
		}
	}
	return regs
}

var priorityCases = []testCase{
	{name: "priority/what is due is carried by it", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, ofPriorities("t", mixed)...)
		f.add(reg("t", "later", delay(long), priority(9)))
		f.carry(carryOptions)
		equal(f, "hints", idsOf(f.pop()), mixedInOrder)
	}},
	{name: "priority/also when there is little room", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, ofPriorities("t", mixed)...)
		o := carryOptions
		o.Cap = 2
		var ids []string
		for range 2 * len(mixed) {
			f.carry(o)
			hints := f.pop()
			ids = append(ids, idsOf(hints)...)
			f.claim(hints, terms())
		}
		equal(f, "hints", ids, mixedInOrder)
	}},
	{name: "priority/for several endpoints", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, spread(ofPriorities("t", mixed))...)
		f.carry(carryOptions)
		last := job.MaxPriority
		for _, h := range f.pop() {
			if n := h.Lane.Priority.Number(); n > last {
				f.Errorf("%s was carried after one of priority %d", h.ID, last)
			} else {
				last = n
			}
		}
	}},
	{name: "priority/a topic's concurrency", options: Options{Retention: long}, run: func(f *fixture) {
		f.limit("t", store.Limits{Concurrency: 1})
		f.register(store.Created, spread(ofPriorities("t", mixed))...)
		equal(f, "the first", f.oneByOne(1, carryOptions), mixedInOrder[:1])
		f.add(reg("t", "urgent", priority(9)))
		got := f.oneByOne(len(mixed), carryOptions)
		last := job.MaxPriority
		for _, id := range got {
			n := f.get(job.Key{Topic: "t", ID: id}).Spec.Priority.Number()
			if n > last {
				f.Errorf("of priority %d is %s, which came after one of %d: %v", n, id, last, got)
			}
			last = n
		}
	}},
	{name: "priority/a topic's rate", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Rate: 100})
		f.register(store.Created, spread(ofPriorities("t", mixed))...)
		hints, _ := f.hintsUntil(len(mixed))
		if !slices.IsSortedFunc(hints, func(a, b popped) int { return b.Lane.Priority.Number() - a.Lane.Priority.Number() }) {
			f.Errorf("carried in the order %v", idsOf(hints))
		}
	}},
	{name: "priority/an endpoint's limit", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, ofPriorities("t", mixed)...)
		o := carryOptions
		o.EndpointLimit = 1
		equal(f, "delivered", f.oneByOne(len(mixed), o), mixedInOrder)
	}},
	{name: "priority/the limit of a topic at an endpoint", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, ofPriorities("t", mixed)...)
		o := carryOptions
		o.TopicLimits = map[string]int{"t": 2}
		f.carry(o)
		equal(f, "carried", f.carry(o), nil)
		equal(f, "out", f.outlook(job.Key{Topic: "t", ID: "1-0"}).LaneInFlight, 2)
		equal(f, "delivered", f.oneByOne(len(mixed), o), mixedInOrder)
	}},
	{name: "priority/a pause", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Paused: true})
		f.register(store.Created, ofPriorities("t", mixed)...)
		equal(f, "carried", f.carry(carryOptions), nil)
		f.limit("t", store.Limits{})
		hints, _ := f.hintsUntil(len(mixed))
		equal(f, "hints", idsOf(hints), mixedInOrder)
	}},
	{name: "priority/a capacity counts all", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Capacity: 2})
		equal(f, "outcomes", f.outcomes(reg("t", "a", priority(1)), reg("t", "b"), reg("t", "c", priority(9))),
			[]store.RegisterOutcome{store.Created, store.Created, store.TopicFull})
	}},
	{name: "priority/a hold", options: Options{Shards: 2}, run: func(f *fixture) {
		f.register(store.Created, ofPriorities("t", mixed)...)
		endpoint := laneOf("t", urlA).Endpoint
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitOpen, long))
		equal(f, "carried", f.carry(carryOptions), nil)
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitClosed, 0))
		f.hintsUntil(len(mixed))
	}},
	{name: "priority/no more for the topic than others get", options: Options{}, run: func(f *fixture) {
		for n := job.MinPriority; n <= job.MaxPriority; n++ {
			f.register(store.Created, many("t", 50, priority(n), func(r *store.Registration) {
				r.Key.ID += fmt.Sprint("-", n)
			})...)
		}
		f.register(store.Created, many("u", 450, to(urlB))...)
		o := carryOptions
		o.Cap = 200
		got := map[string]int{}
		for _, c := range f.carry(o) {
			got[c.Hint.Lane.Topic]++
		}
		if got["u"] < 80 || got["t"] < 80 {
			f.Errorf("of 200 places each got %v", got)
		}
	}},
	{name: "priority/a change", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, ofPriorities("t", []int{5, 8, 2})...)
		set := func(p job.Priority) func(*job.Job, job.Instant) error {
			return respecify(func(s *job.Spec) { s.Priority = p })
		}
		f.update(job.Key{Topic: "t", ID: "2-0"}, set(9))
		f.update(job.Key{Topic: "t", ID: "8-0"}, set(0))
		f.carry(carryOptions)
		stale := f.pop()
		equal(f, "hints", idsOf(stale), []string{"2-0", "5-0", "8-0"})
		// One that was carried waits again, and its hint is stale.
		f.update(job.Key{Topic: "t", ID: "8-0"}, set(7))
		equal(f, "claimed", claimedKeys(f.claim(stale, terms())), []string{"t/2-0", "t/5-0"})
		equal(f, "claimed", claimedKeys(f.take()), []string{"t/8-0"})
	}},
	{name: "priority/retries and replays keep it", options: Options{Retention: long}, run: func(f *fixture) {
		f.register(store.Created, ofPriorities("t", []int{1, 5, 9})...)
		for _, c := range f.take() {
			f.settle(store.Applied, failed(c, always))
		}
		f.carry(carryOptions)
		hints := f.pop()
		equal(f, "hints", idsOf(hints), []string{"9-0", "5-0", "1-0"})
		for _, c := range f.claim(hints, terms()) {
			f.settle(store.Applied, failed(c, never))
		}
		page, err := f.DeadGroups(f.ctx, "t", 10, "")
		f.noError("DeadGroups", err)
		equal(f, "groups of dead letters", len(page.Groups), 1)
		equal(f, "dead letters of it", page.Groups[0].Count, 3)
		equal(f, "their lane", page.Groups[0].Lane, laneOf("t", urlA))
		for _, id := range []string{"1-0", "5-0", "9-0"} {
			f.update(job.Key{Topic: "t", ID: id}, replay)
		}
		f.carry(carryOptions)
		equal(f, "hints", idsOf(f.pop()), []string{"9-0", "5-0", "1-0"})
		page, err = f.DeadGroups(f.ctx, "t", 10, "")
		f.noError("DeadGroups", err)
		equal(f, "groups of dead letters", page.Groups, nil)
	}},
	{name: "priority/registering again", options: Options{}, run: func(f *fixture) {
		r := reg("t", "a", delay(long), priority(9))
		j := f.add(r)
		equal(f, "priority", j.Spec.Priority, 9)
		r.UID = newUID()
		f.register(store.Same, r)
		other := r
		other.Spec.Priority, other.Spec.Content = 0, 1
		f.register(store.Exists, other)
		other.OnConflict = job.ConflictReplace
		f.register(store.Created, other)
		equal(f, "priority", f.get(r.Key).Spec.Priority, 0)
	}},
	{name: "priority/expired leases", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, ofPriorities("t", []int{1, 9})...)
		f.carry(carryOptions)
		f.expireLeases(f.pop())
		f.add(reg("t", "other", priority(5)))
		hints, _ := f.hintsUntil(3)
		equal(f, "hints", idsOf(hints), []string{"9-0", "other", "1-0"})
	}},
	{name: "priority/topics, endpoints and lists count all", options: Options{Shards: 2, Retention: long}, run: func(f *fixture) {
		f.register(store.Created, ofPriorities("t", mixed, delay(long))...)
		f.register(store.Created, ofPriorities("u", mixed)...)
		equal(f, "states", f.states("t"), map[job.State]int64{job.Waiting: 12})
		equal(f, "due counts of the topic", f.dueCountsOf(store.DueOf{Topic: "t"}, f.now()), []int64{12})
		equal(f, "due counts", f.dueCounts(f.now(), long/2), []int64{12, 12})
		backlogs, err := f.Backlogs(f.ctx)
		f.noError("Backlogs", err)
		equal(f, "topics behind", len(backlogs.Topics), 1)
		equal(f, "backlog", backlogs.Topics[0].Jobs, 12)
		endpoint := laneOf("t", urlA).Endpoint
		equal(f, "listed of the endpoint", len(f.list(store.Query{Endpoint: endpoint, Limit: 5})), 24)
		equal(f, "listed of the topic", len(f.list(store.Query{Topic: "t", Limit: 5})), 12)
		f.carry(carryOptions)
		page, err := f.Endpoints(f.ctx, store.EndpointQuery{Limit: 10})
		f.noError("Endpoints", err)
		equal(f, "endpoints", page.Endpoints, []store.EndpointStats{{Endpoint: endpoint, Waiting: 12, Ready: 12}})
	}},
	{name: "priority/outlook", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Rate: 1.0 / 3600})
		f.register(store.Created, spread(ofPriorities("t", mixed))...)
		f.add(reg("t", "later", delay(long), priority(9)))
		f.carry(carryOptions)
		for id, want := range map[string]int64{"9-1": 0, "8-0": 1, "5-0": 4, "1-0": 9} {
			equal(f, "higher than "+id, f.outlook(job.Key{Topic: "t", ID: id}).Higher, want)
		}
	}},
	{name: "priority/nothing is left of it", options: Options{Shards: 2}, run: func(f *fixture) {
		f.register(store.Created, ofPriorities("t", mixed)...)
		for _, c := range f.take() {
			f.settle(store.Applied, delivered(c))
		}
		key := f.add(reg("t", "a", delay(time.Minute), priority(9))).Key
		f.update(key, cancel)
		for shard := range f.Shards() {
			r, err := f.Carry(f.ctx, shard, carryOptions)
			f.noError("Carry", err)
			equal(f, "nothing waits", r.Wait < 0, true)
		}
		equal(f, "states", f.states("t"), nil)
	}},
}
