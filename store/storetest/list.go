package storetest

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// populate fills the store with jobs of several topics, endpoints, states and
// biz_keys, and returns them all.
func (f *fixture) populate(n int) []job.Job {
	f.Helper()
	spread := func(prefix string, n int, with ...func(*store.Registration)) {
		regs := make([]store.Registration, n)
		for i := range regs {
			url := fmt.Sprintf("http://e%d.example/hook", i%5)
			regs[i] = reg(fmt.Sprintf("t%d", i%3), job.MemberID(fmt.Sprint(prefix, "-", i%20), strconv.Itoa(i)), to(url), biz(fmt.Sprintf("b%d", i%7)),
				labelled("env", fmt.Sprintf("e%d", i%4), "shop", fmt.Sprintf("s%d", i%11)), priority(1+i%9))
			for _, w := range with {
				w(&regs[i])
			}
			if i%3 == 0 {
				regs[i].Spec.Dialect = &job.Dialect{Name: "d" + strconv.Itoa(i%2)}
			}
			if i%2 == 0 {
				member(&regs[i])
			}
		}
		f.register(store.Created, regs...)
	}
	spread("ended", n/2)
	var settlements []job.Settlement
	claims := f.take()
	slices.SortFunc(claims, func(a, b store.Claimed) int { return strings.Compare(a.Job.Key.String(), b.Job.Key.String()) })
	for i, c := range claims {
		settlements = append(settlements, []job.Settlement{
			delivered(c), failed(c, never), failed(c, after(long)),
			job.Settle(&c.Job, job.Outcome{Kind: job.OutcomeCancelled}, never),
			job.Settle(&c.Job, job.Outcome{Kind: job.OutcomeExpired}, never),
		}[i%5])
	}
	_, err := f.Settle(f.ctx, settlements)
	f.noError("Settle", err)
	spread("running", n/10)
	f.take()
	spread("ready", n/10)
	f.ready(job.Waiting)
	spread("waiting", n-n/2-2*(n/10), func(r *store.Registration) {
		// Many are due at the same time, and some have no biz_key.
		r.Spec.When.Delay = long * time.Duration(1+len(r.Key.ID)%3)
		if strings.HasSuffix(r.Key.ID, "1") {
			r.Spec.BizKey = ""
		}
	})
	jobs := f.list(store.Query{Limit: 1_000})
	equal(f, "jobs in the store", len(jobs), n)
	for i := 0; i < n; i += 7 {
		equal(f, "listed job", jobs[i], f.get(jobs[i].Key))
	}
	return jobs
}

func stateOf(s ...job.State) []job.State { return s }

// filters are queries of every kind, for what populate makes around now.
func filters(now job.Instant) []store.Query {
	env, shop := job.Label{Key: "env", Value: "e1"}, job.Label{Key: "shop", Value: "s3"}
	soon, late := now.Add(long*3/2), now.Add(long*5/2)
	queries := []store.Query{
		{},
		{Topic: "t1"},
		{BizKey: "b3"},
		{Topic: "t2", BizKey: "b3"},
		{Topic: "none"},
		{BizKey: "none"},
		{Topic: "t1", States: stateOf(job.Waiting)},
		{Topic: "t0", States: stateOf(job.Dead)},
		{BizKey: "b3", States: stateOf(job.Cancelled)},
		{BizKey: "b0", States: stateOf(job.Ready), Topic: "t1"},
		{Topic: "t0", States: stateOf(job.Expired), BizKey: "b1"},
		{Endpoint: "http://e3.example:80"},
		{Endpoint: "http://e3.example:80", States: stateOf(job.Retrying)},
		{Endpoint: "http://e1.example:80", Topic: "t1", States: stateOf(job.Dead)},
		{Endpoint: "http://e2.example:80", BizKey: "b3"},
		{Endpoint: "http://none.example:80"},
		{States: stateOf(job.Dead, job.Waiting)},
		{States: stateOf(job.Delivered, job.Expired, job.Running), Topic: "t1"},
		{States: stateOf(job.Cancelled, job.Ready), BizKey: "b2"},
		{Labels: []job.Label{env}},
		{Labels: []job.Label{env, shop}},
		{Labels: []job.Label{shop}, Topic: "t0", States: stateOf(job.Waiting)},
		{Labels: []job.Label{{Key: "env", Value: "none"}}},
		{Labels: []job.Label{{Key: "none"}}},
		{Dialect: "d1"},
		{Dialect: "d0", Topic: "t0", States: stateOf(job.Dead)},
		{Priority: 9},
		{Priority: 5, States: stateOf(job.Waiting)},
		{Priority: 1, Topic: "t0", States: stateOf(job.Dead)},
		{Priority: 3, Endpoint: "http://e1.example:80"},
		{Reason: job.ReasonRetryLimit},
		{Reason: job.ReasonTTL, Topic: "t2"},
		{Reason: job.ReasonCancelled, States: stateOf(job.Dead)},
		{Reason: job.ReasonRetryLimit, Endpoint: "http://e1.example:80", States: stateOf(job.Dead)},
		{Reason: job.ReasonRetryLimit, States: stateOf(job.Waiting)},
		{Only: job.TopicSet{"t1"}},
		{Only: job.TopicSet{"t2", "t0*"}, Endpoint: "http://e1.example:80"},
		{Only: job.TopicSet{"t*"}, States: stateOf(job.Dead)},
		{Only: job.TopicSet{"other-*"}},
		{DueFrom: soon},
		{DueTo: soon},
		{DueFrom: soon, DueTo: late, States: stateOf(job.Waiting)},
		{DueFrom: late, DueTo: soon},
		{IDPrefix: "waiting-1", Topic: "t0"},
		{IDPrefix: "ended-2", States: stateOf(job.Dead)},
		{CreatedTo: now.Add(long)},
		{GroupID: "waiting-2"},
		{GroupID: "waiting-1"}, // the ids of other jobs begin so
		{GroupID: "ended-4", Topic: "t1"},
		{GroupID: "ended-8", States: stateOf(job.Dead, job.Delivered)},
		{GroupID: "waiting-4", BizKey: "b3"},
	}
	for _, s := range job.States {
		queries = append(queries, store.Query{States: stateOf(s)})
	}
	return queries
}

func describe(q store.Query) string {
	return fmt.Sprintf("topic %q states %v biz_key %q group id %q endpoint %q reason %q labels %v priority %d due %d-%d limit %d",
		q.Topic, q.States, q.BizKey, q.GroupID, q.Endpoint, q.Reason, q.Labels, q.Priority, q.DueFrom, q.DueTo, q.Limit)
}

// matching is what a filter selects.
func matching(jobs []job.Job, q store.Query) []job.Job {
	return slices.DeleteFunc(slices.Clone(jobs), func(j job.Job) bool {
		due := j.NextAt
		if due == 0 {
			due = j.DueAt
		}
		return !strings.HasPrefix(j.ID, q.IDPrefix) || q.Topic != "" && j.Topic != q.Topic || len(q.States) > 0 && !slices.Contains(q.States, j.State) ||
			q.BizKey != "" && j.Spec.BizKey != q.BizKey || q.Endpoint != "" && j.Lane().Endpoint != q.Endpoint ||
			q.GroupID != "" && (j.Spec.Group == nil || !strings.HasPrefix(j.ID, q.GroupID+":")) ||
			!q.Only.Has(j.Topic) || q.Dialect != "" && j.Spec.DialectName() != q.Dialect || q.Priority != 0 && j.Spec.Priority.Number() != q.Priority ||
			q.Reason != "" && j.Reason != q.Reason || due < q.DueFrom || q.DueTo != 0 && due >= q.DueTo ||
			slices.ContainsFunc(q.Labels, func(l job.Label) bool { return !slices.Contains(j.Spec.Labels, l) })
	})
}

var listCases = []testCase{
	// More jobs than a page and a read of records have; over shards, a second page of each filter is enough.
	{name: "list/every filter selects each of its jobs once", options: Options{Retention: long}, run: listFiltered(1_100, 71)},
	{name: "list/every filter selects each of its jobs once, over shards", options: Options{Retention: long, Shards: 3}, run: listFiltered(330, 23)},
	{name: "list/the order does not depend on the page size", options: Options{Retention: long, Shards: 2}, run: func(f *fixture) {
		f.populate(100)
		want := f.list(store.Query{Limit: 1_000})
		for _, limit := range []int{1, 2, 7, 99, 100, 101} {
			equal(f, fmt.Sprintf("pages of %d", limit), f.list(store.Query{Limit: limit}), want)
		}
	}},
	{name: "list/many jobs due at the same instant", options: Options{}, run: func(f *fixture) {
		regs := make([]store.Registration, 300)
		at := f.now().Add(long)
		for i := range regs {
			regs[i] = reg("t", fmt.Sprintf("job-%d", i))
			regs[i].Spec.When = job.When{At: at}
		}
		f.register(store.Created, regs...)
		for _, limit := range []int{7, 100, 300} {
			f.once(f.list(store.Query{Limit: limit}), len(regs))
		}
	}},
	{name: "list/many lanes of one job each", options: Options{Shards: 2}, run: func(f *fixture) {
		regs := make([]store.Registration, 300)
		for i := range regs {
			regs[i] = reg("t", fmt.Sprintf("job-%d", i), to(fmt.Sprintf("http://e%d.example/", i)), delay(long))
		}
		f.register(store.Created, regs...)
		for _, q := range []store.Query{{Limit: 13}, {Limit: 500, Topic: "t"}, {Limit: 50, States: stateOf(job.Waiting)}} {
			f.once(f.list(q), len(regs))
		}
		equal(f, "running", len(f.list(store.Query{States: stateOf(job.Running)})), 0)
	}},
	{name: "list/jobs that stay are listed once while others change", options: Options{Retention: long}, run: func(f *fixture) {
		stay := map[job.Key]bool{}
		var moving []job.Key
		for i := range 120 {
			r := reg(fmt.Sprintf("t%d", i%2), fmt.Sprintf("job-%03d", i), delay(long))
			f.add(r)
			if i%3 == 0 {
				moving = append(moving, r.Key)
			} else {
				stay[r.Key] = true
			}
		}
		seen := map[job.Key]int{}
		q := store.Query{Limit: 5}
		for page := 0; ; page++ {
			got, err := f.List(f.ctx, q)
			f.noError("List", err)
			for _, j := range got.Jobs {
				seen[j.Key]++
			}
			if got.Next == "" {
				break
			}
			if len(moving) > 2 {
				f.update(moving[0], cancel)
				f.update(moving[1], later)
				f.add(reg("t1", fmt.Sprintf("new-%d", page), delay(long)))
				moving = moving[2:]
			}
			q.Cursor = got.Next
		}
		for key := range stay {
			equal(f, "times that "+key.String()+" was listed", seen[key], 1)
		}
	}},
	{name: "list/pages are bounded by bytes", options: Options{Shards: 2, Retention: long}, run: listLarge},
	{name: "list/another pass meets what moved, and tells that it did", options: Options{Shards: 2}, run: func(f *fixture) {
		regs := make([]store.Registration, 60)
		for i := range regs {
			regs[i] = reg(fmt.Sprintf("t%d", i%2), fmt.Sprintf("job-%02d", i))
		}
		f.register(store.Created, regs...)
		q := store.Query{Limit: 10}
		page, err := f.List(f.ctx, q)
		f.noError("List", err)
		began := f.now()
		f.waitPast(began)
		for i, c := range f.take() {
			if i%2 == 0 {
				f.settle(store.Applied, failed(c, after(long)))
			}
		}
		for q.Cursor = page.Next; q.Cursor != ""; q.Cursor = page.Next {
			page, err = f.List(f.ctx, q)
			f.noError("List", err)
		}
		all := f.list(store.Query{Limit: 10})
		f.once(all, len(regs))
		for _, j := range all {
			switch {
			case j.State == job.Running && j.Token > uint64(began):
			case j.State == job.Retrying && j.Token > uint64(began) && j.LastAttempt != nil && j.LastAttempt.StartedAt > began:
			default:
				f.Errorf("%s is %v, token %d, last attempt %+v, claimed after %d", j.Key, j.State, j.Token, j.LastAttempt, began)
			}
		}
	}},
	{name: "list/jobs of a biz_key that change state are listed once", options: Options{Retention: long}, run: func(f *fixture) {
		for i := range 20 {
			f.add(reg("t", fmt.Sprintf("job-%02d", i), biz("b"), delay(long)))
		}
		q := store.Query{BizKey: "b", Limit: 3}
		var all []job.Job
		for {
			page, err := f.List(f.ctx, q)
			f.noError("List", err)
			all = append(all, page.Jobs...)
			if page.Next == "" {
				break
			}
			q.Cursor = page.Next
			f.update(page.Jobs[0].Key, cancel)
		}
		f.once(all, 20)
	}},
}

// listLarge lists jobs with large bodies, the last ones behind many small ones, in
// every way that there is.
func listLarge(f *fixture) {
	const large, small, size = 40, 200, store.PageBytes / 10
	f.register(store.Created, many("t", small, delay(long), biz("b"))...)
	for i := range large {
		endpoint := to(fmt.Sprintf("http://e%d.example/", i%3))
		f.add(reg("t", fmt.Sprintf("large-%d", i), delay(2*long), biz("b"), endpoint, body(strings.Repeat("x", size))))
	}
	for _, q := range []store.Query{
		{},
		{BizKey: "b"},
		{Priority: job.DefaultPriority},
		{Topic: "t", States: stateOf(job.Waiting)},
		{Topic: "t", States: stateOf(job.Waiting), Order: store.OrderDue},
		{Topic: "t", States: stateOf(job.Waiting), Order: store.OrderDueBack},
	} {
		q.Limit = 1_000
		var all []job.Job
		for {
			page, err := f.List(f.ctx, q)
			f.noError("List", err)
			bytes := 0
			for _, j := range page.Jobs {
				bytes += len(j.Spec.Body)
			}
			if bytes > store.PageBytes+size {
				f.Fatalf("%s order %s: a page of %d jobs with %d bytes", describe(q), q.Order, len(page.Jobs), bytes)
			}
			all = append(all, page.Jobs...)
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
		}
		slices.SortFunc(all, func(a, b job.Job) int { return cmp.Compare(a.Key.String(), b.Key.String()) })
		f.once(all, large+small)
	}
	// Jobs that do not match are read as well.
	q := store.Query{Labels: []job.Label{{Key: "env", Value: "none"}}, Limit: 1_000}
	equal(f, "jobs with a label that none has", len(f.list(q)), 0)
}

// once expects n different jobs.
func (f *fixture) once(jobs []job.Job, n int) {
	f.Helper()
	equal(f, "number of jobs", len(jobs), n)
	equal(f, "number of different jobs", len(slices.Compact(keys(jobs))), n)
}

// listFiltered lists so many jobs by each filter, in pages.
func listFiltered(jobs, limit int) func(f *fixture) {
	return func(f *fixture) {
		all := f.populate(jobs)
		for _, q := range filters(f.now()) {
			q.Limit = limit
			equal(f, describe(q), keys(f.list(q)), keys(matching(all, q)))
		}
	}
}

var cursorCases = []testCase{
	{name: "cursor/what was made up is refused", options: Options{Retention: long}, run: func(f *fixture) {
		f.populate(40)
		encode := base64.RawURLEncoding.EncodeToString
		for _, c := range []string{
			"x", "====", "null", "0", "-1", "\x00", "ü", "{}", strings.Repeat("A", 5_000), encode([]byte("{")),
			encode([]byte("null garbage")), encode([]byte(`[]`)), encode([]byte(`"a"`)), encode([]byte("7")), encode([]byte("{}")), encode([]byte("null")),
			encode([]byte(strings.Repeat("[", 10_000))), base64.StdEncoding.EncodeToString([]byte("{}??>>")),
		} {
			if _, err := f.List(f.ctx, store.Query{Limit: 5, Cursor: c}); !errors.Is(err, store.ErrBadCursor) {
				f.Errorf("cursor %.40q: %v, want ErrBadCursor", c, err)
			}
		}
	}},
	{name: "cursor/a spoiled one is refused or harmless", options: Options{Retention: long}, run: func(f *fixture) {
		f.populate(60)
		for _, q := range []store.Query{{Limit: 9}, {Limit: 2, BizKey: "b3"}, {Limit: 3, States: stateOf(job.Delivered)}, {Limit: 4, Endpoint: "http://e1.example:80"}} {
			page, err := f.List(f.ctx, q)
			f.noError("List", err)
			if page.Next == "" {
				f.Fatalf("%s: no next page", describe(q))
			}
			for i := range page.Next {
				for _, with := range []string{"", "A", "_", "!"} {
					q.Cursor = page.Next[:i] + with + page.Next[i+1:]
					if _, err := f.List(f.ctx, q); err != nil && !errors.Is(err, store.ErrBadCursor) {
						f.Errorf("cursor %q: %v", q.Cursor, err)
					}
				}
			}
		}
	}},
	{name: "cursor/of another filter is refused", options: Options{Retention: long}, run: func(f *fixture) {
		f.populate(200)
		queries := filters(f.now())
		for i, from := range queries {
			from.Limit = 1
			page, err := f.List(f.ctx, from)
			f.noError("List", err)
			if page.Next == "" {
				continue
			}
			for k, other := range queries {
				other.Limit, other.Cursor = 5, page.Next
				_, err := f.List(f.ctx, other)
				if i != k && !errors.Is(err, store.ErrBadCursor) {
					f.Errorf("cursor of %s for %s: %v, want ErrBadCursor", describe(from), describe(other), err)
				}
				if i == k && err != nil {
					f.Errorf("cursor of %s: %v", describe(from), err)
				}
			}
		}
	}},
	{name: "cursor/one outlives the jobs that it points at", options: Options{}, run: func(f *fixture) {
		for _, topic := range []string{"a", "b", "c"} {
			f.add(reg(topic, "1", delay(long)))
			f.add(reg(topic, "2", delay(long)))
		}
		first, err := f.List(f.ctx, store.Query{Limit: 3})
		f.noError("List", err)
		for _, j := range first.Jobs {
			f.update(j.Key, cancel)
		}
		rest := f.list(store.Query{Limit: 3, Cursor: first.Next})
		f.once(slices.SortedFunc(slices.Values(append(first.Jobs, rest...)), func(a, b job.Job) int {
			return cmp.Compare(a.Key.String(), b.Key.String())
		}), 6)
	}},
	{name: "cursor/the last page has none", options: Options{}, run: func(f *fixture) {
		for i := range 10 {
			f.add(reg("t", fmt.Sprintf("job-%d", i), delay(long)))
		}
		for _, limit := range []int{10, 11, 1_000} {
			page, err := f.List(f.ctx, store.Query{Limit: limit})
			f.noError("List", err)
			for page.Next != "" { // empty pages may follow
				page, err = f.List(f.ctx, store.Query{Limit: limit, Cursor: page.Next})
				f.noError("List", err)
				equal(f, "jobs after the last", keys(page.Jobs), nil)
			}
		}
	}},
}
