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

// sorted is what a listing in an order is to give of jobs.
func sorted(jobs []job.Job, q store.Query) []string {
	list := matching(jobs, q)
	slices.SortFunc(list, func(a, b job.Job) int {
		if strings.HasPrefix(string(q.Order), "-") {
			a, b = b, a
		}
		of, than := store.TimesOf(&a).Due, store.TimesOf(&b).Due
		if strings.HasSuffix(string(q.Order), "created") {
			of, than = a.CreatedAt, b.CreatedAt
		}
		return cmp.Or(cmp.Compare(of, than), cmp.Compare(a.Key.String(), b.Key.String()))
	})
	return inOrder(list)
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
		for _, state := range job.States {
			for _, order := range store.Orders {
				for _, limit := range []int{3, 1_000} {
					q := store.Query{Topic: "t1", States: stateOf(state), Order: order, Limit: limit}
					equal(f, describe(q)+" order "+string(order), inOrder(f.list(q)), sorted(all, q))
				}
			}
		}
	}},
	{name: "order/with the other filters", options: Options{Retention: long, Shards: 2}, run: func(f *fixture) {
		all := f.populate(330)
		now := f.now()
		for _, order := range store.Orders {
			for _, q := range []store.Query{
				{IDPrefix: "waiting-1"},
				{BizKey: "b3"},
				{Endpoint: "http://e1.example:80"},
				{Priority: 4},
				{DueFrom: now.Add(long * 3 / 2)},
				{DueTo: now.Add(long * 3 / 2)},
				{Labels: []job.Label{{Key: "env", Value: "e1"}}},
				{CreatedTo: now.Add(long)},
			} {
				q.Topic, q.States, q.Order, q.Limit = "t1", stateOf(job.Waiting), order, 3
				equal(f, describe(q)+" order "+string(order), inOrder(f.list(q)), sorted(all, q))
				q.States = stateOf(job.Dead)
				equal(f, describe(q)+" order "+string(order), inOrder(f.list(q)), sorted(all, q))
			}
		}
	}},
	{name: "order/by due, a job whose TTL ends before is placed by that", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a", delay(2*long), func(r *store.Registration) { r.Spec.TTL = long }))
		f.add(reg("t", "b", delay(long*3/2)))
		f.add(reg("t", "c", delay(long/2)))
		q := store.Query{Topic: "t", States: stateOf(job.Waiting), Order: store.OrderDue, Limit: 1}
		equal(f, "by due", inOrder(f.list(q)), []string{"t/c", "t/a", "t/b"})
	}},
	{name: "order/jobs that stay are listed once, in order, while others change", options: Options{Retention: long, Shards: 2}, run: func(f *fixture) {
		for _, order := range store.Orders {
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
			from.Topic, from.States, from.Limit = "t1", stateOf(job.Waiting), 1
			page, err := f.List(f.ctx, from)
			f.noError("List", err)
			for k, other := range queries {
				other.Topic, other.States, other.Limit, other.Cursor = "t1", stateOf(job.Waiting), 1, page.Next
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
		for _, state := range job.States {
			for _, order := range store.Orders {
				for _, limit := range []int{1, 7, 1_000} {
					q := store.Query{States: stateOf(state), Order: order, Limit: limit}
					equal(f, describe(q)+" order "+string(order), inOrder(f.list(q)), sorted(all, q))
				}
			}
		}
		q := store.Query{States: stateOf(job.Waiting), Order: store.OrderDue, Only: job.TopicSet{"t1-*", "u"}, Limit: 1}
		equal(f, "of some topics", inOrder(f.list(q)), sorted(all, q))
	}},
	{name: "order/is one that there is, of one state", options: Options{}, run: func(f *fixture) {
		for _, q := range []store.Query{
			{Order: "due"},
			{Order: "due", Topic: "t"},
			{Order: "ended", Topic: "t", States: stateOf(job.Dead)},
			{Order: "-created", Topic: "t", States: stateOf(job.Dead, job.Waiting)},
		} {
			_, err := f.List(f.ctx, q)
			f.isError(describe(q)+" order "+string(q.Order), err, store.ErrBadOrder)
		}
	}},
}
