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

// oneByOne takes and delivers n jobs, and gives their ids.
func (f *fixture) oneByOne(n int, o store.TakeOptions) []string {
	f.Helper()
	var ids []string
	f.eventually(fmt.Sprintf("%d jobs are delivered", n), func() bool {
		claims := f.takeWith(o)
		ids = append(ids, idsOf(claims)...)
		for _, c := range claims {
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
	{name: "priority/what is due is taken by it", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, ofPriorities("t", mixed)...)
		f.add(reg("t", "later", delay(long), priority(9)))
		equal(f, "taken", idsOf(f.take()), mixedInOrder)
	}},
	{name: "priority/also when there is little room", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, ofPriorities("t", mixed)...)
		o := generous
		o.Max = 2
		var ids []string
		for range 2 * len(mixed) {
			ids = append(ids, idsOf(f.takeOnce(o).Claims)...)
		}
		equal(f, "taken", ids, mixedInOrder)
	}},
	{name: "priority/for several endpoints", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, spread(ofPriorities("t", mixed))...)
		last := job.MaxPriority
		for _, c := range f.take() {
			if n := c.Job.Spec.Priority.Number(); n > last {
				f.Errorf("%s was taken after one of priority %d", c.Job.ID, last)
			} else {
				last = n
			}
		}
	}},
	{name: "priority/a topic's concurrency", options: Options{Retention: long}, run: func(f *fixture) {
		f.limit("t", store.Limits{Concurrency: 1})
		f.register(store.Created, spread(ofPriorities("t", mixed))...)
		equal(f, "the first", f.oneByOne(1, generous), mixedInOrder[:1])
		f.add(reg("t", "urgent", priority(9)))
		got := f.oneByOne(len(mixed), generous)
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
		claims, _ := f.takenUntil(len(mixed))
		if !slices.IsSortedFunc(claims, func(a, b store.Claimed) int { return b.Job.Spec.Priority.Number() - a.Job.Spec.Priority.Number() }) {
			f.Errorf("taken in the order %v", idsOf(claims))
		}
	}},
	{name: "priority/an endpoint's limit", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, ofPriorities("t", mixed)...)
		o := generous
		o.Limits.EndpointLimit = 1
		equal(f, "delivered", f.oneByOne(len(mixed), o), mixedInOrder)
	}},
	{name: "priority/the limit of a topic at an endpoint", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, ofPriorities("t", mixed)...)
		o := generous
		o.Limits.TopicLimits = map[string]int{"t": 2}
		claims := f.takeWith(o)
		equal(f, "taken", idsOf(claims), mixedInOrder[:2])
		f.takeNone(o)
		equal(f, "out", f.outlook(job.Key{Topic: "t", ID: "1-0"}).LaneInFlight, 2)
		for _, c := range claims {
			f.settle(store.Applied, delivered(c))
		}
		equal(f, "delivered", f.oneByOne(len(mixed)-2, o), mixedInOrder[2:])
	}},
	{name: "priority/a pause", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Paused: true})
		f.register(store.Created, ofPriorities("t", mixed)...)
		f.takeNone(generous)
		f.limit("t", store.Limits{})
		claims, _ := f.takenUntil(len(mixed))
		equal(f, "taken", idsOf(claims), mixedInOrder)
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
		f.takeNone(generous)
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitClosed, 0))
		f.takenUntil(len(mixed))
	}},
	{name: "priority/no more for the topic than others get", options: Options{}, run: func(f *fixture) {
		for n := job.MinPriority; n <= job.MaxPriority; n++ {
			f.register(store.Created, many("t", 50, priority(n), func(r *store.Registration) {
				r.Key.ID += fmt.Sprint("-", n)
			})...)
		}
		f.register(store.Created, many("u", 450, to(urlB))...)
		o := generous
		o.Max = 200
		got := map[string]int{}
		for range 2 {
			for _, c := range f.takeOnce(o).Claims {
				got[c.Job.Topic]++
			}
		}
		if got["u"] < 150 || got["t"] < 80 {
			f.Errorf("of 400 places each got %v", got)
		}
	}},
	{name: "priority/a change", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, ofPriorities("t", []int{5, 8, 2})...)
		f.ready(job.Waiting)
		set := func(p job.Priority) func(*job.Job, job.Instant) error {
			return respecify(func(s *job.Spec) { s.Priority = p })
		}
		f.update(job.Key{Topic: "t", ID: "2-0"}, set(9))
		f.update(job.Key{Topic: "t", ID: "8-0"}, set(0))
		f.update(job.Key{Topic: "t", ID: "5-0"}, set(7))
		equal(f, "taken", idsOf(f.take()), []string{"2-0", "5-0", "8-0"})
	}},
	{name: "priority/retries and replays keep it", options: Options{Retention: long}, run: func(f *fixture) {
		f.register(store.Created, ofPriorities("t", []int{1, 5, 9})...)
		for _, c := range f.take() {
			f.settle(store.Applied, failed(c, always))
		}
		claims := f.take()
		equal(f, "taken", idsOf(claims), []string{"9-0", "5-0", "1-0"})
		for _, c := range claims {
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
		equal(f, "taken", idsOf(f.take()), []string{"9-0", "5-0", "1-0"})
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
		f.expire(generous)
		f.add(reg("t", "other", priority(5)))
		claims, _ := f.takenUntil(3)
		equal(f, "taken", idsOf(claims), []string{"9-0", "other", "1-0"})
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
		f.take()
		page, err := f.Endpoints(f.ctx, store.EndpointQuery{Limit: 10})
		f.noError("Endpoints", err)
		equal(f, "endpoints", page.Endpoints, []store.EndpointStats{{Endpoint: endpoint, Waiting: 12, Running: 12}})
	}},
	{name: "priority/outlook", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Rate: 1.0 / 3600})
		f.register(store.Created, spread(ofPriorities("t", mixed))...)
		f.add(reg("t", "later", delay(long), priority(9)))
		f.take()
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
			equal(f, "nothing waits", f.takeFrom(shard, generous).Wait < 0, true)
		}
		equal(f, "states", f.states("t"), nil)
	}},
}
