package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

func ordered(key string) func(*store.Registration) {
	return func(r *store.Registration) {
		r.Spec.OrderKey = key
		r.UID = store.OrderUID(r.UID, r.Key.Topic, key)
	}
}

// inOrder carries, claims and delivers until nothing is due. It fails when two jobs of an
// order key are claimed together. It returns the ids of the delivered jobs in their order.
func (f *fixture) inOrder() []string {
	f.Helper()
	var ids []string
	for claims := f.nextTurns(); len(claims) > 0; claims = f.nextTurns() {
		f.apart(claims)
		for _, c := range claims {
			ids = append(ids, c.Job.ID)
			f.settle(store.Applied, delivered(c))
		}
	}
	return ids
}

// nextTurns claims all that is due a moment later: the jobs whose turns came just now, too.
func (f *fixture) nextTurns() []store.Claimed {
	f.Helper()
	f.waitPast(f.now().Add(time.Millisecond))
	return f.take()
}

// apart fails when two of the jobs in flight have the same topic and order key.
func (f *fixture) apart(claims []store.Claimed) {
	f.Helper()
	seen := map[string]string{}
	for _, c := range claims {
		key := c.Job.Topic + "/" + c.Job.Spec.OrderKey
		if other, taken := seen[key]; taken && c.Job.Spec.OrderKey != "" {
			f.Fatalf("%s and %s of the order key %s are in flight", other, c.Job.ID, key)
		}
		seen[key] = c.Job.ID
	}
}

func (f *fixture) head(id string) string {
	f.Helper()
	o := f.outlook(job.Key{Topic: "t", ID: id})
	if o.Head == nil {
		return ""
	}
	return o.Head.ID
}

// before is how many jobs of its order key go before the job.
func (f *fixture) before(id string) int64 {
	f.Helper()
	return f.outlook(job.Key{Topic: "t", ID: id}).Before
}

// keys fails unless the depth counts so many order keys, and jobs that wait for others of
// their key.
func (f *fixture) keys(keys, behind int64) {
	f.Helper()
	d := f.depth()
	equal(f, "order keys, and jobs behind others", [2]int64{d.OrderKeys, d.Behind}, [2]int64{keys, behind})
}

// dueAt has the registration due at an instant.
func dueAt(at job.Instant) func(*store.Registration) {
	return func(r *store.Registration) { r.Spec.When = job.When{At: at} }
}

var stopOnDead = store.Limits{StopOnDead: true}

var turnCases = []testCase{
	{name: "turns/one at a time, as registered", options: Options{Retention: long}, run: func(f *fixture) {
		for _, id := range []string{"c", "a", "b"} {
			f.add(reg("t", id, ordered("k")))
			f.waitPast(f.now())
		}
		f.add(reg("t", "x", ordered("other")))
		f.add(reg("t", "y"))
		f.add(reg("u", "z", ordered("k")))
		claims := f.take()
		equal(f, "claimed", claimedKeys(claims), []string{"t/c", "t/x", "t/y", "u/z"})
		equal(f, "claimed meanwhile", claimedKeys(f.take()), nil)
		equal(f, "a waits for", f.head("a"), "c")
		equal(f, "b waits for", f.head("b"), "c")
		equal(f, "c waits for", f.head("c"), "")
		equal(f, "states", f.states("t"), map[job.State]int64{job.Running: 3, job.Waiting: 2})
		f.keys(3, 2)
		for _, c := range claims {
			f.settle(store.Applied, delivered(c))
		}
		f.keys(1, 1)
		equal(f, "then", f.inOrder(), []string{"a", "b"})
		f.keys(0, 0)
	}},
	{name: "turns/of one batch", options: Options{}, run: func(f *fixture) {
		var regs []store.Registration
		var want []string
		for i := range 40 {
			id := fmt.Sprint(40 - i)
			regs, want = append(regs, reg("t", id, ordered("k"))), append(want, id)
		}
		f.register(store.Created, regs...)
		equal(f, "delivered", f.inOrder(), want)
	}},
	{name: "turns/by due time", options: Options{}, run: func(f *fixture) {
		at := f.now().Add(long)
		f.add(reg("t", "third", ordered("k"), dueAt(at.Add(3*short))))
		f.add(reg("t", "second", ordered("k"), dueAt(at.Add(2*short))))
		f.add(reg("t", "fourth", ordered("k"), dueAt(at.Add(4*short))))
		f.add(reg("t", "first", ordered("k"), dueAt(at.Add(short))))
		for _, id := range []string{"first", "second", "third"} {
			equal(f, "fourth waits for", f.head("fourth"), id)
			f.update(job.Key{Topic: "t", ID: id}, cancel)
		}
		equal(f, "then for", f.head("fourth"), "")
	}},
	{name: "turns/across endpoints and priorities", options: Options{}, run: func(f *fixture) {
		var want []string
		for i, with := range [][]func(*store.Registration){
			{to(urlB)}, {priority(9)}, {}, {to(urlB), priority(1)}, {priority(9), to(urlB)}, {},
		} {
			id := fmt.Sprint(i)
			f.add(reg("t", id, append(with, ordered("k"))...))
			f.waitPast(f.now())
			want = append(want, id)
		}
		equal(f, "delivered", f.inOrder(), want)
	}},
	{name: "turns/retries hold the others", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a", ordered("k")))
		f.waitPast(f.now())
		f.add(reg("t", "b", ordered("k"), to(urlB)))
		f.settle(store.Applied, failed(f.takeOne(), after(long)))
		f.add(reg("t", "early", ordered("k"), dueAt(1)))
		equal(f, "claimed", claimedKeys(f.take()), nil)
		equal(f, "b waits for", f.head("b"), "a")
		f.add(reg("t", "c", ordered("k")))
		equal(f, "jobs before b, early and c", [3]int64{f.before("b"), f.before("early"), f.before("c")}, [3]int64{1, 2, 3})
		f.update(job.Key{Topic: "t", ID: "a"}, runNow)
		equal(f, "delivered", f.inOrder(), []string{"a", "b", "early", "c"})
	}},
	{name: "turns/an expired lease keeps the turn", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a", ordered("k")))
		f.waitPast(f.now())
		f.add(reg("t", "b", ordered("k")))
		f.expire(generous)
		equal(f, "delivered", f.inOrder(), []string{"a", "b"})
	}},
	{name: "turns/a release keeps the turn", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a", ordered("k")))
		f.waitPast(f.now())
		f.add(reg("t", "b", ordered("k")))
		f.settle(store.Applied, released(f.takeOne(), 0))
		equal(f, "delivered", f.inOrder(), []string{"a", "b"})
	}},
	{name: "turns/an end passes the turn on", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "dead", ordered("k")))
		for _, id := range []string{"cancelled", "expired", "moved", "last"} {
			f.waitPast(f.now())
			f.add(reg("t", id, ordered("k")))
		}
		f.settle(store.Applied, failed(f.takeOne(), never))
		f.update(job.Key{Topic: "t", ID: "cancelled"}, cancel)
		c := f.nextTurns()[0]
		equal(f, "the third", c.Job.ID, "expired")
		f.settle(store.Applied, job.Settle(&c.Job, job.Outcome{Kind: job.OutcomeExpired}, never))
		f.update(job.Key{Topic: "t", ID: "moved"}, later)
		equal(f, "delivered", f.inOrder(), []string{"last"})
		equal(f, "moved waits for", f.head("moved"), "")
	}},
	{name: "turns/a job expires when its turn comes", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a", ordered("k")))
		f.waitPast(f.now())
		f.add(reg("t", "b", ordered("k"), delay(long), ttl(short)))
		f.add(reg("t", "c", ordered("k"), delay(2*long)))
		a := f.takeOne()
		f.waitPast(f.get(job.Key{Topic: "t", ID: "b"}).ExpiresAt)
		equal(f, "claimed", claimedKeys(f.take()), nil)
		equal(f, "meanwhile b is", f.get(job.Key{Topic: "t", ID: "b"}).State, job.Waiting)
		f.settle(store.Applied, delivered(a))
		b := f.takeOne()
		equal(f, "then", b.Job.ID, "b")
		equal(f, "before", b.Job.Before(b.From, b.Earlier, b.Now), &job.Outcome{Kind: job.OutcomeExpired})
		f.settle(store.Applied, job.Settle(&b.Job, job.Outcome{Kind: job.OutcomeExpired}, never))
		equal(f, "c waits for", f.head("c"), "")
		equal(f, "claimed early", claimedKeys(f.take()), nil)
	}},
	{name: "turns/changes of due times", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a", ordered("k"), delay(long)))
		f.add(reg("t", "b", ordered("k"), delay(2*long)))
		f.add(reg("t", "c", ordered("k"), delay(3*long)))
		equal(f, "claimed", claimedKeys(f.take()), nil)
		f.update(job.Key{Topic: "t", ID: "c"}, runNow)
		equal(f, "a waits for", f.head("a"), "c")
		f.waitPast(f.now())
		f.update(job.Key{Topic: "t", ID: "b"}, runNow)
		equal(f, "delivered", f.inOrder(), []string{"c", "b"})
		f.update(job.Key{Topic: "t", ID: "a"}, respecify(func(s *job.Spec) { s.Destination, s.Priority = urlB, 9 }))
		f.update(job.Key{Topic: "t", ID: "a"}, runNow)
		equal(f, "then", f.inOrder(), []string{"a"})
	}},
	{name: "turns/a due job that another one overtakes waits", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a", ordered("k")))
		f.add(reg("t", "b", ordered("k"), delay(long)))
		f.ready(job.Waiting)
		f.update(job.Key{Topic: "t", ID: "a"}, later)
		f.update(job.Key{Topic: "t", ID: "b"}, runNow)
		f.waitPast(f.now())
		f.update(job.Key{Topic: "t", ID: "a"}, runNow)
		equal(f, "delivered", f.inOrder(), []string{"b", "a"})
	}},
	{name: "turns/a cancel in flight", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a", ordered("k")))
		f.waitPast(f.now())
		f.add(reg("t", "b", ordered("k")))
		c := f.takeOne()
		f.update(c.Job.Key, cancel)
		equal(f, "claimed", claimedKeys(f.take()), nil)
		f.settle(store.Applied, failed(c, always))
		equal(f, "delivered", f.inOrder(), []string{"b"})
	}},
	{name: "turns/replaced and registered again", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a", ordered("k"), delay(long)))
		f.add(reg("t", "b", ordered("k"), delay(2*long)))
		f.register(store.OtherOrderKey, reg("t", "a", ordered("other"), onConflict(job.ConflictReplace)))
		f.register(store.OtherOrderKey, reg("t", "a", onConflict(job.ConflictReplace)))
		f.add(reg("t", "a", ordered("k"), delay(3*long), onConflict(job.ConflictReplace)))
		equal(f, "a waits for", f.head("a"), "b")
		f.add(reg("t", "b", ordered("k"), onConflict(job.ConflictReplace), biz("other")))
		equal(f, "delivered", f.inOrder(), []string{"b"})
		f.register(store.Same, reg("t", "a", ordered("k"), delay(3*long)))
		f.add(reg("t", "b", ordered("other"), onConflict(job.ConflictReplace)))
		equal(f, "of another key", f.inOrder(), []string{"b"})
		f.add(reg("t", "b", onConflict(job.ConflictReplace)))
		equal(f, "without a key", f.inOrder(), []string{"b"})
		f.add(reg("t", "b", ordered("k"), onConflict(job.ConflictReplace), delay(4*long)))
		equal(f, "b waits for", f.head("b"), "a")
		equal(f, "its content", f.get(job.Key{Topic: "t", ID: "b"}).Spec.OrderKey, "k")
	}},
	{name: "turns/a dead letter is replayed", options: Options{Retention: long}, run: func(f *fixture) {
		f.end(reg("t", "a", ordered("k")), job.Dead)
		f.waitPast(f.now())
		f.add(reg("t", "b", ordered("k")))
		f.update(job.Key{Topic: "t", ID: "a"}, replay)
		equal(f, "delivered", f.inOrder(), []string{"a", "b"})
	}},
	{name: "turns/a dead letter stops its key until it is replayed", options: Options{Retention: long}, run: func(f *fixture) {
		f.limit("t", stopOnDead)
		f.add(reg("t", "a", ordered("k")))
		f.waitPast(f.now())
		f.add(reg("t", "b", ordered("k")))
		f.settle(store.Applied, failed(f.takeOne(), never))
		f.add(reg("t", "c", ordered("k")))
		f.add(reg("t", "x", ordered("other")))
		equal(f, "delivered", f.inOrder(), []string{"x"})
		equal(f, "b waits for", f.head("b"), "a")
		equal(f, "which is", f.outlook(job.Key{Topic: "t", ID: "b"}).Head.State, job.Dead)
		f.keys(1, 2)
		f.update(job.Key{Topic: "t", ID: "a"}, replay)
		equal(f, "then", f.inOrder(), []string{"a", "b", "c"})
	}},
	{name: "turns/a dead letter stops its key until it is discarded", options: Options{Retention: long}, run: func(f *fixture) {
		f.limit("t", stopOnDead)
		f.end(reg("t", "a", ordered("k")), job.Dead)
		f.add(reg("t", "b", ordered("k")))
		equal(f, "delivered", f.inOrder(), nil)
		f.update(job.Key{Topic: "t", ID: "a"}, discard)
		equal(f, "then", f.inOrder(), []string{"b"})
		f.end(reg("t", "a", ordered("k"), onConflict(job.ConflictReplace)), job.Dead)
		f.add(reg("t", "b", ordered("k"), onConflict(job.ConflictReplace), body("2")))
		equal(f, "stopped again", f.inOrder(), nil)
		f.limit("t", store.Limits{})
		f.add(reg("t", "a", ordered("k"), onConflict(job.ConflictReplace), body("2")))
		f.waitPast(f.now())
		equal(f, "in the end", f.inOrder(), []string{"b", "a"})
	}},
	{name: "turns/counted by when they are due", options: Options{}, run: func(f *fixture) {
		start := f.now().Add(long)
		for i := range 20 { // first few, then many
			for _, id := range []string{fmt.Sprint("a", i), fmt.Sprint("b", i)} {
				f.add(reg("t", id, ordered("k"), dueAt(start.Add(time.Duration(i)*time.Second))))
			}
			n := int64(2 * (i + 1))
			equal(f, "due", f.dueCounts(start, 0, time.Second, time.Hour), []int64{0, min(n, 2), max(n-2, 0), 0})
		}
		f.keys(1, 39)
	}},
	{name: "turns/listed", options: Options{Retention: long}, run: func(f *fixture) {
		for i := range 7 {
			f.add(reg("t", fmt.Sprint(i), ordered(fmt.Sprint(i%2)), delay(time.Duration(i)*time.Second)))
		}
		f.add(reg("t", "plain"))
		equal(f, "of a key", keys(f.list(store.Query{Topic: "t", OrderKey: "1", Limit: 2})), []string{"t/1", "t/3", "t/5"})
		equal(f, "of all", len(f.list(store.Query{Limit: 2})), 8)
		for i := range 7 {
			j := f.get(job.Key{Topic: "t", ID: fmt.Sprint(i)})
			equal(f, "by uid", keys(f.list(store.Query{UID: j.UID, Limit: 1})), []string{j.Key.String()})
		}
		equal(f, "by state", len(f.list(store.Query{Topic: "t", States: stateOf(job.Waiting), Limit: 3})), 8)
	}},
	{name: "turns/the limit of a topic at an endpoint", options: Options{}, run: func(f *fixture) {
		for i := range 6 {
			f.add(reg("t", fmt.Sprint(i), ordered(fmt.Sprint(i))))
			f.add(reg("t", fmt.Sprint("plain", i)))
		}
		o := generous
		o.Limits.TopicLimits = map[string]int{"t": 3}
		equal(f, "carried", len(f.takeWith(o)), 3)
	}},
	{name: "turns/a topic's concurrency", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Concurrency: 1})
		var want []string
		for i := range 5 {
			id := fmt.Sprint(i)
			f.add(reg("t", id, ordered("k")))
			f.waitPast(f.now())
			want = append(want, id)
		}
		equal(f, "delivered", f.oneByOne(5, generous), want)
	}},
	{name: "turns/at random", options: Options{Retention: long}, run: func(f *fixture) {
		for seed := range uint64(8) {
			newTurnsModel(f, seed).run()
		}
	}},
}

// turnCasesOverShards are the same on a store of several shards.
var turnCasesOverShards = func() []testCase {
	cases := slices.Clone(turnCases)
	for i := range cases {
		cases[i].name += ", over shards"
		cases[i].options.Shards = 3
	}
	return cases
}()
