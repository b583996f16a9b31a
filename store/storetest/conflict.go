package storetest

import (
	"errors"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
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
			for _, p := range []job.OnConflict{job.ConflictReject, job.ConflictIgnore, job.ConflictReplace} {
				again.OnConflict = p
				equal(f, "the job", f.register(store.Same, again)[0], before)
				equal(f, "the stored job", f.get(r.Key), before)
			}
		}
		f.add(r)
		same(job.Waiting)
		same(f.ready(job.Waiting))
		c := f.takeOne()
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
			reg("t", "a", delay(long), body(`{"id": "A"}`)),
		} {
			equal(f, "the old job", f.register(store.Exists, other)[0], before)
			other.OnConflict = job.ConflictIgnore
			equal(f, "the old job", f.register(store.Kept, other)[0], before)
		}
		equal(f, "the stored job", f.get(before.Key), before)
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Waiting: 1})
	}},
	{name: "conflict/a due job is replaced", options: Options{}, run: func(f *fixture) {
		old := reg("t", "a", biz("old"))
		f.add(old)
		state := f.ready(job.Waiting)
		equal(f, "state of the old job", f.get(old.Key).State, state)

		fresh := reg("t", "a", to(urlB), biz("new"), delay(long), onConflict(job.ConflictReplace))
		j := f.register(store.Created, fresh)[0]
		equal(f, "uid", j.UID, fresh.UID)
		equal(f, "the stored job", f.get(old.Key), j)
		equal(f, "jobs", keys(f.list(store.Query{Limit: 10})), []string{"t/a"})
		equal(f, "by the old biz_key", keys(f.list(store.Query{BizKey: "old"})), nil)
		equal(f, "by the new biz_key", keys(f.list(store.Query{BizKey: "new"})), []string{"t/a"})
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Waiting: 1})
		f.takeNone(generous)
	}},
	{name: "conflict/a retrying job is replaced with its log", options: Options{}, run: func(f *fixture) {
		old := reg("t", "a")
		f.add(old)
		f.settle(store.Applied, failed(f.takeOne(), after(long)))
		fresh := reg("t", "a", body("new"), onConflict(job.ConflictReplace))
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
		other := reg("t", "a", body("new"), onConflict(job.ConflictReplace))
		equal(f, "the old job", f.register(store.InFlight, other)[0], before)
		equal(f, "the stored job", f.get(c.Job.Key), before)
		f.settle(store.Applied, delivered(c))
	}},
	{name: "conflict/a worker of a replaced job is stale", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		expired := f.expireOne()
		f.unlease(expired)
		f.register(store.Created, reg("t", "a", body("new"), delay(long), onConflict(job.ConflictReplace)))
		f.unchangedBy(delivered(expired))
	}},
	{name: "conflict/equal content is the same job after its end", options: Options{Retention: long}, run: func(f *fixture) {
		for _, state := range finals {
			r := reg("t-"+state.String(), "a", biz("b"))
			old := f.end(r, state)
			for _, p := range []job.OnConflict{job.ConflictReject, job.ConflictIgnore} {
				again := r
				again.UID, again.OnConflict, again.Spec.Body = newUID(), p, []byte("{ \"id\" :\n\t\"a\"\r}") // the content that counts is equal
				if state == job.Cancelled {
					equal(f, "uid", f.add(again).UID, again.UID)
					f.update(r.Key, cancel)
					continue
				}
				log := f.attempts(r.Key)
				equal(f, "the job", f.register(store.Same, again)[0], old)
				equal(f, "the stored job", f.get(r.Key), old)
				equal(f, "log", f.attempts(r.Key), log)
			}
			equal(f, "counts", f.states(r.Key.Topic), map[job.State]int64{state: 1})
		}
		equal(f, "jobs to send", claimedKeys(f.take()), nil)
	}},
	{name: "conflict/an ended job makes room for other content", options: Options{Retention: long}, run: func(f *fixture) {
		for _, state := range []job.State{job.Delivered, job.Cancelled, job.Expired} {
			topic := "t-" + state.String()
			for _, p := range []job.OnConflict{job.ConflictReject, job.ConflictIgnore, job.ConflictLater, job.ConflictSooner} {
				old := f.end(reg(topic, "a", biz("old"), body(newUID())), state)
				equal(f, "state", old.State, state)
				f.givesWay(old, reg(topic, "a", biz("old"), delay(0), onConflict(p)))
			}
		}
	}},
	{name: "conflict/later and sooner replay a dead letter", options: Options{Retention: long}, run: func(f *fixture) {
		for topic, p := range map[string]job.OnConflict{"later": job.ConflictLater, "sooner": job.ConflictSooner} {
			old := f.end(reg(topic, "a", biz("old")), job.Dead)
			log := f.attempts(old.Key)
			from := f.now()
			r := reg(topic, "a", body(newUID()), delay(long), onConflict(p))
			equal(f, "outcome", f.move(r), store.Moved)
			j := f.get(old.Key)
			f.between("due", j.NextAt, from.Add(long), f.now().Add(long))
			equal(f, "uid", j.UID, old.UID)
			equal(f, "body", string(j.Spec.Body), string(old.Spec.Body))
			equal(f, "attempts", j.Attempts, 0)
			equal(f, "log", f.attempts(old.Key), log)
			equal(f, "counts", f.states(topic), map[job.State]int64{job.Waiting: 1})
			equal(f, "outcome", f.move(reg(topic, "a", onConflict(job.ConflictSooner))), store.Moved)
			equal(f, "claimed", f.takeOne().Job.UID, old.UID)
		}
	}},
	{name: "conflict/a dead letter makes no room", options: Options{Retention: long}, run: func(f *fixture) {
		r := reg("t", "a", biz("old"))
		old := f.end(r, job.Dead)
		log := f.attempts(r.Key)
		for _, p := range []job.OnConflict{job.ConflictReject, job.ConflictIgnore} {
			for _, content := range []string{"x", string(r.Spec.Body)} {
				other := reg("t", "a", biz("old"), body(content), onConflict(p))
				if rules.Repeats(&other) && content != "x" {
					continue // the same job
				}
				equal(f, "the old job", f.register(store.DeadLetter, other)[0], old)
				equal(f, "the stored job", f.get(r.Key), old)
				equal(f, "log", f.attempts(r.Key), log)
			}
		}
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Dead: 1})
	}},
	{name: "conflict/with replace each ended job makes room", options: Options{Retention: long}, run: func(f *fixture) {
		for _, state := range finals {
			for _, content := range []string{"x", `{"id":"a"}`} {
				topic := "t-" + state.String()
				old := f.end(reg(topic, "a", biz("old"), onConflict(job.ConflictReplace)), state)
				f.givesWay(old, reg(topic, "a", biz("old"), body(content), onConflict(job.ConflictReplace)))
			}
		}
	}},
	{name: "conflict/later and sooner move the due time of an unfinished job", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a", delay(2*long)))
		before := f.get(job.Key{Topic: "t", ID: "a"})
		for _, move := range []struct {
			p    job.OnConflict
			to   time.Duration
			want store.RegisterOutcome
		}{
			{job.ConflictLater, 3 * long, store.Moved},
			{job.ConflictLater, long, store.Kept},
			{job.ConflictSooner, 3*long + short, store.Kept},
			{job.ConflictSooner, long, store.Moved},
			{job.ConflictLater, 2 * long, store.Moved},
		} {
			r := reg("t", "a", body(newUID()), delay(move.to), onConflict(move.p))
			equal(f, "the old job", f.register(store.Moves, r)[0], f.get(r.Key))
			from := f.now()
			equal(f, "outcome", f.move(r), move.want)
			if got := f.move(r); got != store.Moved && got != store.Kept {
				f.Fatalf("the second time: %v", got)
			}
			j := f.get(r.Key)
			if move.want == store.Moved {
				f.between("due", j.DueAt, from.Add(move.to), f.now().Add(move.to))
				before.DueAt, before.NextAt, before.Version, before.UpdatedAt = j.DueAt, j.DueAt, j.Version, j.UpdatedAt
			}
			equal(f, "what it was, but for its due time", j, before)
		}
		equal(f, "outcome", f.move(reg("t", "a", onConflict(job.ConflictSooner))), store.Moved)
		equal(f, "claimed", f.takeOne().Job.UID, before.UID)
	}},
	{name: "conflict/later takes back a job that is due", options: Options{}, run: func(f *fixture) {
		key := f.add(reg("t", "a")).Key
		f.ready(job.Waiting)
		equal(f, "outcome", f.move(reg("t", "a", delay(long), onConflict(job.ConflictLater))), store.Moved)
		equal(f, "state", f.get(key).State, job.Waiting)
		f.takeNone(generous)
	}},
	{name: "conflict/later and sooner meet a job in flight", options: Options{Retention: long}, run: func(f *fixture) {
		r := reg("t", "a")
		f.add(r)
		c := f.takeOne()
		for _, p := range []job.OnConflict{job.ConflictLater, job.ConflictSooner} {
			again := reg("t", "a", delay(long), onConflict(p))
			equal(f, "uid", f.register(store.InFlight, again)[0].UID, r.UID)
		}
		f.settle(store.Applied, delivered(c))
		// What happened since is to be told.
		next := r
		next.UID, next.OnConflict = newUID(), job.ConflictLater
		equal(f, "uid", f.add(next).UID, next.UID)
		equal(f, "claimed", f.takeOne().Job.UID, next.UID)
	}},
	{name: "conflict/each registration of a key is dated after the one before", options: Options{Retention: long}, run: func(f *fixture) {
		before := f.add(reg("t", "a", delay(long)))
		for range 5 { // faster than a clock of milliseconds
			r := reg("t", "a", body(newUID()), delay(0), onConflict(job.ConflictReplace))
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
	{name: "conflict/a worker of the job before is stale", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		expired := f.expireOne()
		f.settle(store.Applied, delivered(f.takeOne()))
		f.add(reg("t", "a", body("new")))
		second := f.takeOne()
		f.unchangedBy(delivered(expired))
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

// givesWay registers fresh, which is due, expects it to take the place of old,
// which has ended, and delivers it.
func (f *fixture) givesWay(old job.Job, fresh store.Registration) {
	f.Helper()
	j := f.add(fresh)
	equal(f, "uid", j.UID, fresh.UID)
	equal(f, "state", j.State, job.Waiting)
	equal(f, "the stored job", f.get(j.Key), j)
	equal(f, "log", f.attempts(j.Key), nil)
	equal(f, "counts", f.states(j.Topic), map[job.State]int64{job.Waiting: 1})
	equal(f, "still listed as it ended", keys(f.list(store.Query{Topic: j.Topic, States: stateOf(old.State)})), nil)
	equal(f, "jobs", keys(f.list(store.Query{Topic: j.Topic, Limit: 5})), []string{j.Key.String()})
	f.waitPast(j.NextAt)
	f.settle(store.Applied, delivered(f.takeOne()))
	f.update(j.Key, replay)
	f.update(j.Key, cancel) // so that its key is free
}

// unchangedBy expects that a settlement is stale and changes nothing.
func (f *fixture) unchangedBy(s job.Settlement) {
	f.Helper()
	before, log := f.get(s.Key), f.attempts(s.Key)
	f.settle(store.Stale, s)
	equal(f, "the job after a stale settlement", f.get(s.Key), before)
	equal(f, "the log after a stale settlement", f.attempts(s.Key), log)
}

// move registers a job that moves the due time of the one with its key. It returns
// store.Moved or store.Kept.
func (f *fixture) move(r store.Registration) store.RegisterOutcome {
	f.Helper()
	f.register(store.Moves, r)
	j, err := f.Update(f.ctx, r.Key, rules.Move(&r))
	equal(f, "the job", j, f.get(r.Key))
	if errors.Is(err, rules.ErrStays) {
		return store.Kept
	}
	f.noError("Update", err)
	return store.Moved
}
