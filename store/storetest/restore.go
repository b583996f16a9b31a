package storetest

import (
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// past is an instant of long ago, in bubbles of virtual time too: these begin
// in the year 2000.
const past job.Instant = 900_000_000_000

// restorable is a job with a past, due since long if it is unfinished.
func restorable(topic, id string, state job.State) job.Job {
	j := job.Job{
		Key: job.Key{Topic: topic, ID: id}, UID: uidFor(topic, id), State: state,
		Spec:      job.Spec{Destination: urlA, BizKey: "b", Body: []byte("x")},
		CreatedAt: past, DueAt: past + 1, NextAt: past + 7_000, Token: 5, Version: 9,
	}
	switch {
	case state.Final():
		j.NextAt, j.EndedAt, j.Reason, j.Attempts = 0, past+9_000, job.ReasonCancelled, 2
	case state == job.Retrying || state == job.Running:
		j.Attempts, j.Snoozes = 2, 1
	}
	return j
}

func (f *fixture) restore(want int, jobs ...store.RestoredJob) {
	f.Helper()
	n, err := f.Restore(f.ctx, jobs)
	f.noError("Restore", err)
	f.changed("restored", n, want)
}

var restoreCases = []testCase{
	{name: "restore/puts jobs back as they stand", options: Options{Retention: long, Shards: 2}, run: func(f *fixture) {
		var all []store.RestoredJob
		for _, state := range job.States {
			r := store.RestoredJob{Job: restorable("t", state.String(), state)}
			for n := range r.Job.Attempts {
				r.Log = append(r.Log, job.Attempt{Number: n + 1, StartedAt: past + 2, Status: 500, ResponseBody: "no", NextAt: past + 3})
				r.Job.LastAttempt = &r.Log[n]
			}
			all = append(all, r)
		}
		f.restore(len(all), all...)
		for _, r := range all {
			want := r.Job
			if !want.State.Final() {
				want.State = want.Pending()
			}
			equal(f, "restored job", f.get(want.Key), want)
			equal(f, "log", f.attempts(want.Key), r.Log)
		}
		equal(f, "counts", f.states("t"), map[job.State]int64{
			job.Waiting: 2, job.Retrying: 2, job.Delivered: 1, job.Dead: 1, job.Cancelled: 1, job.Expired: 1,
		})
		equal(f, "by biz_key", len(f.list(store.Query{BizKey: "b", Limit: 3})), len(all))
		equal(f, "dead letters", keys(f.list(store.Query{States: stateOf(job.Dead)})), []string{"t/dead"})
	}},
	{name: "restore/what is due is delivered", options: Options{Retention: long}, run: func(f *fixture) {
		for _, state := range job.States {
			f.restore(1, store.RestoredJob{Job: restorable("t", state.String(), state)})
		}
		claims := f.take()
		equal(f, "claimed", claimedKeys(claims), []string{"t/ready", "t/retrying", "t/running", "t/waiting"})
		for _, c := range claims {
			equal(f, "token grows", c.Job.Token > 5, true)
			equal(f, "version", c.Job.Version, uint64(10))
			equal(f, "lapses", c.Job.Lapses, 0)
			f.settle(store.Applied, delivered(c))
		}
	}},
	{name: "restore/what is not due waits", options: Options{}, run: func(f *fixture) {
		j := restorable("t", "a", job.Retrying)
		before := f.now()
		j.NextAt = before.Add(long)
		f.restore(1, store.RestoredJob{Job: j})
		f.waitIs(f.carryOnce(carryOptions), j.NextAt, before)
		j = restorable("t", "b", job.Waiting)
		j.NextAt, j.ExpiresAt = before.Add(2*long), before.Add(long/2)
		f.restore(1, store.RestoredJob{Job: j})
		f.waitIs(f.carryOnce(carryOptions), j.ExpiresAt, before)
	}},
	{name: "restore/leaves what is there", options: Options{Retention: long}, run: func(f *fixture) {
		waiting := f.add(reg("t", "waiting", delay(long)))
		ended := f.end(reg("t", "ended"), job.Delivered)
		f.restore(1,
			store.RestoredJob{Job: restorable("t", "waiting", job.Retrying)},
			store.RestoredJob{Job: restorable("t", "ended", job.Waiting)},
			store.RestoredJob{Job: restorable("t", "lost", job.Retrying)},
		)
		equal(f, "the waiting job", f.get(waiting.Key), waiting)
		equal(f, "the ended job", f.get(ended.Key), ended)
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Waiting: 1, job.Delivered: 1, job.Retrying: 1})
	}},
	{name: "restore/a noted cancel comes back", options: Options{Retention: long}, run: func(f *fixture) {
		j := restorable("t", "a", job.Running)
		j.CancelRequested = true
		f.restore(1, store.RestoredJob{Job: j})
		c := f.takeOne()
		equal(f, "before", c.Job.Before(c.From, c.Now), &job.Outcome{Kind: job.OutcomeCancelled})
		s := job.Settle(&c.Job, *c.Job.Before(c.From, c.Now), never)
		equal(f, "settled to", f.settle(store.Applied, s).To, job.Cancelled)
	}},
	{name: "restore/in large batches", options: Options{Shards: 2}, run: func(f *fixture) {
		f.restore(0)
		jobs := make([]store.RestoredJob, 1_000)
		for i := range jobs {
			jobs[i].Job = restorable(fmt.Sprintf("t%d", i%3), fmt.Sprintf("job-%d", i), job.Waiting)
		}
		f.restore(len(jobs), jobs...)
		f.restore(0, jobs...)
		equal(f, "claims", len(f.take()), len(jobs))
	}},
}
