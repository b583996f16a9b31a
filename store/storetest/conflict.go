package storetest

import (
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

var conflictCases = []testCase{
	{name: "conflict/equal content is the same job in every unfinished state", options: Options{}, run: func(f *fixture) {
		r := reg("t", "a")
		same := func(state job.State) {
			f.Helper()
			again := r
			again.UID = newUID()
			again.Spec.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
			before := f.get(r.Key)
			equal(f, "state", before.State, state)
			for _, p := range []store.ConflictPolicy{store.Reject, store.Ignore, store.Replace} {
				again.OnConflict = p
				equal(f, "the job", f.register(store.Same, again)[0], before)
				equal(f, "the stored job", f.get(r.Key), before)
			}
		}
		f.add(r)
		same(job.Waiting)
		f.carry(carryOptions)
		same(job.Ready)
		c := f.claim(f.pop(), terms())[0]
		same(job.Running)
		f.settle(store.Applied, failed(c, after(long)))
		same(job.Retrying)
	}},
	{name: "conflict/other content is refused or ignored", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a", delay(long)))
		before := f.get(job.Key{Topic: "t", ID: "a"})
		for _, other := range []store.Registration{
			reg("t", "a"), reg("t", "a", delay(long), body("x")), reg("t", "a", delay(long), to(urlB)),
			reg("t", "a", delay(long), biz("b")), reg("t", "a", delay(long), ttl(long)),
			reg("t", "a", delay(long), idempotent, body("x")),
		} {
			equal(f, "the old job", f.register(store.Exists, other)[0], before)
			other.OnConflict = store.Ignore
			equal(f, "the old job", f.register(store.Kept, other)[0], before)
		}
		equal(f, "the stored job", f.get(before.Key), before)
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Waiting: 1})
	}},
	{name: "conflict/a waiting or ready job is replaced", options: Options{}, run: func(f *fixture) {
		old := reg("t", "a", biz("old"))
		f.add(old)
		f.carry(carryOptions)
		hints := f.pop()
		equal(f, "state of the old job", f.get(old.Key).State, job.Ready)

		fresh := reg("t", "a", to(urlB), biz("new"), delay(long), onConflict(store.Replace))
		j := f.register(store.Created, fresh)[0]
		equal(f, "uid", j.UID, fresh.UID)
		equal(f, "the stored job", f.get(old.Key), j)
		equal(f, "jobs", keys(f.list(store.Query{Limit: 10})), []string{"t/a"})
		equal(f, "by the old biz_key", keys(f.list(store.Query{BizKey: "old"})), nil)
		equal(f, "by the new biz_key", keys(f.list(store.Query{BizKey: "new"})), []string{"t/a"})
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Waiting: 1})
		equal(f, "claimed by the old hint", claimedKeys(f.claim(hints, terms())), nil)
		equal(f, "carried", f.carry(carryOptions), nil)
	}},
	{name: "conflict/a retrying job is replaced with its log", options: Options{}, run: func(f *fixture) {
		old := reg("t", "a")
		f.add(old)
		f.settle(store.Applied, failed(f.takeOne(), after(long)))
		fresh := reg("t", "a", body("new"), onConflict(store.Replace))
		f.register(store.Created, fresh)
		equal(f, "attempts", f.attempts(old.Key), nil)
		j := f.get(old.Key)
		equal(f, "attempts counted", j.Attempts, 0)
		equal(f, "last attempt", j.LastAttempt == nil, true)
		equal(f, "state", j.State, job.Waiting)
	}},
	{name: "conflict/a job in flight is not replaced", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		c := f.takeOne()
		before := f.get(c.Job.Key)
		other := reg("t", "a", body("new"), onConflict(store.Replace))
		equal(f, "the old job", f.register(store.InFlight, other)[0], before)
		equal(f, "the stored job", f.get(c.Job.Key), before)
		f.settle(store.Applied, delivered(c))
	}},
	{name: "conflict/a worker of a replaced job is stale", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.carry(carryOptions)
		lapsed := f.lapse(f.pop())[0]
		f.carry(carryOptions) // ready again, so no longer in flight
		f.register(store.Created, reg("t", "a", body("new"), delay(long), onConflict(store.Replace)))
		f.unchangedBy(delivered(lapsed))
	}},
	{name: "conflict/an ended job is registered anew", options: Options{Retention: long}, run: func(f *fixture) {
		for _, state := range finals {
			topic := "t-" + state.String()
			old := f.end(reg(topic, "a", biz("old")), state)
			equal(f, "state", old.State, state)
			fresh := reg(topic, "a", biz("old"), delay(0))
			j := f.register(store.Created, fresh)[0]
			equal(f, "uid", j.UID, fresh.UID)
			equal(f, "state", j.State, job.Waiting)
			equal(f, "the stored job", f.get(j.Key), j)
			equal(f, "log", f.attempts(j.Key), nil)
			equal(f, "counts", f.states(topic), map[job.State]int64{job.Waiting: 1})
			equal(f, "still listed as it ended", keys(f.list(store.Query{Topic: topic, States: stateOf(state)})), nil)
			equal(f, "jobs", keys(f.list(store.Query{Topic: topic, Limit: 5})), []string{topic + "/a"})
			f.settle(store.Applied, delivered(f.takeOne()))
		}
	}},
	{name: "conflict/each registration of a key is dated after the one before", options: Options{Retention: long}, run: func(f *fixture) {
		before := f.add(reg("t", "a", delay(long)))
		for range 5 { // faster than a clock of milliseconds
			r := reg("t", "a", body(newUID()), delay(0), onConflict(store.Replace))
			j := f.register(store.Created, r)[0]
			if j.CreatedAt <= before.CreatedAt {
				f.Errorf("created at %d, and the one before at %d", j.CreatedAt, before.CreatedAt)
			}
			equal(f, "the stored job", f.get(j.Key), j)
			before = j
		}
		f.waitPast(before.NextAt)
		equal(f, "due", len(f.take()), 1)
	}},
	{name: "conflict/an idempotent registration finds the ended job", options: Options{Retention: long}, run: func(f *fixture) {
		for _, state := range finals {
			r := reg("t-"+state.String(), "a", idempotent)
			old := f.end(r, state)
			again := r
			again.UID = newUID()
			equal(f, "the job", f.register(store.Same, again)[0], old)
			again.Spec.Body = []byte("other")
			equal(f, "uid", f.register(store.Created, again)[0].UID, again.UID)
			f.update(r.Key, cancel)
		}
	}},
	{name: "conflict/a worker of the job before is stale", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.carry(carryOptions)
		lapsed := f.lapse(f.pop())[0]
		f.settle(store.Applied, delivered(f.takeOne()))
		f.add(reg("t", "a"))
		second := f.takeOne()
		f.unchangedBy(delivered(lapsed))
		f.settle(store.Applied, delivered(second))
	}},
	{name: "conflict/a worker of a forgotten job is stale", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		first := f.takeOne()
		f.settle(store.Applied, delivered(first))
		f.notFound(first.Job.Key)
		f.waitPast(first.Now)
		f.add(reg("t", "a"))
		second := f.takeOne()
		f.unchangedBy(delivered(first))
		equal(f, "token grows", second.Job.Token > first.Job.Token, true)
		f.settle(store.Applied, delivered(second))
	}},
}

// unchangedBy expects that a settlement is stale and changes nothing.
func (f *fixture) unchangedBy(s job.Settlement) {
	f.Helper()
	before, log := f.get(s.Key), f.attempts(s.Key)
	f.settle(store.Stale, s)
	equal(f, "the job after a stale settlement", f.get(s.Key), before)
	equal(f, "the log after a stale settlement", f.attempts(s.Key), log)
}
