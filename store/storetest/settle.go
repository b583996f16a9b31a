package storetest

import (
	"fmt"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// settleRow is an outcome and what it makes of a job with one attempt behind it.
type settleRow struct {
	name    string
	outcome job.Outcome
	retry   func(int) (time.Duration, bool)
	to      job.State
	reason  string
	delay   time.Duration
	// attempts and snoozes are the counts after it.
	attempts, snoozes int
}

var settleRows = []settleRow{
	{"delivered", job.Outcome{Kind: job.OutcomeDelivered}, never, job.Delivered, job.ReasonDelivered, 0, 2, 0},
	{"failed", job.Outcome{Kind: job.OutcomeFailed}, after(long), job.Retrying, job.ReasonLadder, long, 2, 0},
	{"retry after", job.Outcome{Kind: job.OutcomeFailed, After: 90 * time.Minute}, after(long), job.Retrying, job.ReasonRetryAfter, 90 * time.Minute, 2, 0},
	{"given up", job.Outcome{Kind: job.OutcomeFailed}, never, job.Dead, job.ReasonRetryLimit, 0, 2, 0},
	{"refused", job.Outcome{Kind: job.OutcomeRefused, Reason: job.ReasonGone}, always, job.Dead, job.ReasonGone, 0, 2, 0},
	{"snoozed", job.Outcome{Kind: job.OutcomeSnoozed, After: 30 * time.Minute}, never, job.Retrying, job.ReasonSnoozed, 30 * time.Minute, 1, 1},
	{"released", job.Outcome{Kind: job.OutcomeReleased, After: long, Reason: job.ReasonShutdown}, never, job.Retrying, job.ReasonShutdown, long, 1, 0},
	{"expired", job.Outcome{Kind: job.OutcomeExpired}, always, job.Expired, job.ReasonTTL, 0, 1, 0},
	{"cancelled", job.Outcome{Kind: job.OutcomeCancelled}, always, job.Cancelled, job.ReasonCancelled, 0, 1, 0},
	{"lease expired", job.Outcome{Kind: job.OutcomeLeaseExpired}, always, job.Dead, job.ReasonLeaseExpired, 0, 1, 0},
}

// withAttempt: outcomes of requests that were made.
func (r settleRow) withAttempt() bool { return r.attempts > 1 || r.snoozes > 0 }

var settleCases = []testCase{
	{name: "settle/stores every outcome", options: Options{Retention: long}, run: func(f *fixture) {
		for _, row := range settleRows {
			f.add(reg("t", row.name[:4], biz(row.name[:4])))
			f.settle(store.Applied, failed(f.takeOne(), always))
			f.checkOutcome(row, f.takeOne())
		}
	}},
	{name: "settle/a receiver sets the time of the next attempt", options: Options{Retention: long}, run: func(f *fixture) {
		f.register(store.Created, reg("t", "later"), reg("t", "past"), reg("t", "expires", ttl(long)), reg("t", "cancelled"))
		at := f.now().Add(2*long) + 1
		for _, c := range f.take() {
			o := job.Outcome{Kind: job.OutcomeRescheduled, At: at, Attempt: attempt(c, 200)}
			if c.Job.ID == "past" {
				o.At = c.Now.Add(-long)
			}
			if c.Job.ID == "cancelled" {
				f.update(c.Job.Key, cancel)
			}
			done := f.settle(store.Applied, job.Settle(&c.Job, o, always))
			j := f.get(c.Job.Key)
			equal(f, "stored", [2]any{j.State, j.NextAt}, [2]any{done.To, done.NextAt})
			if c.Job.ID == "cancelled" {
				equal(f, "state", j.State, job.Cancelled)
				continue
			}
			equal(f, "state", j.State, job.Retrying)
			equal(f, "attempts", j.Attempts, 1)
			equal(f, "next at", j.NextAt, o.At)
			equal(f, "logged", f.attempts(j.Key)[0].NextAt, o.At)
		}
		equal(f, "due again", claimedKeys(f.take()), []string{"t/past"})
	}},
	{name: "settle/a release before the first attempt goes back to waiting", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		c := f.takeOne()
		done := f.settle(store.Applied, released(c, 0))
		equal(f, "settled to", done.To, job.Waiting)
		j := f.get(c.Job.Key)
		equal(f, "state", j.State, job.Waiting)
		equal(f, "log", f.attempts(j.Key), nil)
		equal(f, "claimed", f.takeOne().Job.Attempts, 0)
	}},
	{name: "settle/a release keeps the place of the job", options: Options{}, run: func(f *fixture) {
		one := generous
		one.Max = 1
		for _, number := range []int{5, 9, 1} { // each priority is a lane
			f.add(reg("t", fmt.Sprintf("%d-retried", number), priority(number)))
			f.settle(store.Applied, failed(f.takeOne(), always))
			retried := f.takeOne()
			f.waitPast(f.now())
			f.add(reg("t", fmt.Sprintf("%d-first", number), priority(number)))
			first := f.takeOne()
			f.waitPast(f.now())
			f.add(reg("t", fmt.Sprintf("%d-last", number), priority(number)))
			f.waitPast(f.now())
			for _, c := range []store.Claimed{first, retried} {
				equal(f, "due", f.settle(store.Applied, released(c, 0)).NextAt, c.Job.NextAt)
			}
			for _, id := range []string{"retried", "first", "last"} {
				c := f.takeFrom(0, one).Claims
				equal(f, "in order", idsOf(c), []string{fmt.Sprintf("%d-%s", number, id)})
			}
		}
	}},
	{name: "settle/results stand in the order of the batch", options: Options{Retention: long, Shards: 3}, run: func(f *fixture) {
		f.register(store.Created, many("t", 6)...)
		claims := f.take()
		stale := failed(claims[1], always)
		stale.Token--
		gone := delivered(claims[2])
		gone.Key.ID = "gone"
		batch := []job.Settlement{
			delivered(claims[0]), stale, gone, failed(claims[3], after(long)), failed(claims[4], never), released(claims[5], long),
			delivered(claims[0]), // twice in one batch
		}
		results, err := f.Settle(f.ctx, batch)
		f.noError("Settle", err)
		var got []store.SettleStatus
		var states []job.State
		for _, r := range results {
			got = append(got, r.Status)
			if r.Status == store.Applied {
				states = append(states, r.To)
			}
		}
		equal(f, "statuses", got, []store.SettleStatus{
			store.Applied, store.Stale, store.Missing, store.Applied, store.Applied, store.Applied, store.Applied,
		})
		equal(f, "states", states, []job.State{job.Delivered, job.Retrying, job.Dead, job.Waiting, job.Delivered})
		equal(f, "repeated", results[6].Repeated, true)
		none, err := f.Settle(f.ctx, nil)
		f.noError("Settle", err)
		equal(f, "results of an empty batch", none, nil)
	}},
	{name: "settle/an earlier end of the TTL wakes a retrying job", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a", ttl(time.Minute)))
		c := f.takeOne()
		done := f.settle(store.Applied, failed(c, after(long)))
		equal(f, "next at", done.NextAt, done.Now.Add(long))
		equal(f, "next at of the job", f.get(c.Job.Key).NextAt, done.NextAt)
		f.waitIs(f.takeOnce(generous), c.Job.ExpiresAt, done.Now)
	}},
	{name: "settle/a retry comes after its delay", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		done := f.settle(store.Applied, failed(f.takeOne(), after(short)))
		f.waitPast(done.NextAt)
		equal(f, "attempts", f.takeOne().Job.Attempts, 1)
	}},
	{name: "settle/nothing is kept of a finished job without retention", options: Options{}, run: func(f *fixture) {
		for _, state := range []job.State{job.Delivered, job.Expired, job.Cancelled} {
			key := f.add(reg("t", "a", biz("b"))).Key
			c := f.takeOne()
			if state == job.Cancelled {
				f.update(key, cancel)
			}
			s := delivered(c)
			if state != job.Delivered {
				s = job.Settle(&c.Job, job.Outcome{Kind: job.OutcomeExpired}, never)
			}
			if done := f.settle(store.Applied, s); done.Status == store.Applied {
				equal(f, "settled to", done.To, state)
				equal(f, "ended at", done.EndedAt, done.Now)
			}
			f.notFound(key)
			equal(f, "counts", f.states("t"), nil)
			equal(f, "jobs", keys(f.list(store.Query{})), nil)
			equal(f, "by biz_key", keys(f.list(store.Query{BizKey: "b"})), nil)
			f.settle(store.Missing, s)
		}
		j := f.end(reg("t", "a"), job.Dead)
		equal(f, "a dead letter", f.get(j.Key).State, job.Dead)
	}},
}

// checkOutcome settles a claim by row's outcome and checks all that is stored.
func (f *fixture) checkOutcome(row settleRow, c store.Claimed) {
	f.Helper()
	if row.withAttempt() {
		row.outcome.Attempt = attempt(c, 418)
	}
	before := f.attempts(c.Job.Key)
	s := job.Settle(&c.Job, row.outcome, row.retry)
	earliest := f.now()
	done := f.first(f.settle(store.Applied, s))
	f.between("now", done.Now, earliest, f.now())

	want := store.Settled{
		To: row.to, Reason: row.reason, Now: done.Now, UID: c.Job.UID, Version: c.Job.Version + 1,
	}
	if row.to.Final() {
		want.EndedAt = done.Now
	} else {
		want.NextAt = done.Now.Add(row.delay)
	}
	equal(f, "settled: "+row.name, done, want)

	j := f.get(c.Job.Key)
	wantJob := c.Job
	if len(before) > 0 { // a claim may leave it out
		wantJob.LastAttempt = &before[len(before)-1]
	}
	wantJob.State, wantJob.NextAt, wantJob.EndedAt = row.to, want.NextAt, want.EndedAt
	wantJob.Attempts, wantJob.Snoozes, wantJob.Version, wantJob.UpdatedAt = row.attempts, row.snoozes, c.Job.Version+1, done.Now
	wantJob.Reason = "" // why a job ended, so not while it goes on
	if row.to.Final() {
		wantJob.Reason = row.reason
	}
	log := before
	if s.Attempt != nil {
		a := *s.Attempt
		a.NextAt = want.NextAt
		log = append(log, a)
		wantJob.LastAttempt = &a
	}
	equal(f, "the job after: "+row.name, j, wantJob)
	equal(f, "the log after: "+row.name, f.attempts(c.Job.Key), log)
	equal(f, "counts after: "+row.name, f.states(j.Topic)[row.to] > 0, true)
	listed := f.list(store.Query{States: stateOf(row.to), BizKey: j.Spec.BizKey})
	equal(f, "listed after: "+row.name, listed, []job.Job{j})
	equal(f, "taken after: "+row.name, claimedKeys(f.take()), nil)
}

var staleCases = []testCase{
	{name: "stale/what was settled is settled once", options: Options{Retention: long}, run: func(f *fixture) {
		for i, settlement := range []func(store.Claimed) job.Settlement{
			delivered,
			func(c store.Claimed) job.Settlement { return failed(c, never) },
			func(c store.Claimed) job.Settlement { return failed(c, after(long)) },
			func(c store.Claimed) job.Settlement { return released(c, long) },
		} {
			key := f.add(reg("t", string(rune('a'+i)))).Key
			c := f.takeOne()
			s := settlement(c)
			done := f.first(f.settle(store.Applied, s))
			j, log := f.get(key), f.attempts(key)

			f.waitPast(done.Now) // a wrong second run would store another time
			again := f.settle(store.Applied, s)
			equal(f, "repeated", again.Repeated, true)
			again.Repeated, again.Now = false, done.Now
			equal(f, "answer", again, done)
			equal(f, "job", f.get(key), j)
			equal(f, "log", f.attempts(key), log)
			if s.To != job.Delivered { // another outcome under the same token changes nothing either
				again = f.settle(store.Applied, delivered(c))
				equal(f, "repeated", again.Repeated, true)
				equal(f, "settled to", again.To, done.To)
				equal(f, "job", f.get(key), j)
			}
		}
	}},
	{name: "stale/a repetition changes nothing when the job is due again", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		c := f.takeOne()
		s := failed(c, always)
		f.settle(store.Applied, s)
		f.ready(job.Retrying)
		before := f.get(c.Job.Key)
		again := f.settle(store.Applied, s)
		equal(f, "repeated", again.Repeated, true)
		equal(f, "settled to", again.To, job.Retrying)
		equal(f, "job", f.get(c.Job.Key), before)
		f.takeOne()
		f.unchangedBy(s)
	}},
	{name: "stale/only the current token settles", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		c := f.takeOne()
		for _, token := range []uint64{0, c.Job.Token - 1, c.Job.Token + 1} {
			s := delivered(c)
			s.Token = token
			f.unchangedBy(s)
		}
		f.settle(store.Applied, delivered(c))
	}},
	{name: "stale/a job that was never claimed cannot be settled", options: Options{}, run: func(f *fixture) {
		j := f.add(reg("t", "a"))
		f.unchangedBy(delivered(store.Claimed{Job: j}))
		f.ready(job.Waiting)
		f.unchangedBy(delivered(store.Claimed{Job: j}))
	}},
	{name: "stale/the outcome of a job that another one replaced, at the same version", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		c := f.takeOne()
		f.settle(store.Applied, released(c, long))
		f.register(store.Created, reg("t", "a", body("other"), delay(long), onConflict(job.ConflictReplace)))
		for f.get(c.Job.Key).Version < c.Job.Version {
			f.update(c.Job.Key, later)
		}
		equal(f, "version", f.get(c.Job.Key).Version, c.Job.Version)
		f.unchangedBy(delivered(c))
	}},
	{name: "stale/a missing job", options: Options{}, run: func(f *fixture) {
		f.settle(store.Missing, delivered(store.Claimed{Job: job.Job{
			Key: job.Key{Topic: "t", ID: "a"}, Spec: job.Spec{Destination: urlA}, Token: 1,
		}}))
	}},
}
