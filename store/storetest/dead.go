package storetest

import (
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// deadGroups reads all pages of the groups of dead letters.
func (f *fixture) deadGroups(topic string, limit int) []store.DeadGroup {
	f.Helper()
	var all []store.DeadGroup
	cursor := ""
	for range 1_000 {
		page, err := f.DeadGroups(f.ctx, topic, limit, cursor)
		f.noError("DeadGroups", err)
		if len(page.Groups) > limit {
			f.Fatalf("a page of %d groups, at most %d were asked for", len(page.Groups), limit)
		}
		all = append(all, page.Groups...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
	f.Fatal("the listing does not end")
	return nil
}

// refused is the settlement of a claim that no attempt can help.
func refused(c store.Claimed, reason string) job.Settlement {
	return job.Settle(&c.Job, job.Outcome{Kind: job.OutcomeRefused, Reason: reason, Attempt: attempt(c, 410)}, never)
}

// grouped is what the groups must be, by name, worked out from all jobs.
func (f *fixture) grouped(topic string) []store.DeadGroup {
	f.Helper()
	groups := map[string]*store.DeadGroup{}
	var names []string
	for _, j := range f.list(store.Query{Topic: topic, States: stateOf(job.Dead), Limit: 1_000}) {
		name := listing.DeadName(j.Lane(), j.Reason)
		g := groups[name]
		if g == nil {
			g = &store.DeadGroup{Lane: j.Lane(), Reason: j.Reason, Oldest: j.EndedAt}
			groups[name], names = g, append(names, name)
		}
		g.Count++
		g.Oldest, g.Newest = min(g.Oldest, j.EndedAt), max(g.Newest, j.EndedAt)
	}
	out := make([]store.DeadGroup, len(names))
	for i, name := range slices.Sorted(slices.Values(names)) {
		out[i] = *groups[name]
	}
	return out
}

// die makes dead letters of three topics, endpoints and reasons.
func (f *fixture) die(n int) {
	f.Helper()
	regs := make([]store.Registration, n)
	for i := range regs {
		regs[i] = reg([]string{"t", "t-u", "u"}[i%3], fmt.Sprintf("job-%03d", i), to(fmt.Sprintf("http://e%d.example/", i%4)))
	}
	f.register(store.Created, regs...)
	var settlements []job.Settlement
	for i, c := range f.take() {
		settlements = append(settlements, refused(c, []string{job.ReasonGone, job.ReasonAborted, job.ReasonBlocked}[i%3]))
	}
	_, err := f.Settle(f.ctx, settlements)
	f.noError("Settle", err)
}

func deadCounted(f *fixture) {
	equal(f, "groups of nothing", f.deadGroups("", 10), nil)
	f.die(120)
	all := f.deadGroups("", 1_000)
	equal(f, "groups", all, f.grouped(""))
	total := int64(0)
	for _, g := range all {
		total += g.Count
	}
	equal(f, "dead letters", total, int64(120))
	for _, limit := range []int{1, 2, 7} {
		equal(f, fmt.Sprintf("pages of %d", limit), f.deadGroups("", limit), all)
	}
	for _, topic := range []string{"t", "t-u", "u", "none"} {
		equal(f, "groups of "+topic, f.deadGroups(topic, 3), f.grouped(topic))
	}
	// They change with the jobs, and are gone with the last.
	jobs := f.list(store.Query{States: stateOf(job.Dead), Limit: 1_000})
	for i, j := range jobs {
		switch i % 3 {
		case 0:
			f.update(j.Key, replay)
		case 1:
			f.update(j.Key, discard)
		default:
			f.add(reg(j.Topic, j.ID, delay(long), onConflict(job.ConflictReplace))) // in its place
		}
		if i%40 == 0 {
			equal(f, "groups", f.deadGroups("", 100), f.grouped(""))
		}
	}
	equal(f, "groups in the end", f.deadGroups("", 10), nil)
}

var deadCases = []testCase{
	{name: "dead/groups are counted", options: Options{Retention: long}, run: deadCounted},
	{name: "dead/groups are counted, over shards", options: Options{Shards: 3}, run: deadCounted},
	{name: "dead/a discarded one is kept like a cancelled job", options: Options{Retention: short}, run: func(f *fixture) {
		was := f.end(reg("t", "a", biz("b")), job.Dead)
		f.end(reg("t", "stays", biz("b")), job.Dead)
		before := f.now()
		j := f.update(was.Key, discard)
		equal(f, "state", j.State, job.Cancelled)
		equal(f, "reason", j.Reason, job.ReasonDiscarded)
		equal(f, "attempts", j.Attempts, was.Attempts)
		f.between("ended at", j.EndedAt, before, f.now())
		equal(f, "the stored job", f.get(j.Key), j)
		equal(f, "attempts in the log", len(f.attempts(j.Key)), 1)
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Cancelled: 1, job.Dead: 1})
		equal(f, "dead letters", keys(f.list(store.Query{States: stateOf(job.Dead)})), []string{"t/stays"})
		equal(f, "discarded", keys(f.list(store.Query{Reason: job.ReasonDiscarded})), []string{"t/a"})
		equal(f, "by biz_key", len(f.list(store.Query{BizKey: "b"})), 2)
		equal(f, "groups", f.deadGroups("", 10), f.grouped(""))
		f.waitPast(j.EndedAt.Add(short))
		f.purge(1, 10)
		f.notFound(j.Key)
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Dead: 1})
	}},
	{name: "dead/a discarded one is forgotten when nothing is retained", options: Options{}, run: func(f *fixture) {
		key := f.end(reg("t", "a", biz("b")), job.Dead).Key
		equal(f, "state", f.update(key, discard).State, job.Cancelled)
		f.notFound(key)
		equal(f, "counts", f.states("t"), nil)
		equal(f, "groups", f.deadGroups("", 10), nil)
		f.add(reg("t", "a"))
	}},
	{name: "dead/another job than a dead letter is not discarded", options: Options{Retention: long}, run: func(f *fixture) {
		for _, s := range []job.State{job.Delivered, job.Cancelled, job.Expired} {
			was := f.end(reg("t-"+s.String(), "a"), s)
			j, err := f.Update(f.ctx, was.Key, discard)
			f.isError("Update", err, job.ErrNotDead)
			equal(f, "the job as it stands", j, was)
		}
	}},
	{name: "dead/one is replayed with changes", options: Options{Shards: 2}, run: func(f *fixture) {
		was := f.end(reg("t", "a", biz("one"), body("wrong")), job.Dead)
		s := was.Spec
		s.Destination, s.BizKey, s.Body, s.Priority = urlB, "two", []byte("right"), 2
		j := f.update(was.Key, func(j *job.Job, now job.Instant) error { return j.ReplayAs(s, nil, now) })
		equal(f, "the stored job", f.get(j.Key), j)
		equal(f, "groups", f.deadGroups("", 10), nil)
		equal(f, "by the biz_key of before", keys(f.list(store.Query{BizKey: "one"})), nil)
		equal(f, "by biz_key", keys(f.list(store.Query{BizKey: "two"})), []string{"t/a"})
		c := f.takeOne()
		equal(f, "uid", c.Job.UID, was.UID)
		equal(f, "claimed", c.Job.Spec, s)
		f.settle(store.Applied, delivered(c))
	}},
	{name: "dead/filters by endpoint and reason read no other group", options: Options{Shards: 2}, run: func(f *fixture) {
		f.die(60)
		for _, g := range f.deadGroups("", 100) {
			q := store.Query{
				Topic: g.Lane.Topic, Endpoint: g.Lane.Endpoint, Reason: g.Reason, States: stateOf(job.Dead), Limit: 1_000,
			}
			equal(f, describe(q), int64(len(f.list(q))), g.Count)
		}
	}},
	{name: "dead/cursors that were made up are refused", options: Options{}, run: func(f *fixture) {
		f.die(12)
		encode := base64.RawURLEncoding.EncodeToString
		page, err := f.DeadGroups(f.ctx, "t", 1, "")
		f.noError("DeadGroups", err)
		for _, c := range []string{"x", "====", "ü", encode([]byte("d t")), encode([]byte("d t|e")), encode([]byte("t|M|e|made up")), page.Next + "!"} {
			_, err := f.DeadGroups(f.ctx, "", 1, c)
			f.isError("cursor "+c, err, store.ErrBadCursor)
		}
		_, err = f.DeadGroups(f.ctx, "u", 1, page.Next)
		f.isError("cursor of another topic", err, store.ErrBadCursor)
		_, err = f.DeadGroups(f.ctx, "", 1, encode([]byte("d t|M|e|made up")))
		f.noError("a cursor behind nothing", err)
	}},
}
