package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// counting makes the job one that fires at a count.
func counting(target int64, at job.AtDeadline) func(*store.Registration) {
	return func(r *store.Registration) {
		r.Spec.Count = &job.Count{Target: target, AtDeadline: at}
	}
}

// count adds to the count of a job. Keys may be empty.
func (f *fixture) count(key job.Key, n int64, keys ...string) store.Counted {
	f.Helper()
	c := store.Count{Key: key}
	for _, k := range keys {
		c.Adds = append(c.Adds, job.Add{N: n, Key: k})
	}
	counted, err := f.Count(f.ctx, c)
	f.noError("Count "+key.String(), err)
	equal(f, "number of answers", len(counted.Tally.Added), len(keys))
	return counted
}

var countCases = []testCase{
	{name: "count/makes a job due at its target, once", options: Options{Retention: long}, run: func(f *fixture) {
		r := reg("t", "a", delay(long), counting(3, job.DeadlineFires))
		registered := f.add(r)
		counted := f.count(r.Key, 2, "")
		equal(f, "answer", counted.Tally.Added, []job.Added{{Count: 2}})
		equal(f, "updated at", f.get(r.Key).UpdatedAt, counted.Now)
		equal(f, "carried below the target", len(f.take()), 0)
		j := f.get(r.Key)
		equal(f, "count", j.Counted, 2)
		equal(f, "due", j.DueAt, registered.DueAt)
		again := reg("t", "a", delay(long), counting(3, job.DeadlineFires))
		equal(f, "the same registration", f.register(store.Same, again)[0].UID, registered.UID)

		equal(f, "answer", f.count(r.Key, 2, "", "").Tally.Added, []job.Added{{Count: 4, Fired: true}, {Count: 6, Fired: true}})
		j = f.get(r.Key)
		equal(f, "fired", j.Fired, true)
		equal(f, "due", j.DueAt, registered.DueAt)
		c := f.takeOne()
		equal(f, "count of the claim", c.Job.Counted, 6)
		equal(f, "answer in flight", f.count(r.Key, 1, "").Tally.Added, []job.Added{{Count: 7, Fired: true}})
		f.settle(store.Applied, failed(c, after(long)))
		equal(f, "answer between attempts", f.count(r.Key, 1, "").Tally.Added, []job.Added{{Count: 8, Fired: true}})
		equal(f, "carried before the retry", len(f.take()), 0)
		f.update(r.Key, runNow)
		f.settle(store.Applied, delivered(f.takeOne()))
		equal(f, "answer after the end", f.count(r.Key, 1, "").Tally.Added, []job.Added{{Count: 8, Fired: true, Late: true}})
		equal(f, "count", f.get(r.Key).Counted, 8)
	}},
	{name: "count/with an order key, the deadline decides the turn", options: Options{Shards: 2}, run: func(f *fixture) {
		first := reg("t", "first", ordered("k"), delay(long))
		f.add(first)
		for _, id := range []string{"next", "last"} {
			r := reg("t", id, ordered("k"), delay(2*long), counting(1, job.DeadlineFires))
			f.add(r)
			f.waitPast(f.now())
		}
		for _, id := range []string{"last", "next"} {
			key := job.Key{Topic: "t", ID: id}
			equal(f, "answer", f.count(key, 1, "").Tally.Added, []job.Added{{Count: 1, Fired: true}})
			equal(f, "it waits for", f.head(id), "first")
		}
		equal(f, "carried before the first is due", len(f.take()), 0)
		f.update(first.Key, runNow)
		equal(f, "in order", f.inOrder(), []string{"first", "next", "last"})

		head := reg("t", "head", ordered("k"), delay(long), counting(1, job.DeadlineFires))
		f.add(head)
		f.count(head.Key, 1, "")
		equal(f, "the head", f.inOrder(), []string{"head"})
	}},
	{name: "count/a key counts once", options: Options{Retention: long}, run: func(f *fixture) {
		r := reg("t", "a", delay(long), counting(4, job.DeadlineFires))
		registered := f.add(r)
		added := f.count(r.Key, 1, "x", "y", "x").Tally.Added
		if !f.repeats {
			equal(f, "answer", added, []job.Added{{Count: 1}, {Count: 2}, {Count: 2, Repeated: true}})
		}
		before := f.get(r.Key)
		equal(f, "count", before.Counted, 2)
		equal(f, "repeated", f.count(r.Key, 1, "y", "x").Tally.Added, []job.Added{{Count: 2, Repeated: true}, {Count: 2, Repeated: true}})
		equal(f, "version", f.get(r.Key).Version, before.Version)
		f.count(r.Key, 5, "z")
		f.settle(store.Applied, delivered(f.takeOne()))
		equal(f, "repeated after the end", f.count(r.Key, 1, "z").Tally.Added, []job.Added{{Count: 7, Fired: true, Repeated: true}})
		// Another registration of the key is another job.
		f.add(reg("t", "a", delay(long), counting(4, job.DeadlineFires), onConflict(job.ConflictReplace), body("other")))
		f.count(r.Key, 1, "x")
		equal(f, "count of the new job", f.get(r.Key).Counted, 1)
		equal(f, "uid", f.get(r.Key).UID != registered.UID, true)
	}},
	{name: "count/remembers a bounded number of keys", options: Options{}, run: func(f *fixture) {
		r := reg("t", "a", delay(long), counting(job.MaxTarget, job.DeadlineFires))
		f.add(r)
		names := make([]string, job.MaxCountKeys)
		for i := range names {
			names[i] = fmt.Sprintf("key-%d", i)
		}
		for part := range slices.Chunk(names, store.MaxAdds) {
			f.count(r.Key, 1, part...)
		}
		c := f.count(r.Key, 1, names[0], "one more", "")
		equal(f, "answer of a known key", c.Tally.Added[0].Repeated, true)
		if err := c.Tally.Added[1].Err; !errors.Is(err, job.ErrCountKeys) {
			f.Fatalf("one key more: %v, want %v", err, job.ErrCountKeys)
		}
		equal(f, "answer without a key", c.Tally.Added[2].Err, nil)
		equal(f, "count", f.get(r.Key).Counted, job.MaxCountKeys+1)
	}},
	{name: "count/refuses what cannot be counted", options: Options{Retention: long}, run: func(f *fixture) {
		refused := func(key job.Key, want error) {
			f.Helper()
			_, err := f.Count(f.ctx, store.Count{Key: key, Adds: []job.Add{{N: 1}}})
			f.isError("Count "+key.String(), err, want)
		}
		refused(job.Key{Topic: "t", ID: "missing"}, store.ErrNotFound)
		refused(f.add(reg("t", "plain", delay(long))).Key, job.ErrNotCounted)
		cancelled := f.add(reg("t", "cancelled", delay(long), counting(2, job.DeadlineFires)))
		f.update(cancelled.Key, cancel)
		refused(cancelled.Key, job.ErrFinished)
		expiring := f.add(reg("t", "expiring", counting(2, job.DeadlineExpires)))
		c := f.takeOne()
		refused(expiring.Key, job.ErrInFlight)
		outcome := c.Job.Before(c.From, c.Earlier, c.Now)
		if outcome == nil {
			f.Fatal("a job is sent at its deadline")
		}
		f.settle(store.Applied, job.Settle(&c.Job, *outcome, never))
		refused(expiring.Key, job.ErrFinished)
		equal(f, "reason", f.get(expiring.Key).Reason, job.ReasonCountMissed)
	}},
	{name: "count/the target is reached while the job is due", options: Options{}, run: func(f *fixture) {
		r := reg("t", "a", counting(2, job.DeadlineExpires))
		f.add(r)
		f.ready(job.Waiting)
		equal(f, "answer", f.count(r.Key, 2, "").Tally.Added, []job.Added{{Count: 2, Fired: true}})
		claims := f.take()
		equal(f, "claims", len(claims), 1)
		if o := claims[0].Job.Before(claims[0].From, claims[0].Earlier, claims[0].Now); o != nil {
			f.Fatalf("it is not sent: %+v", o)
		}
	}},
	{name: "count/follows changes of the job", options: Options{Retention: long}, run: func(f *fixture) {
		r := reg("t", "a", delay(long), counting(5, job.DeadlineExpires))
		f.add(r)
		f.count(r.Key, 3, "x")
		f.update(r.Key, func(j *job.Job, now job.Instant) error {
			s := j.Spec
			s.Count = &job.Count{Target: 4, AtDeadline: job.DeadlineExpires}
			s.Destination = urlB
			err := j.Respecify(s)
			j.Recount(now)
			return err
		})
		equal(f, "carried", len(f.take()), 0)
		equal(f, "answer", f.count(r.Key, 1, "x", "").Tally.Added, []job.Added{{Count: 3, Repeated: true}, {Count: 4, Fired: true}})
		f.deliver(r.Key)
		f.update(r.Key, replay)
		equal(f, "count of the replay", f.takeOne().Job.Counted, 4)
	}},
	{name: "count/concurrent calls lose nothing and fire once", options: Options{Retention: long, Shards: 2}, run: func(f *fixture) {
		const callers, each = 8, 20
		r := reg("t", "a", delay(long), counting(callers*each, job.DeadlineFires))
		f.add(r)
		var wg sync.WaitGroup
		var fired atomic.Int64
		errs := make(chan error, callers*each)
		for caller := range callers {
			wg.Go(func() {
				for n := range each {
					key := ""
					if n%2 == 0 {
						key = fmt.Sprintf("%d-%d", caller, n)
					}
					c, err := f.Count(f.ctx, store.Count{Key: r.Key, Adds: []job.Add{{N: 1, Key: key}}})
					if err != nil {
						errs <- err
					} else if c.Tally.Due {
						fired.Add(1)
					}
				}
			})
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			f.Errorf("Count: %v", err)
		}
		j := f.get(r.Key)
		equal(f, "count", j.Counted, callers*each)
		equal(f, "times it fired", fired.Load(), 1)
		// Answers overtook each other, so the store's estimate of its time may lag for a moment.
		var claims []store.Claimed
		f.eventually("the job is claimed", func() bool {
			claims = append(claims, f.take()...)
			return len(claims) > 0
		})
		equal(f, "claims", len(claims), 1)
		equal(f, "count of the claim", claims[0].Job.Counted, callers*each)
	}},
	{name: "count/is kept for a while without a retention", options: Options{}, run: func(f *fixture) {
		r := reg("t", "a", delay(long), counting(1, job.DeadlineFires))
		f.add(r)
		f.count(r.Key, 1, "x")
		f.settle(store.Applied, delivered(f.takeOne()))
		_, err := f.Purge(f.ctx, 100)
		f.noError("Purge", err)
		equal(f, "answer", f.count(r.Key, 1, "x").Tally.Added, []job.Added{{Count: 1, Fired: true, Repeated: true}})
	}},
}

// deliver delivers the job that is due.
func (f *fixture) deliver(key job.Key) {
	f.Helper()
	c := f.takeOne()
	equal(f, "key", c.Job.Key, key)
	f.settle(store.Applied, delivered(c))
}
