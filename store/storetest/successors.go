package storetest

import (
	"fmt"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/successors"
)

const urlCallbacks = "http://callbacks.example/done"

// reporting gives a job a callback for each event.
func reporting(r *store.Registration) {
	limit := 2
	c := &job.Callbacks{Retry: &job.Retry{Limit: &limit}, IncludeRequest: true}
	for _, e := range job.CallbackEvents {
		c.Set(e, &job.Callback{Destination: urlCallbacks, Headers: []job.Header{{Name: "X-Event", Value: string(e)}}})
	}
	r.Spec.Callbacks = c
}

// callbackRow is a settlement and the callbacks that follow from it.
type callbackRow struct {
	name    string
	outcome job.Outcome // with an attempt if withAttempt
	retry   func(int) (time.Duration, bool)
	cancel  bool // while the attempt is in flight
	made    bool // a request
	want    []string
}

var callbackRows = []callbackRow{
	{"delivered", job.Outcome{Kind: job.OutcomeDelivered}, never, false, true, []string{"delivered"}},
	{"delivered all the same", job.Outcome{Kind: job.OutcomeDelivered}, never, true, true, []string{"delivered"}},
	{"failed", job.Outcome{Kind: job.OutcomeFailed}, after(long), false, true, []string{"attempt_failed.1"}},
	{"given up", job.Outcome{Kind: job.OutcomeFailed}, never, false, true, []string{"attempt_failed.1", "dead"}},
	{"failed after a cancel", job.Outcome{Kind: job.OutcomeFailed}, after(long), true, true, []string{"attempt_failed.1", "cancelled"}},
	{"refused", job.Outcome{Kind: job.OutcomeRefused, Reason: job.ReasonGone}, always, false, true, []string{"attempt_failed.1", "dead"}},
	{"released", job.Outcome{Kind: job.OutcomeReleased, After: long, Reason: job.ReasonShutdown}, never, false, false, nil},
	{"snoozed", job.Outcome{Kind: job.OutcomeSnoozed, After: long}, never, false, true, nil},
	{"expired", job.Outcome{Kind: job.OutcomeExpired}, always, false, false, []string{"expired"}},
	{"cancelled before the attempt", job.Outcome{Kind: job.OutcomeCancelled}, always, true, false, []string{"cancelled"}},
	{"lease expired", job.Outcome{Kind: job.OutcomeLeaseExpired}, always, false, false, []string{"dead"}},
}

// callbacksOf are the callbacks of a job, by what follows its uid.
func (f *fixture) callbacksOf(j *job.Job) (found map[string]job.Job) {
	f.Helper()
	found = map[string]job.Job{}
	for _, c := range f.list(store.Query{Topic: j.Topic, Limit: 1_000}) {
		if uid, is := job.CallbackOf(c.ID); is && uid == j.UID {
			found[c.ID[len(uid)+1:]] = c
		}
	}
	return found
}

// checkCallbacks expects these callbacks of a job. Those of its last outcome report it as it is
// now.
func (f *fixture) checkCallbacks(j job.Job, current bool, want ...string) {
	f.Helper()
	found := f.callbacksOf(&j)
	equal(f, "number of callbacks", len(found), len(want))
	for _, name := range want {
		c, is := found[name]
		if !is {
			f.Errorf("%s has no callback %s", j.Key, name)
			continue
		}
		equal(f, "uid", c.UID, store.SuccessorUID(j.UID, c.Key))
		equal(f, "hash", store.KeyHash(c.Key), store.KeyHash(j.Key))
		equal[job.Destination](f, "destination", c.Spec.Destination, urlCallbacks)
		equal(f, "header", c.Spec.Headers[0].Value, string(c.Spec.Reports))
		equal(f, "retry limit", *c.Spec.Retry.Limit, 2)
		equal(f, "due at", c.DueAt, c.CreatedAt)
		r, err := successors.Report(&c)
		f.noError("Report", err)
		equal(f, "reported uid", r.Job.UID, j.UID)
		if current && f.keeps {
			j.Spec = j.Spec.InReport(r.Request)
			r.Job.Token, r.Job.ExpiredLeases, r.Job.CancelRequested = j.Token, j.ExpiredLeases, j.CancelRequested
			equal(f, "report of "+name, r.Job, j)
		}
	}
}

var callbackCases = func() []testCase {
	cases := []testCase{
		{name: "callbacks/a stale settlement has none, a repeated one no more", options: Options{Retention: long}, run: func(f *fixture) {
			f.add(reg("t", "a", reporting))
			c := f.takeOne()
			stale := failed(c, never)
			stale.Token--
			f.settle(store.Stale, stale)
			f.checkCallbacks(f.get(c.Job.Key), false)
			for range 2 {
				f.settle(store.Applied, failed(c, after(long)))
				f.checkCallbacks(f.get(c.Job.Key), true, "attempt_failed.1")
			}
			gone := failed(c, never)
			gone.Key.ID = "gone"
			f.settle(store.Missing, gone)
		}},
		{name: "callbacks/follow a cancel, but not the discarding of a dead letter", options: Options{Retention: long}, run: func(f *fixture) {
			waiting := f.add(reg("t", "waiting", delay(long), reporting))
			f.checkCallbacks(f.update(waiting.Key, cancel), true, "cancelled")
			f.add(reg("t", "dead", reporting))
			c := f.takeOf("dead")
			f.settle(store.Applied, failed(c, never))
			f.checkCallbacks(f.update(c.Job.Key, discard), false, "attempt_failed.1", "dead")
		}},
		{name: "callbacks/each round after a replay has its own", options: Options{Retention: long}, run: func(f *fixture) {
			key := f.add(reg("t", "a", reporting)).Key
			f.settle(store.Applied, failed(f.takeOf("a"), never))
			f.update(key, replay)
			f.settle(store.Applied, failed(f.takeOf("a"), never))
			f.checkCallbacks(f.get(key), false, "attempt_failed.1", "dead", "attempt_failed.1.2", "dead.2")
		}},
		{name: "callbacks/the capacity refuses those that another outcome follows", options: Options{Retention: long}, run: (*fixture).testCallbackCapacity},
		{name: "callbacks/a newer one takes the place of one that was not sent", options: Options{Retention: long}, run: (*fixture).testSupersede},
		{name: "callbacks/no limit of the topic refuses those of an end", options: Options{Retention: long}, run: func(f *fixture) {
			f.register(store.Created, reg("t", "a", reporting), reg("t", "b", reporting, delay(long)))
			c := f.takeOne()
			f.noError("SetLimits", f.SetLimits(f.ctx, "t", store.Limits{Capacity: 1, Draining: true}))
			f.settle(store.Applied, delivered(c))
			f.checkCallbacks(f.get(c.Job.Key), true, "delivered")
			f.checkCallbacks(f.update(job.Key{Topic: "t", ID: "b"}, cancel), true, "cancelled")
		}},
		{name: "callbacks/of many jobs in one batch", options: Options{Retention: long, Shards: 3}, run: func(f *fixture) {
			regs := many("t", 150)
			for i := range regs {
				if i%3 > 0 {
					reporting(&regs[i])
				}
			}
			f.register(store.Created, regs...)
			var batch []job.Settlement
			for _, c := range f.take() {
				batch = append(batch, delivered(c))
			}
			equal(f, "claims", len(batch), len(regs))
			results, err := f.Settle(f.ctx, batch)
			f.noError("Settle", err)
			for i := range results {
				j := f.get(batch[i].Key)
				equal(f, "status", results[i].Status, store.Applied)
				equal(f, "state", j.State, job.Delivered)
				if j.Spec.Callbacks != nil {
					f.checkCallbacks(j, true, "delivered")
				}
			}
			equal(f, "unfinished", f.states("t")[job.Waiting], 100)
		}},
		{name: "callbacks/without retention", options: Options{}, run: func(f *fixture) {
			r := reg("t", "a", reporting)
			f.add(r)
			f.settle(store.Applied, delivered(f.takeOne()))
			f.notFound(r.Key)
			f.checkCallbacks(job.Job{Key: r.Key, UID: r.UID}, false, "delivered")
			c := f.takeOne()
			equal(f, "claimed", c.Job.Spec.Reports, job.CallbackDelivered)
			f.settle(store.Applied, delivered(c))
			equal(f, "jobs", len(f.list(store.Query{Topic: "t", Limit: 10})), 0)
		}},
		{name: "callbacks/are found by their uid", options: Options{Retention: long, Shards: 3}, run: func(f *fixture) {
			f.add(reg("t", "a", reporting))
			c := f.takeOne()
			f.settle(store.Applied, delivered(c))
			key := job.Key{Topic: "t", ID: c.Job.CallbackID(job.CallbackDelivered, 0)}
			found := f.list(store.Query{UID: store.SuccessorUID(c.Job.UID, key), Limit: 10})
			equal(f, "found", keys(found), []string{key.String()})
		}},
	}
	for _, row := range callbackRows {
		cases = append(cases, row.testCase())
	}
	return cases
}()

// testCallbackCapacity has jobs of a topic at its capacity fail and die. The callback of an end takes
// the place of its job.
func (f *fixture) testCallbackCapacity() {
	jobs := []job.Job{f.add(reg("t", "a", reporting)), f.add(reg("t", "b", reporting))}
	f.add(reg("t", "c", reporting, delay(long)))
	f.noError("SetLimits", f.SetLimits(f.ctx, "t", store.Limits{Capacity: 1, Draining: true}))
	claims := map[string]store.Claimed{}
	for _, c := range f.take() {
		claims[c.Job.ID] = c
	}
	a, b := claims["a"], claims["b"]
	for range 2 {
		for _, s := range []job.Settlement{failed(a, after(long)), failed(b, never)} {
			equal(f, "shed of "+s.Key.ID, f.settle(store.Applied, s).Shed, job.ShedPassing)
		}
		f.checkCallbacks(f.get(jobs[0].Key), true)
		f.checkCallbacks(f.get(jobs[1].Key), true, "dead")
	}
	states := f.states("t")
	equal(f, "unfinished", states[job.Waiting]+states[job.Retrying], 3)
	f.noError("SetLimits", f.SetLimits(f.ctx, "t", store.Limits{Capacity: 100, Draining: true}))
	f.update(jobs[0].Key, runNow)
	s := failed(f.takeOf("a"), after(long))
	equal(f, "shed with room", f.settle(store.Applied, s).Shed, job.ShedNothing)
	f.checkCallbacks(f.get(jobs[0].Key), true, "attempt_failed.2")
}

// testSupersede has a job fail often. Of the callbacks of its attempts, only the newest has content.
func (f *fixture) testSupersede() {
	key := f.add(reg("t", "a", reporting, func(r *store.Registration) { r.Spec.Body = make([]byte, 50_000) })).Key
	uid := f.get(key).UID
	callback := func(n int) job.Key { return job.Key{Topic: "t", ID: fmt.Sprintf("%s.attempt_failed.%d", uid, n)} }
	fail := func() {
		f.Helper()
		f.update(key, runNow)
		f.settleBounded(failed(f.takeOnly("a"), after(long)))
	}
	check := func(n int, want job.State, reason string, content bool) {
		f.Helper()
		j := f.get(callback(n))
		equal(f, "state of "+j.ID, j.State, want)
		equal(f, "reason of "+j.ID, j.Reason, reason)
		equal(f, "content of "+j.ID, len(j.Spec.Body) > 50_000 && len(j.Spec.Headers) > 0, content)
		equal(f, "remains of "+j.ID, len(j.Spec.Body) == 0 && len(j.Spec.Headers) == 0, !content)
	}
	fail()
	check(1, job.Waiting, "", true)
	fail() // the older one waits
	check(1, job.Cancelled, job.ReasonSuperseded, false)
	check(2, job.Waiting, "", true)

	f.update(callback(2), runNow)
	inFlight := f.takeOnly(callback(2).ID)
	fail()
	check(2, job.Running, "", true)
	check(3, job.Waiting, "", true)
	f.settleBounded(failed(inFlight, after(long))) // it goes on no further
	check(2, job.Cancelled, job.ReasonCancelled, false)

	f.update(callback(3), runNow)
	f.settleBounded(failed(f.takeOnly(callback(3).ID), never))
	check(3, job.Dead, job.ReasonRetryLimit, true)
	fail()
	check(3, job.Cancelled, job.ReasonSuperseded, false)

	f.update(callback(4), runNow)
	f.settleBounded(delivered(f.takeOnly(callback(4).ID)))
	check(4, job.Delivered, job.ReasonDelivered, false)
	_, err := f.Update(f.ctx, callback(4), replay)
	f.isError("replay of a callback without content", err, job.ErrStripped)
	f.update(key, runNow)
	f.settleBounded(failed(f.takeOnly("a"), never))
	check(4, job.Delivered, job.ReasonDelivered, false)
	check(5, job.Waiting, "", true)
	last := f.get(key)
	equal(f, "number of callbacks", len(f.callbacksOf(&last)), 6)
	total := 0
	for _, j := range f.list(store.Query{Topic: "t", Limit: 1_000}) {
		total += store.SizeOf(&j)
	}
	if most := 3*len(last.Spec.Body) + 10_000; total > most { // the job, the newest callback and that of its end
		f.Errorf("the job makes the store keep %d bytes, more than %d", total, most)
	}
}

// settleBounded settles as the dispatcher does.
func (f *fixture) settleBounded(s job.Settlement) {
	f.Helper()
	settled, err := successors.Settle(f.ctx, f.Store, []job.Settlement{s})
	f.noError("Settle", err)
	equal(f, "status", settled[0].Status, store.Applied)
}

// takeOnly claims a due job, and no other for long.
func (f *fixture) takeOnly(id string) store.Claimed {
	f.Helper()
	var found *store.Claimed
	for _, c := range f.take() {
		if c.Job.ID == id {
			found = &c
			continue
		}
		f.settle(store.Applied, job.Settle(&c.Job, job.Outcome{Kind: job.OutcomeReleased, After: long, Reason: job.ReasonShutdown}, never))
	}
	if found == nil {
		f.Fatalf("job %s is not claimed", id)
	}
	return *found
}

func (row callbackRow) testCase() testCase {
	return testCase{name: "callbacks/" + row.name, options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a", reporting))
		c := f.takeOne()
		if row.made {
			row.outcome.Attempt = attempt(c, 500)
		}
		if row.cancel {
			f.update(c.Job.Key, cancel)
		}
		done := f.settle(store.Applied, job.Settle(&c.Job, row.outcome, row.retry))
		j := f.get(c.Job.Key)
		equal(f, "state", j.State, done.To)
		f.checkCallbacks(j, true, row.want...)
	}}
}

// takeOf claims all due jobs and returns the claim of one.
func (f *fixture) takeOf(id string) store.Claimed {
	f.Helper()
	for _, c := range f.take() {
		if c.Job.ID == id {
			return c
		}
	}
	f.Fatalf("job %s is not claimed", id)
	return store.Claimed{}
}
