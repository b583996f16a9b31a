package storetest

import (
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// endpoints reads all pages of what q selects. Circuits are told by their state.
func (f *fixture) endpoints(q store.EndpointQuery) []endpointLine {
	f.Helper()
	var all []endpointLine
	for range 1_000 {
		page, err := f.Endpoints(f.ctx, q)
		f.noError("Endpoints", err)
		if len(page.Endpoints) > q.Limit {
			f.Fatalf("a page of %d endpoints, at most %d were asked for", len(page.Endpoints), q.Limit)
		}
		if now := f.now(); page.Now == 0 || page.Now > now {
			f.Fatalf("the page is of %d, and it is %d", page.Now, now)
		}
		for _, e := range page.Endpoints {
			all = append(all, endpointLine{e.Endpoint, e.Circuit.State(), e.Waiting, e.Ready, e.Running})
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return all
		}
	}
	f.Fatal("the listing does not end")
	return nil
}

type endpointLine struct {
	Endpoint                string
	State                   store.CircuitState
	Waiting, Ready, Running int64
}

func endpointNamed(n int) string { return fmt.Sprintf("http://e%02d.example:80", n) }

func endpointsCounted(f *fixture) {
	equal(f, "endpoints of nothing", f.endpoints(store.EndpointQuery{Limit: 10}), nil)
	// Jobs of two topics for each of five endpoints: due, and later.
	for n := range 5 {
		url := to(endpointNamed(n))
		f.register(store.Created, many("t", n+1, url, func(r *store.Registration) { r.Key.ID += endpointNamed(n)[7:10] })...)
		f.register(store.Created, many("u", 2, url, delay(long), func(r *store.Registration) { r.Key.ID += endpointNamed(n)[7:10] })...)
	}
	f.add(reg("t", "fetched", pulled))
	all := make([]endpointLine, 5)
	for n := range all {
		all[n] = endpointLine{Endpoint: endpointNamed(n), Waiting: int64(n + 3)}
	}
	equal(f, "endpoints", f.endpoints(store.EndpointQuery{Limit: 1_000}), all)
	for _, limit := range []int{1, 2, 4} {
		equal(f, fmt.Sprintf("pages of %d", limit), f.endpoints(store.EndpointQuery{Limit: limit}), all)
	}
	equal(f, "one endpoint", f.endpoints(store.EndpointQuery{Endpoint: endpointNamed(3), Limit: 1}), all[3:4])
	equal(f, "an unknown endpoint", f.endpoints(store.EndpointQuery{Endpoint: endpointNamed(9), Limit: 1}), nil)

	// What is claimed is not what waits.
	f.take()
	for n := range all {
		all[n].Waiting, all[n].Running = 2, int64(n+1)
	}
	equal(f, "endpoints, claimed", f.endpoints(store.EndpointQuery{Limit: 3}), all)
}

func endpointsByState(f *fixture) {
	for n := range 4 {
		f.add(reg("t", fmt.Sprint(n), to(endpointNamed(n)), delay(long)))
	}
	f.noError("SetCircuit", f.SetCircuit(f.ctx, endpointNamed(1), store.CircuitOpen, long))
	f.noError("SetCircuit", f.SetCircuit(f.ctx, endpointNamed(2), store.CircuitOpen, long))
	for _, n := range []int{2, 2, 3, 8} { // of which only the second is held, and only once
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpointNamed(n), store.CircuitHalfOpen, 0))
	}
	f.noError("SetCircuit", f.SetCircuit(f.ctx, endpointNamed(7), store.CircuitOpen, long)) // without jobs
	line := func(n int, s store.CircuitState, waiting int64) endpointLine {
		return endpointLine{Endpoint: endpointNamed(n), State: s, Waiting: waiting}
	}
	closed := []endpointLine{line(0, store.CircuitClosed, 1), line(3, store.CircuitClosed, 1)}
	open := []endpointLine{line(1, store.CircuitOpen, 1), line(7, store.CircuitOpen, 0)}
	probed := []endpointLine{line(2, store.CircuitHalfOpen, 1)}
	of := func(states ...store.CircuitState) []endpointLine {
		return f.endpoints(store.EndpointQuery{States: states, Limit: 1})
	}
	equal(f, "closed", of(store.CircuitClosed), closed)
	equal(f, "open", of(store.CircuitOpen), open)
	equal(f, "half open", of(store.CircuitHalfOpen), probed)
	equal(f, "open and half open", of(store.CircuitHalfOpen, store.CircuitOpen), slices.Concat(open[:1], probed, open[1:]))
	page, err := f.Endpoints(f.ctx, store.EndpointQuery{Endpoint: endpointNamed(1), Limit: 1})
	f.noError("Endpoints", err)
	held := page.Endpoints[0].Circuit.OpenUntil.Sub(page.Now)
	equal(f, "it is told for how long", held > 0 && held <= long, true)

	f.noError("SetCircuit", f.SetCircuit(f.ctx, endpointNamed(1), store.CircuitClosed, 0))
	equal(f, "closed again", of(store.CircuitOpen), open[1:])
	also := store.EndpointQuery{Also: []string{endpointNamed(0), endpointNamed(5)}, States: []store.CircuitState{store.CircuitClosed}, Limit: 2}
	equal(f, "with others", f.endpoints(also), []endpointLine{
		closed[0], line(1, store.CircuitClosed, 1), closed[1], line(5, store.CircuitClosed, 0),
	})
}

var endpointCases = []testCase{
	{name: "endpoints/their jobs are counted", options: Options{}, run: endpointsCounted},
	{name: "endpoints/their jobs are counted, over shards", options: Options{Shards: 3}, run: endpointsCounted},
	{name: "endpoints/by state", options: Options{Shards: 2}, run: endpointsByState},
	{name: "endpoints/cursors that were made up are refused", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		for _, c := range []string{"x", "====", base64.RawURLEncoding.EncodeToString([]byte("shop"))} {
			_, err := f.Endpoints(f.ctx, store.EndpointQuery{Limit: 1, Cursor: c})
			f.isError("cursor "+c, err, store.ErrBadCursor)
		}
	}},
	{name: "endpoints/circuits over time", options: Options{Shards: 3}, run: func(f *fixture) {
		a, b := laneOf("", urlA).Endpoint, laneOf("", urlB).Endpoint
		circuits := func() []store.EndpointStats {
			f.Helper()
			page, err := f.Endpoints(f.ctx, store.EndpointQuery{Limit: 10})
			f.noError("Endpoints", err)
			return page.Endpoints
		}
		before := f.now()
		f.noError("SetCircuit", f.SetCircuit(f.ctx, b, store.CircuitOpen, long))
		f.openBriefly()
		seen := circuits()
		equal(f, "endpoints", []string{seen[0].Endpoint, seen[1].Endpoint}, []string{a, b})
		equal(f, "the half-open circuit", seen[0].Circuit, store.Circuit{HalfOpenUntil: seen[0].Circuit.HalfOpenUntil})
		equal(f, "it is half-open", seen[0].Circuit.HalfOpenUntil > f.now(), true)
		equal(f, "the other is open", seen[1].Circuit.OpenUntil >= before.Add(long), true)
		equal(f, "and half-open after that", seen[1].Circuit.HalfOpenUntil >= seen[1].Circuit.OpenUntil.Add(time.Minute), true)

		f.noError("SetCircuit", f.SetCircuit(f.ctx, b, store.CircuitClosed, 0))
		seen = circuits()
		equal(f, "the ramping circuit", seen[1].Circuit, store.Circuit{RampFrom: seen[1].Circuit.RampFrom})
		equal(f, "since", seen[1].Circuit.RampFrom >= before && seen[1].Circuit.RampFrom <= f.now(), true)
	}},
	{name: "endpoints/a hold is ended for a few jobs", options: Options{Shards: 2}, run: func(f *fixture) {
		f.register(store.Created, many("t", 12)...)
		endpoint := laneOf("", urlA).Endpoint
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitOpen, long))
		f.takeNone(generous)
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitHalfOpen, 0))
		equal(f, "open circuits", f.depth().OpenCircuits, 0)
		o := generous
		o.Limits.HalfOpenLimit = 2
		f.takeUntil(2, o)
		f.takeNone(o)
	}},
}

// dueCounts counts waiting jobs by their distance from an instant.
func (f *fixture) dueCounts(from job.Instant, in ...time.Duration) []int64 {
	f.Helper()
	return f.dueCountsOf(store.DueOf{}, from, in...)
}

func (f *fixture) dueCountsOf(of store.DueOf, from job.Instant, in ...time.Duration) []int64 {
	f.Helper()
	bounds := make([]job.Instant, len(in))
	for i, d := range in {
		bounds[i] = from.Add(d)
	}
	counts, err := f.DueCounts(f.ctx, of, bounds)
	f.noError("DueCounts", err)
	equal(f, "lanes left out", counts.PartialFrom, 0)
	return counts.Counts
}

func dueCounted(f *fixture) {
	const h = time.Hour
	start := f.now()
	equal(f, "counts of nothing", f.dueCounts(start, h, 2*h), []int64{0, 0, 0})
	equal(f, "counts of nothing, without bounds", f.dueCounts(start), []int64{0})
	// More lanes than are counted at a time, with jobs at each hour and a half.
	for n := range 40 {
		for at := range 5 {
			f.add(reg(fmt.Sprintf("t%d", n%7), fmt.Sprintf("%d-%d", n, at), to(endpointNamed(n)), delay(time.Duration(at)*h+h/2)))
		}
	}
	f.register(store.Created, many("now", 3)...)
	equal(f, "without bounds", f.dueCounts(start), []int64{203})
	equal(f, "by hours", f.dueCounts(start, 0, h, 2*h, 3*h, 4*h, 5*h, 6*h), []int64{0, 43, 40, 40, 40, 40, 0, 0})
	equal(f, "by two", f.dueCounts(start, 2*h, 4*h), []int64{83, 80, 40})
	equal(f, "in the end", f.dueCounts(start, h/4), []int64{3, 200})
	equal(f, "with equal bounds", f.dueCounts(start, h/2, h/2, h), []int64{3, 0, 40, 160})
	equal(f, "of a topic", f.dueCountsOf(store.DueOf{Topic: "t0"}, start, h, 2*h), []int64{6, 6, 18})
	equal(f, "of a topic that begins alike", f.dueCountsOf(store.DueOf{Topic: "t"}, start), []int64{0})
	equal(f, "of another one", f.dueCountsOf(store.DueOf{Topic: "now"}, start, h), []int64{3, 0})
	endpoint, err := job.Destination(endpointNamed(7)).Endpoint()
	f.noError("Endpoint", err)
	equal(f, "of an endpoint", f.dueCountsOf(store.DueOf{Endpoint: endpoint}, start, h, 2*h), []int64{1, 1, 3})
	equal(f, "of an endpoint's topic", f.dueCountsOf(store.DueOf{Topic: "t0", Endpoint: endpoint}, start), []int64{5})
	equal(f, "of another topic of the endpoint", f.dueCountsOf(store.DueOf{Topic: "t1", Endpoint: endpoint}, start), []int64{0})
	equal(f, "of an unknown endpoint", f.dueCountsOf(store.DueOf{Endpoint: "https://none.example:443"}, start), []int64{0})
	f.take()
	equal(f, "taken", f.dueCounts(start, 0, h), []int64{0, 40, 160})
	f.update(job.Key{Topic: "t0", ID: "0-0"}, cancel)
	equal(f, "cancelled", f.dueCounts(start, 0, h), []int64{0, 39, 160})
}

var dueCases = []testCase{
	{name: "due/jobs are counted by time", options: Options{}, run: dueCounted},
	{name: "due/jobs are counted by time, over shards", options: Options{Shards: 3}, run: dueCounted},
	{name: "due/a bound is the first instant behind it", options: Options{}, run: func(f *fixture) {
		j := f.add(reg("t", "a", delay(long)))
		equal(f, "at its instant", f.dueCounts(j.DueAt, 0), []int64{0, 1})
		equal(f, "before it", f.dueCounts(j.DueAt, time.Millisecond), []int64{1, 0})
		f.end(reg("u", "b"), job.Dead)
		equal(f, "with a dead letter", f.dueCounts(j.DueAt, 0), []int64{0, 1})
	}},
	{name: "due/what is left out is told of", options: Options{Shards: 2}, run: func(f *fixture) {
		start := f.now()
		for n := range 250 {
			for at := range 3 {
				f.add(reg("t", fmt.Sprintf("%d-%d", n, at), to(endpointNamed(n)), delay(time.Duration(n+60*at)*time.Minute)))
			}
		}
		bounds := make([]job.Instant, 400)
		for i := range bounds {
			bounds[i] = start.Add(time.Duration(i) * time.Minute)
		}
		all, err := f.DueCounts(f.ctx, store.DueOf{}, bounds)
		f.noError("DueCounts", err)
		equal(f, "left out of all", all.PartialFrom, 0)
		some, err := f.DueCounts(f.ctx, store.DueOf{Most: 150}, bounds)
		f.noError("DueCounts", err)
		if some.PartialFrom == 0 || some.PartialFrom > bounds[240] {
			f.Errorf("150 entries of 750 are counted until %d, from %d on", some.PartialFrom, start)
		}
		for i, bound := range bounds {
			if bound <= some.PartialFrom {
				equal(f, fmt.Sprint("jobs before the first that is left out, in range ", i), some.Counts[i], all.Counts[i])
			}
		}
	}},
	{name: "due/lanes with many jobs", options: Options{}, run: func(f *fixture) {
		const h = time.Hour
		start := f.now()
		for n := range 60 {
			at := delay(time.Duration(n/20)*h + h/2)
			f.add(reg("plain", fmt.Sprint(n), at))
			f.add(reg("ordered", fmt.Sprint(n), at, ordered(fmt.Sprint(n%7))))
		}
		equal(f, "by hours", f.dueCounts(start, 0, h, 2*h), []int64{0, 40, 40, 40})
		equal(f, "without bounds", f.dueCounts(start), []int64{120})
		equal(f, "of order keys", f.dueCountsOf(store.DueOf{Topic: "ordered"}, start, 2*h, 9*h), []int64{40, 20, 0})
		of := store.DueOf{Topic: "plain", Within: true, Most: 25} // the jobs before cost nothing
		within, err := f.DueCounts(f.ctx, of, []job.Instant{start.Add(2 * h), start.Add(5 * h / 2), start.Add(3 * h)})
		f.noError("DueCounts", err)
		equal(f, "within an hour", within, store.DueCounts{Counts: []int64{0, 20}})
	}},
}
