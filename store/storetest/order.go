package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// sorted is what a listing in an order is to give of jobs of one state.
func sorted(jobs []job.Job, q store.Query) []string {
	list := matching(jobs, q)
	slices.SortFunc(list, func(a, b job.Job) int {
		if strings.HasPrefix(string(q.Order), "-") {
			a, b = b, a
		}
		of, than := store.DueOfJob(&a), store.DueOfJob(&b)
		if q.Order == store.OrderEndedBack {
			of, than = a.EndedAt, b.EndedAt
		}
		return cmp.Or(cmp.Compare(of, than), cmp.Compare(a.Key.String(), b.Key.String()))
	})
	return inOrder(list)
}

// orderable calls do with each state that an order sorts.
func orderable(do func(order store.Order, state job.State)) {
	for _, order := range store.Orders {
		for _, state := range job.States {
			if order.Sorts(state) {
				do(order, state)
			}
		}
	}
}

// someOf is a state that an order sorts.
func someOf(order store.Order) []job.State {
	if order == store.OrderEndedBack {
		return stateOf(job.Dead)
	}
	return stateOf(job.Waiting)
}

// inOrder are the keys of jobs, as they stand.
func inOrder(jobs []job.Job) []string {
	out := make([]string, len(jobs))
	for i, j := range jobs {
		out[i] = j.Key.String()
	}
	return out
}

var orderCases = []testCase{
	{name: "order/every state in every order", options: Options{Retention: long, Shards: 2}, run: func(f *fixture) {
		all := f.populate(330)
		orderable(func(order store.Order, state job.State) {
			for _, limit := range []int{3, 1_000} {
				q := store.Query{Topic: "t1", States: stateOf(state), Order: order, Limit: limit}
				equal(f, describe(q)+" order "+string(order), inOrder(f.list(q)), sorted(all, q))
			}
		})
	}},
	{name: "order/several states", options: Options{Retention: long, Shards: 2}, run: func(f *fixture) {
		all := f.populate(330)
		for _, q := range []store.Query{
			{Order: store.OrderDue, States: stateOf(job.Waiting, job.Retrying)},
			{Order: store.OrderDueBack, States: stateOf(job.Retrying, job.Waiting)},
			{Order: store.OrderEndedBack, States: stateOf(job.Dead, job.Delivered, job.Expired, job.Cancelled)},
			{Order: store.OrderEndedBack, States: stateOf(job.Dead, job.Cancelled), Topic: "t1"},
		} {
			q.Limit = 7
			list := f.list(q)
			f.once(list, len(matching(all, q)))
			if !slices.IsSortedFunc(list, func(a, b job.Job) int {
				if q.Order == store.OrderDue {
					return cmp.Compare(a.WakeAt(), b.WakeAt())
				}
				return cmp.Or(cmp.Compare(b.EndedAt, a.EndedAt), cmp.Compare(b.WakeAt(), a.WakeAt()))
			}) {
				f.Errorf("%s order %s: %v", describe(q), q.Order, inOrder(list))
			}
		}
	}},
	{name: "order/with the other filters", options: Options{Retention: long, Shards: 2}, run: func(f *fixture) {
		all := f.populate(330)
		now := f.now()
		orderable(func(order store.Order, state job.State) {
			for _, q := range []store.Query{
				{IDPrefix: "waiting-1"},
				{IDPrefix: "ended-1"},
				{BizKey: "b3"},
				{Endpoint: "http://e1.example:80"},
				{Priority: 4},
				{DueFrom: now.Add(long * 3 / 2)},
				{DueTo: now.Add(long * 3 / 2)},
				{Reason: job.ReasonRetryLimit},
				{Labels: []job.Label{{Key: "env", Value: "e1"}}},
				{CreatedTo: now.Add(long)},
			} {
				q.Topic, q.States, q.Order, q.Limit = "t1", stateOf(state), order, 3
				equal(f, describe(q)+" order "+string(order), inOrder(f.list(q)), sorted(all, q))
			}
		})
	}},
	{name: "order/by due, a job whose TTL ends before is placed by that", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a", delay(2*long), func(r *store.Registration) { r.Spec.TTL = long }))
		f.add(reg("t", "b", delay(long*3/2)))
		f.add(reg("t", "c", delay(long/2)))
		q := store.Query{Topic: "t", States: stateOf(job.Waiting), Order: store.OrderDue, Limit: 1}
		equal(f, "by due", inOrder(f.list(q)), []string{"t/c", "t/a", "t/b"})
	}},
	{name: "order/ended jobs are listed once, the last one first, while others end", options: Options{Retention: long, Shards: 2}, run: (*fixture).testEndedBack},
	{name: "order/jobs that stay are listed once, in order, while others change", options: Options{Retention: long, Shards: 2}, run: func(f *fixture) {
		for _, order := range []store.Order{store.OrderDue, store.OrderDueBack} {
			topic := "t" + strings.Trim(string(order), "-") + fmt.Sprint(len(order))
			var stay, moving []job.Key
			for i := range 60 {
				j := f.add(reg(topic, fmt.Sprintf("job-%03d", i), delay(long), to(fmt.Sprintf("http://e%d.example/", i%4))))
				if i%3 == 0 {
					moving = append(moving, j.Key)
				} else {
					stay = append(stay, j.Key)
				}
			}
			var stayed []job.Job
			for _, key := range stay {
				stayed = append(stayed, f.get(key))
			}
			q := store.Query{Topic: topic, States: stateOf(job.Waiting), Order: order, Limit: 5}
			var seen []string
			for page := 0; ; page++ {
				got, err := f.List(f.ctx, q)
				f.noError("List", err)
				for _, j := range got.Jobs {
					if slices.Contains(stay, j.Key) {
						seen = append(seen, j.Key.String())
					}
				}
				if got.Next == "" {
					break
				}
				if len(moving) > 1 {
					f.update(moving[0], cancel)
					f.update(moving[1], later)
					moving = moving[2:]
				}
				q.Cursor = got.Next
			}
			equal(f, "jobs that stay, order "+string(order), seen, sorted(stayed, q))
		}
	}},
	{name: "order/a cursor is used with its own order", options: Options{Retention: long}, run: func(f *fixture) {
		f.populate(110)
		queries := []store.Query{{}}
		for _, order := range store.Orders {
			queries = append(queries, store.Query{Order: order})
		}
		for i, from := range queries {
			from.Topic, from.States, from.Limit = "t1", someOf(from.Order), 1
			page, err := f.List(f.ctx, from)
			f.noError("List", err)
			for k, other := range queries {
				other.Topic, other.States, other.Limit, other.Cursor = "t1", someOf(other.Order), 1, page.Next
				if _, err := f.List(f.ctx, other); i != k && !errors.Is(err, store.ErrBadCursor) || i == k && err != nil {
					f.Errorf("cursor of order %q for %q: %v", from.Order, other.Order, err)
				}
			}
		}
	}},
	{name: "order/of all topics", options: Options{Retention: long, Shards: 2}, run: func(f *fixture) {
		all := f.populate(330)
		for _, topic := range []string{"t1", "t1-b", "t", "u"} { // jobs that share an id and a time
			all = append(all, f.add(reg(topic, "same", dueAt(all[len(all)-1].CreatedAt.Add(3*long/2)))))
		}
		orderable(func(order store.Order, state job.State) {
			for _, limit := range []int{1, 7, 1_000} {
				q := store.Query{States: stateOf(state), Order: order, Limit: limit}
				equal(f, describe(q)+" order "+string(order), inOrder(f.list(q)), sorted(all, q))
			}
		})
		q := store.Query{States: stateOf(job.Waiting), Order: store.OrderDue, Only: job.TopicSet{"t1-*", "u"}, Limit: 1}
		equal(f, "of some topics", inOrder(f.list(q)), sorted(all, q))
	}},
	{name: "order/is one that an index has", options: Options{}, run: func(f *fixture) {
		for _, q := range []store.Query{
			{Order: "due"},
			{Order: "due", Topic: "t"},
			{Order: "-ended", Topic: "t"},
			{Order: "ended", Topic: "t", States: stateOf(job.Dead)},
			{Order: "-created", Topic: "t", States: stateOf(job.Waiting)},
			{Order: "due", Topic: "t", States: stateOf(job.Waiting, job.Ready)},
			{Order: "-due", Topic: "t", States: stateOf(job.Dead)},
			{Order: "-ended", Topic: "t", States: stateOf(job.Dead, job.Waiting)},
		} {
			_, err := f.List(f.ctx, q)
			f.isError(describe(q)+" order "+string(q.Order), err, store.ErrBadOrder)
		}
	}},
}

// testEndedBack lists jobs of which many ended at the same time, in pages that are smaller than that.
// More jobs end between the pages.
func (f *fixture) testEndedBack() {
	end := func(prefix string, n int) {
		regs := make([]store.Registration, n)
		for i := range regs {
			regs[i] = reg(fmt.Sprintf("t%d", i%2), fmt.Sprintf("%s-%02d", prefix, i), to(fmt.Sprintf("http://e%d.example/", i%3)))
		}
		f.register(store.Created, regs...)
		f.waitPast(f.now()) // later than those that ended before
		var outcomes []job.Settlement
		for i, c := range f.take() {
			outcomes = append(outcomes, []job.Settlement{delivered(c), failed(c, never)}[i%2])
		}
		_, err := f.Settle(f.ctx, outcomes)
		f.noError("Settle", err)
	}
	for _, prefix := range []string{"b", "a", "c"} {
		end(prefix, 40)
	}
	for _, states := range [][]job.State{stateOf(job.Dead), stateOf(job.Delivered), stateOf(job.Dead, job.Delivered)} {
		q := store.Query{States: states, Order: store.OrderEndedBack, Limit: 1_000}
		before := f.list(q)
		times := map[job.Instant]bool{}
		for _, j := range before {
			times[j.EndedAt] = true
		}
		if len(before) < 60 || len(times) > len(before)/2 {
			f.Fatalf("%d jobs ended at %d times", len(before), len(times))
		}
		q.Limit = 5
		var seen []job.Job
		for page := 0; ; page++ {
			got, err := f.List(f.ctx, q)
			f.noError("List", err)
			seen = append(seen, got.Jobs...)
			if q.Cursor = got.Next; q.Cursor == "" {
				break
			}
			end(fmt.Sprint("between-", len(states), states[0], page), 4)
		}
		equal(f, fmt.Sprintf("%v jobs, the last one first", states), inOrder(seen), inOrder(before))
	}
}
