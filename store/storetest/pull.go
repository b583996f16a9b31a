package storetest

import (
	"strconv"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// pulled makes a registration one that consumers fetch.
func pulled(r *store.Registration) { r.Spec.Destination = job.PullQueue }

// pulling are the terms of consumers of topics, up to most jobs.
func pulling(most int, topics ...string) store.TakeOptions {
	o := generous
	o.Max, o.Pull = most, topics
	return o
}

// pull leases up to most jobs of each shard.
func (f *fixture) pull(most int, topics ...string) []store.Claimed {
	f.Helper()
	claims, _ := f.pullAndWait(most, topics...)
	return claims
}

// pullAndWait is pull with the least wait of the shards; negative: nothing waits.
func (f *fixture) pullAndWait(most int, topics ...string) (claims []store.Claimed, wait time.Duration) {
	f.Helper()
	wait = -1
	for shard := range f.Shards() {
		taken := f.takeFrom(shard, pulling(most, topics...))
		claims = append(claims, taken.Claims...)
		if taken.Wait >= 0 && (wait < 0 || taken.Wait < wait) {
			wait = taken.Wait
		}
	}
	return claims, wait
}

// extended extends the lease of a claim.
func (f *fixture) extended(want store.SettleStatus, c store.Claimed, d time.Duration) store.Settled {
	f.Helper()
	return f.settle(want, c.Job.Extend(d))
}

var pullCases = []testCase{
	{name: "pull/jobs wait for consumers, and no dispatcher gets them", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "fetched", pulled))
		equal(f, "oldest due of a queue", f.depth().OldestDue, 0)
		f.add(reg("t", "sent"))
		f.add(reg("u", "other", pulled))
		equal(f, "taken by dispatchers", claimedKeys(f.take()), []string{"t/sent"})
		claims, wait := f.pullAndWait(10, "t")
		equal(f, "wait", wait < 0, true)
		equal(f, "claimed", claimedKeys(claims), []string{"t/fetched"})
		f.fresh(claims[0])
		equal(f, "lane", claims[0].Job.Lane(), job.Lane{Topic: "t", Endpoint: "pull:"})
		equal(f, "fetched again", claimedKeys(f.pull(10, "t")), nil)
		f.settle(store.Applied, delivered(claims[0]))
		equal(f, "state", f.get(job.Key{Topic: "t", ID: "fetched"}).State, job.Delivered)
		equal(f, "of several topics", claimedKeys(f.pull(10, "t", "u", "v")), []string{"u/other"})
	}},
	{name: "pull/the wait is until the next job", options: Options{}, run: func(f *fixture) {
		_, wait := f.pullAndWait(10, "t")
		equal(f, "nothing waits", wait < 0, true)
		f.add(reg("t", "later", pulled, delay(long)))
		claims, wait := f.pullAndWait(10, "t")
		equal(f, "claims", len(claims), 0)
		f.between("wait", job.Instant(wait/time.Millisecond), job.Instant((long-patience)/time.Millisecond), job.Instant(long/time.Millisecond))
		for i := range 5 {
			f.add(reg("t", strconv.Itoa(i), pulled))
		}
		claims, wait = f.pullAndWait(3, "t")
		equal(f, "claims up to the number", len(claims), 3)
		equal(f, "wait while more is due", wait, 0)
	}},
	{name: "pull/consumers are told of jobs that may be due earlier", options: Options{Shards: 2}, run: func(f *fixture) {
		l := f.listen(store.PullChannel)
		f.add(reg("t", "a", pulled))
		told := func() (topic string, at job.Instant) {
			f.Helper()
			topic, at, err := store.ParsePullMessage([]byte(l.take(1)[0]))
			f.noError("ParsePullMessage", err)
			return topic, at
		}
		topic, at := told()
		equal(f, "topic", topic, "t")
		equal(f, "due", at <= f.now(), true)
		c := f.pull(1, "t")[0]
		r := f.settle(store.Applied, failed(c, after(long)))
		topic, at = told()
		equal(f, "topic", topic, "t")
		if !f.repeats {
			equal(f, "time of the retry", at, r.NextAt)
		}
		l.end()
	}},
	{name: "pull/a lease that ends is taken by dispatchers, which charge it", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a", pulled))
		dead := f.expire(pulling(1, "t"))[0]
		claims := f.take()
		equal(f, "claimed", claimedKeys(claims), []string{"t/a"})
		f.from(claims[0], job.Running)
		o := claims[0].Job.Before(claims[0].From, claims[0].Earlier, claims[0].Now)
		if o == nil || o.Kind != job.OutcomeFailed {
			f.Fatalf("the outcome is %v", o)
		}
		f.settle(store.Applied, job.Settle(&claims[0].Job, *o, after(long)))
		j := f.get(job.Key{Topic: "t", ID: "a"})
		equal(f, "state", j.State, job.Retrying)
		equal(f, "attempts", j.Attempts, 1)
		equal(f, "error", j.LastAttempt.Error, "lease_expired")
		equal(f, "beginning of the attempt", j.LastAttempt.StartedAt, dead.Now)
		equal(f, "its end", dead.Now.Add(j.LastAttempt.Duration), claims[0].Now)
		f.settle(store.Stale, delivered(dead))
		f.extended(store.Stale, dead, long)
	}},
	{name: "pull/leases can be extended while they are current", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a", pulled))
		o := pulling(1, "t")
		o.Lease = time.Second
		c := f.takeOnce(o).Claims[0]
		r := f.extended(store.Applied, c, long)
		equal(f, "state", r.To, job.Running)
		equal(f, "the end is later", r.NextAt > c.Now.Add(long-time.Minute), true)
		f.extended(store.Applied, c, long)
		f.waitPast(c.Now.Add(o.Lease))
		f.takeNone(generous)
		j := f.get(c.Job.Key)
		equal(f, "state", j.State, job.Running)
		equal(f, "version", j.Version, c.Job.Version)
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Running: 1})
		other := c
		other.Job.Token--
		f.extended(store.Stale, other, long)
		f.settle(store.Applied, delivered(c))
		f.extended(store.Stale, c, long)
		equal(f, "state", f.get(c.Job.Key).State, job.Delivered)
	}},
	{name: "pull/a lease that ended can be extended until the job is claimed again", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a", pulled))
		c := f.expire(pulling(1, "t"))[0]
		f.ready(job.Running)
		f.extended(store.Applied, c, long)
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Running: 1})
		f.takeNone(generous)
		f.settle(store.Applied, delivered(c))
	}},
	{name: "pull/limits of the topic hold", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Paused: true})
		for i := range 5 {
			f.add(reg("t", strconv.Itoa(i), pulled))
		}
		claims, wait := f.pullAndWait(10, "t")
		equal(f, "claims of a paused topic", len(claims), 0)
		equal(f, "a consumer looks again later", wait > 0, true)
		l := f.listen(store.PullChannel)
		f.limit("t", store.Limits{Concurrency: 2})
		equal(f, "topic told when it resumes", strings.HasSuffix(l.take(1)[0], " t"), true)
		l.end()
		claims = f.pull(10, "t")
		equal(f, "leased", len(claims), 2)
		more, wait := f.pullAndWait(10, "t")
		equal(f, "claims beyond the concurrency", len(more), 0)
		equal(f, "a consumer looks again later", wait > 0, true)
		l = f.listen(store.PullChannel)
		f.settle(store.Applied, delivered(claims[0]))
		equal(f, "topic told of the free place", strings.HasSuffix(l.take(1)[0], " t"), true)
		l.end()
		equal(f, "leased", len(f.pull(10, "t")), 1)
		f.limit("t", store.Limits{Rate: 1})
		f.pull(10, "t")
		more, wait = f.pullAndWait(10, "t")
		equal(f, "claims beyond the rate", len(more), 0)
		equal(f, "a consumer waits for the rate", wait > 0, true)
	}},
	{name: "pull/priorities and order keys hold", options: Options{}, run: func(f *fixture) {
		ordered := func(r *store.Registration) { r.Spec.OrderKey = "k" }
		for i, id := range []string{"first", "second"} {
			r := reg("t", id, pulled, ordered)
			r.Spec.When.Delay = time.Duration(i) * time.Millisecond
			f.add(r)
		}
		f.add(reg("t", "low", pulled, func(r *store.Registration) { r.Spec.Priority = job.PriorityOf(1) }))
		f.add(reg("t", "high", pulled, func(r *store.Registration) { r.Spec.Priority = job.PriorityOf(9) }))
		f.waitPast(f.now().Add(2 * time.Millisecond))
		equal(f, "the highest priority", claimedKeys(f.pull(1, "t")), []string{"t/high"})
		claims := f.pull(10, "t")
		equal(f, "with one of the order key", claimedKeys(claims), []string{"t/first", "t/low"})
		for _, c := range claims {
			f.settle(store.Applied, delivered(c))
		}
		equal(f, "the next of the order key", claimedKeys(f.pull(10, "t")), []string{"t/second"})
	}},
}
