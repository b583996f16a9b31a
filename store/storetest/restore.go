package storetest

import (
	"fmt"
	"strings"

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
		CreatedAt: past, UpdatedAt: past + 8_000, DueAt: past + 1, NextAt: past + 7_000, Token: 5, Version: 9,
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
	n, err := f.restorable().Restore(f.ctx, jobs)
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
			equal(f, "expired leases", c.Job.ExpiredLeases, 0)
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
		equal(f, "before", c.Job.Before(c.From, c.Earlier, c.Now), &job.Outcome{Kind: job.OutcomeCancelled})
		s := job.Settle(&c.Job, *c.Job.Before(c.From, c.Earlier, c.Now), never)
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
	{name: "restore/a job registered later than now ends when it was registered", options: Options{Retention: long}, run: func(f *fixture) {
		later := restorable("t", "a", job.Waiting)
		later.CreatedAt = f.now().Add(long)
		f.restore(1, store.RestoredJob{Job: later})
		done := f.settle(store.Applied, delivered(f.takeOne()))
		equal(f, "ended at", done.EndedAt, later.CreatedAt)
		equal(f, "kept as ended at", f.get(later.Key).EndedAt, later.CreatedAt)
	}},
	{name: "restore/a log of long attempts keeps the latest that fit", options: Options{}, run: func(f *fixture) {
		wordy := func(n int) job.Attempt {
			return job.Attempt{
				Number: n, StartedAt: 1_000_000, Status: 500, ResponseBody: strings.Repeat("b", 1_000), Version: uint64(n),
				ResponseHeaders: []job.Header{{Name: "X", Value: strings.Repeat("h", 1_000)}},
			}
		}
		r := store.RestoredJob{Job: restorable("t", "a", job.Retrying)}
		for n := range 60 {
			r.Log = append(r.Log, wordy(n+1))
		}
		r.Job.Attempts = len(r.Log)
		f.restore(1, r)
		want := r.Log
		fits := func(least int) {
			f.Helper()
			log, bytes := f.attempts(r.Job.Key), 0
			for _, a := range log {
				bytes += len(a.ResponseBody) + len(a.ResponseHeaders[0].Value)
			}
			if bytes > store.MaxLogBytes || len(log) < least {
				f.Fatalf("%d attempts of %d bytes are kept, want %d at least, of %d bytes at most", len(log), bytes, least, store.MaxLogBytes)
			}
			equal(f, "the latest", log, want[len(want)-len(log):])
			equal(f, "the last", *f.get(r.Job.Key).LastAttempt, want[len(want)-1])
		}
		const least = store.MaxLogBytes / 2_200
		fits(least)
		add := func(a job.Attempt) {
			f.Helper()
			s := failed(f.takeOne(), always)
			s.Attempt = &a
			a.NextAt = f.settle(store.Applied, s).NextAt
			want = append(want, a)
		}
		for range 5 {
			add(wordy(len(want) + 1))
			fits(least)
		}
		for range 5 { // short ones take little room
			add(job.Attempt{Number: len(want) + 1, StartedAt: 1_000_000, Status: 500, ResponseHeaders: []job.Header{{Name: "X", Value: "y"}}})
		}
		fits(least + 3)
	}},
	{name: "restore/a long log keeps the latest", options: Options{}, run: func(f *fixture) {
		r := store.RestoredJob{Job: restorable("t", "a", job.Retrying)}
		for n := range store.MaxLog + 5 {
			r.Log = append(r.Log, job.Attempt{Number: n + 1, StartedAt: 1_000_000, Status: 500, ResponseBody: "a|b\n 1 2"})
		}
		r.Job.Attempts = len(r.Log)
		f.restore(1, r)
		want := r.Log
		for range 3 {
			s := failed(f.takeOne(), always)
			a := *s.Attempt
			a.NextAt = f.settle(store.Applied, s).NextAt
			want = append(want, a)
		}
		log := f.attempts(r.Job.Key)
		if len(log) < store.MaxLog {
			f.Fatalf("%d attempts are kept, want %d at least", len(log), store.MaxLog)
		}
		equal(f, "the latest", log[len(log)-store.MaxLog:], want[len(want)-store.MaxLog:])
		equal(f, "last attempt", f.get(r.Job.Key).LastAttempt, &want[len(want)-1])
	}},
	{name: "restore/groups of dead letters", options: Options{}, run: func(f *fixture) {
		f.die(12)
		before := f.deadGroups("", 100)
		var jobs []store.RestoredJob
		for _, j := range f.list(store.Query{Limit: 100}) {
			j.ID += "-again"
			jobs = append(jobs, store.RestoredJob{Job: j})
		}
		f.restore(len(jobs), jobs...)
		for i := range before {
			before[i].Count *= 2
		}
		equal(f, "groups", f.deadGroups("", 100), before)
	}},
	{name: "restore/into a topic at its capacity", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Capacity: 1, Draining: true})
		now := f.now()
		var back []store.RestoredJob
		for _, r := range many("t", 3) {
			back = append(back, store.RestoredJob{Job: r.Job(now)})
		}
		f.restore(len(back), back...)
	}},
	{name: "restore/a running job cannot be settled", options: Options{}, run: func(f *fixture) {
		r := store.RestoredJob{Job: restorable("t", "a", job.Running)}
		f.restore(1, r)
		f.unchangedBy(delivered(store.Claimed{Job: r.Job}))
	}},
	{name: "restore/every field of an attempt", options: Options{}, run: func(f *fixture) {
		r := store.RestoredJob{Job: restorable("t", "a", job.Retrying)}
		a := f.detailed(failed(store.Claimed{Job: r.Job, Now: past}, always).Attempt)
		a.NextAt = r.Job.NextAt
		r.Log = []job.Attempt{a}
		f.restore(1, r)
		equal(f, "log", f.attempts(r.Job.Key), r.Log)
	}},
	twiceRow{"restore", func(f *fixture) func() any {
		jobs := []store.RestoredJob{{Job: restorable("t", "a", job.Waiting)}, {Job: restorable("t", "b", job.Dead)}}
		return func() any {
			_, err := f.restorable().Restore(f.ctx, jobs)
			return err
		}
	}}.testCase(),
}
