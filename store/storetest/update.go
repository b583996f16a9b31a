package storetest

import (
	"errors"
	"strconv"
	"sync"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

var errRefused = errors.New("refused by the test")

var updateCases = []testCase{
	{name: "update/stores what the change made", options: Options{}, run: func(f *fixture) {
		was := f.add(reg("t", "a", delay(long)))
		before := f.now()
		var seen job.Job
		var now job.Instant
		j := f.update(was.Key, func(j *job.Job, at job.Instant) error {
			seen, now = *j, at
			return j.Reschedule(job.When{Delay: 2 * long}, at)
		})
		equal(f, "the job that the change saw", seen, was)
		f.between("the now that the change saw", now, before, f.now())
		equal(f, "next at", j.NextAt, now.Add(2*long))
		equal(f, "due at", j.DueAt, j.NextAt)
		equal(f, "version", j.Version, was.Version+1)
		equal(f, "updated at", j.UpdatedAt, now)
		equal(f, "the stored job", f.get(was.Key), j)
	}},
	{name: "update/a refusal stores nothing", options: Options{}, run: func(f *fixture) {
		was := f.add(reg("t", "a", delay(long), biz("b")))
		got, err := f.Update(f.ctx, was.Key, func(j *job.Job, _ job.Instant) error {
			j.State, j.Attempts, j.Spec.Destination, j.Spec.BizKey = job.Dead, 7, urlB, "x"
			j.Spec.Body[0] = '!'
			return errRefused
		})
		if !errors.Is(err, errRefused) {
			f.Fatalf("Update: %v, want the change's error", err)
		}
		equal(f, "the job as it stands", got, was)
		equal(f, "the stored job", f.get(was.Key), was)
	}},
	{name: "update/of no job", options: Options{}, run: func(f *fixture) {
		_, err := f.Update(f.ctx, job.Key{Topic: "t", ID: "a"}, func(*job.Job, job.Instant) error {
			f.Error("the change was called")
			return nil
		})
		if !errors.Is(err, store.ErrNotFound) {
			f.Fatalf("Update: %v, want ErrNotFound", err)
		}
	}},
	{name: "update/every one of many at once counts", options: Options{}, run: func(f *fixture) {
		const callers, rounds = 32, 4
		key := f.add(reg("t", "a", delay(long), body("0"))).Key
		increment := respecify(func(s *job.Spec) {
			n, err := strconv.Atoi(string(s.Body))
			if err != nil {
				f.Errorf("body: %v", err)
			}
			s.Body = []byte(strconv.Itoa(n + 1))
		})
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range rounds {
					_, err := f.Update(f.ctx, key, increment)
					f.noError("Update", err)
				}
			})
		}
		wg.Wait()
		j := f.get(key)
		equal(f, "body", string(j.Spec.Body), strconv.Itoa(callers*rounds))
		equal(f, "version", j.Version, uint64(1+callers*rounds))
	}},
	{name: "update/gives up when the job goes on changing", options: Options{}, run: func(f *fixture) {
		key := f.add(reg("t", "a", delay(long))).Key
		_, err := f.Update(f.ctx, key, func(j *job.Job, now job.Instant) error {
			f.update(key, later)
			return j.Reschedule(job.When{}, now)
		})
		if !errors.Is(err, store.ErrConflict) {
			f.Fatalf("Update: %v, want ErrConflict", err)
		}
		f.takeNone(generous)
	}},
	{name: "update/sees a claim that came between", options: Options{}, run: func(f *fixture) {
		key := f.add(reg("t", "a")).Key
		var claims []store.Claimed
		var states []job.State
		j := f.update(key, func(j *job.Job, now job.Instant) error {
			states = append(states, j.State)
			if len(states) == 1 {
				claims = f.take()
			}
			return cancel(j, now)
		})
		equal(f, "states seen", states, []job.State{job.Waiting, job.Running})
		equal(f, "state", j.State, job.Running)
		equal(f, "cancel requested", j.CancelRequested, true)
		f.settle(store.Applied, delivered(claims[0]))
	}},
	{name: "update/cancels a job that waits, is ready or retries", options: Options{Retention: long}, run: func(f *fixture) {
		endsPending(f, cancel, job.Cancelled, job.ReasonCancelled)
	}},
	{name: "update/finishes a job that waits, is ready or retries", options: Options{Retention: long}, run: func(f *fixture) {
		endsPending(f, (*job.Job).Finish, job.Delivered, job.ReasonFinished)
	}},
	{name: "update/a cancel forgets the job when nothing is retained", options: Options{}, run: func(f *fixture) {
		key := f.add(reg("t", "a", biz("b"))).Key
		j := f.update(key, cancel)
		equal(f, "state", j.State, job.Cancelled)
		f.notFound(key)
		equal(f, "counts", f.states("t"), nil)
		equal(f, "by biz_key", keys(f.list(store.Query{BizKey: "b"})), nil)
		f.add(reg("t", "a"))
	}},
	{name: "update/a cancel of a job in flight is noted", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		c := f.takeOne()
		j := f.update(c.Job.Key, cancel)
		equal(f, "state", j.State, job.Running)
		equal(f, "cancel requested", j.CancelRequested, true)
		equal(f, "version", j.Version, c.Job.Version+1)
		equal(f, "the stored job", f.get(j.Key), j)
		f.takeNone(generous)
		done := f.settle(store.Applied, failed(c, always))
		equal(f, "settled to", done.To, job.Cancelled)
		equal(f, "reason", done.Reason, job.ReasonCancelled)
		equal(f, "ended at", done.EndedAt, done.Now)
		j = f.get(j.Key)
		equal(f, "state", j.State, job.Cancelled)
		equal(f, "reason", j.Reason, job.ReasonCancelled)
		equal(f, "next at", j.NextAt, job.Instant(0))
		equal(f, "attempts", j.Attempts, 1)
		equal(f, "next at of the attempt", f.attempts(j.Key)[0].NextAt, job.Instant(0))
		equal(f, "claimed", claimedKeys(f.take()), nil)
	}},
	{name: "update/a noted cancel does not undo a delivery", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		c := f.takeOne()
		f.update(c.Job.Key, cancel)
		done := f.settle(store.Applied, delivered(c))
		equal(f, "settled to", done.To, job.Delivered)
		equal(f, "reason", done.Reason, job.ReasonDelivered)
	}},
	{name: "update/a noted cancel outlives the lease", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		o := generous
		o.Lease = short
		c := f.takeOnce(o).Claims[0]
		f.update(c.Job.Key, cancel)
		f.waitPast(c.Now.Add(short))
		again := f.takeOne()
		equal(f, "cancel requested", again.Job.CancelRequested, true)
		equal(f, "before", again.Job.Before(again.From, again.Earlier, again.Now), &job.Outcome{Kind: job.OutcomeCancelled})
	}},
	{name: "update/a job in flight is not rescheduled", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		c := f.takeOne()
		before := f.get(c.Job.Key)
		j, err := f.Update(f.ctx, c.Job.Key, runNow)
		if !errors.Is(err, job.ErrInFlight) {
			f.Fatalf("Update: %v, want ErrInFlight", err)
		}
		equal(f, "the job as it stands", j, before)
	}},
	{name: "update/run now makes a job due", options: Options{}, run: func(f *fixture) {
		key := f.add(reg("t", "a", delay(long))).Key
		f.takeNone(generous)
		j := f.update(key, runNow)
		equal(f, "state", j.State, job.Waiting)
		equal(f, "claimed", f.takeOne().Job.Key, key)
	}},
	{name: "update/a due job put off is not claimed", options: Options{}, run: func(f *fixture) {
		key := f.add(reg("t", "a")).Key
		f.ready(job.Waiting)
		j := f.update(key, later)
		equal(f, "state", j.State, job.Waiting)
		equal(f, "the stored job", f.get(key), j)
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Waiting: 1})
		f.takeNone(generous)
		f.update(key, runNow)
		f.fresh(f.takeOne())
	}},
	{name: "update/a worker whose lease expired is stale after a change", options: Options{Retention: long}, run: func(f *fixture) {
		for id, change := range map[string]func(*job.Job, job.Instant) error{"cancel": cancel, "later": later} {
			f.add(reg("t", id))
			expired := f.expireOne()
			f.unlease(expired)
			f.update(expired.Job.Key, change)
			f.unchangedBy(delivered(expired))
		}
	}},
	{name: "update/another URL moves the job to another lane", options: Options{}, run: func(f *fixture) {
		key := f.add(reg("t", "a")).Key
		f.ready(job.Waiting)
		f.update(key, respecify(func(s *job.Spec) { s.Destination = urlB }))
		equal(f, "jobs", keys(f.list(store.Query{Limit: 5})), []string{"t/a"})
		equal(f, "counts of the topic", f.sum("t"), int64(1))
		c := f.takeOne()
		equal(f, "lane", c.Job.Lane(), laneOf("t", urlB))
		f.settle(store.Applied, delivered(c))
	}},
	{name: "update/another content leaves a due job to be delivered once", options: Options{}, run: func(f *fixture) {
		key := f.add(reg("t", "a")).Key
		f.ready(job.Waiting)
		f.update(key, respecify(func(s *job.Spec) { s.Body = []byte("new") }))
		claims := f.take()
		equal(f, "claimed", claimedKeys(claims), []string{"t/a"})
		equal(f, "body", string(claims[0].Job.Spec.Body), "new")
	}},
	{name: "update/another TTL wakes the job", options: Options{}, run: func(f *fixture) {
		key := f.add(reg("t", "a", delay(long))).Key
		j := f.update(key, respecify(func(s *job.Spec) { s.TTL = short }))
		equal(f, "expires at", j.ExpiresAt, j.CreatedAt.Add(short))
		f.waitPast(j.ExpiresAt)
		c := f.takeOne()
		equal(f, "before", c.Job.Before(c.From, c.Earlier, c.Now), &job.Outcome{Kind: job.OutcomeExpired})
	}},
	{name: "update/another biz_key is found by that", options: Options{}, run: func(f *fixture) {
		key := f.add(reg("t", "a", delay(long), biz("one"))).Key
		for _, change := range []struct{ from, to string }{{"one", "two"}, {"two", ""}, {"", "three"}} {
			f.update(key, respecify(func(s *job.Spec) { s.BizKey = change.to }))
			if change.from != "" {
				equal(f, "by "+change.from, keys(f.list(store.Query{BizKey: change.from})), nil)
			}
			if change.to != "" {
				equal(f, "by "+change.to, keys(f.list(store.Query{BizKey: change.to})), []string{"t/a"})
			}
		}
	}},
}

// sum is how many jobs a topic holds.
func (f *fixture) sum(topic string) int64 {
	f.Helper()
	var n int64
	for _, count := range f.states(topic) {
		n += count
	}
	return n
}

var replayCases = []testCase{
	{name: "replay/sends an ended job again", options: Options{Retention: long}, run: func(f *fixture) {
		for _, state := range finals {
			topic := "t-" + state.String()
			old := f.end(reg(topic, "a", biz("b")), state)
			j := f.update(old.Key, replay)
			equal(f, "state", j.State, job.Waiting)
			equal(f, "reason", j.Reason, "")
			equal(f, "attempts", j.Attempts, 0)
			equal(f, "ended at", j.EndedAt, job.Instant(0))
			equal(f, "the stored job", f.get(j.Key), j)
			equal(f, "counts", f.states(topic), map[job.State]int64{job.Waiting: 1})
			equal(f, "still listed as it ended", keys(f.list(store.Query{Topic: topic, States: stateOf(state)})), nil)
			equal(f, "by biz_key", keys(f.list(store.Query{BizKey: "b", Topic: topic})), []string{topic + "/a"})

			c := f.takeOne()
			equal(f, "uid", c.Job.UID, old.UID)
			equal(f, "token grows", c.Job.Token > old.Token, true)
			f.first(f.settle(store.Applied, delivered(c)))
			equal(f, "state", f.get(j.Key).State, job.Delivered)
		}
	}},
	{name: "replay/of an unfinished job is refused", options: Options{}, run: func(f *fixture) {
		was := f.add(reg("t", "a", delay(long)))
		j, err := f.Update(f.ctx, was.Key, replay)
		if !errors.Is(err, job.ErrNotEnded) {
			f.Fatalf("Update: %v, want ErrNotEnded", err)
		}
		equal(f, "the job as it stands", j, was)
	}},
	{name: "replay/an ended job cannot be cancelled or rescheduled", options: Options{Retention: long}, run: func(f *fixture) {
		old := f.end(reg("t", "a"), job.Delivered)
		for _, change := range []func(*job.Job, job.Instant) error{cancel, runNow} {
			j, err := f.Update(f.ctx, old.Key, change)
			if !errors.Is(err, job.ErrFinished) {
				f.Fatalf("Update: %v, want ErrFinished", err)
			}
			equal(f, "the job as it stands", j, old)
		}
	}},
	{name: "replay/a worker from before is stale", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		expired := f.expireOne()
		f.settle(store.Applied, failed(f.takeOne(), never))
		f.update(expired.Job.Key, replay)
		f.unchangedBy(delivered(expired))
		c := f.takeOne()
		f.unchangedBy(delivered(expired))
		f.settle(store.Applied, delivered(c))
	}},
}

// endsPending ends jobs without an attempt in flight by a change.
func endsPending(f *fixture, change func(*job.Job, job.Instant) error, as job.State, reason string) {
	f.add(reg("t", "waiting", delay(long), biz("b")))
	f.add(reg("t", "retrying", biz("b")))
	f.settle(store.Applied, failed(f.takeOne(), after(long)))
	f.add(reg("t", "ready", biz("b")))
	f.ready(job.Waiting)
	for _, id := range []string{"waiting", "retrying", "ready"} {
		before := f.now()
		j := f.update(job.Key{Topic: "t", ID: id}, change)
		equal(f, "state", j.State, as)
		equal(f, "reason", j.Reason, reason)
		equal(f, "next at", j.NextAt, job.Instant(0))
		f.between("ended at", j.EndedAt, before, f.now())
		equal(f, "the stored job", f.get(j.Key), j)
	}
	equal(f, "counts", f.states("t"), map[job.State]int64{as: 3})
	equal(f, "claimed", claimedKeys(f.take()), nil)
	equal(f, "listed", len(f.list(store.Query{Topic: "t", States: stateOf(as), Limit: 2})), 3)
	equal(f, "by biz_key", len(f.list(store.Query{BizKey: "b", Limit: 2})), 3)
}
