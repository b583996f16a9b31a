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

// look carries from the pull queues of topics, up to most jobs of each shard, and returns their
// hints and the least wait; negative: nothing waits.
func (f *fixture) look(most int, topics ...string) (hints []popped, wait time.Duration) {
	f.Helper()
	o := carryOptions
	o.Cap, o.Pull, wait = most, topics, -1
	for shard := range f.Shards() {
		r, err := f.Carry(f.ctx, shard, o)
		f.noError("Carry", err)
		for _, c := range r.Carried {
			hints = append(hints, popped{c.Hint, shard})
		}
		if r.Wait >= 0 && (wait < 0 || r.Wait < wait) {
			wait = r.Wait
		}
	}
	return hints, wait
}

// pull leases up to most jobs of each shard.
func (f *fixture) pull(most int, topics ...string) []store.Claimed {
	f.Helper()
	hints, _ := f.look(most, topics...)
	return f.claim(hints, terms())
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
		equal(f, "carried for dispatchers", carriedKeys(f.carry(carryOptions)), []string{"t/sent"})
		f.pop()
		hints, wait := f.look(10, "t")
		equal(f, "wait", wait < 0, true)
		equal(f, "hints on the ready list", f.depth().ReadyList, 0)
		claims := f.claim(hints, terms())
		equal(f, "claimed", claimedKeys(claims), []string{"t/fetched"})
		f.from(claims[0], job.Ready)
		equal(f, "lane", claims[0].Job.Lane(), job.Lane{Topic: "t", Endpoint: "pull:"})
		equal(f, "fetched again", claimedKeys(f.pull(10, "t")), nil)
		f.settle(store.Applied, delivered(claims[0]))
		equal(f, "state", f.get(job.Key{Topic: "t", ID: "fetched"}).State, job.Delivered)
		equal(f, "of several topics", claimedKeys(f.pull(10, "t", "u", "v")), []string{"u/other"})
	}},
	{name: "pull/the wait is until the next job", options: Options{}, run: func(f *fixture) {
		_, wait := f.look(10, "t")
		equal(f, "nothing waits", wait < 0, true)
		f.add(reg("t", "later", pulled, delay(long)))
		hints, wait := f.look(10, "t")
		equal(f, "hints", len(hints), 0)
		f.between("wait", job.Instant(wait/time.Millisecond), job.Instant((long-patience)/time.Millisecond), job.Instant(long/time.Millisecond))
		for i := range 5 {
			f.add(reg("t", strconv.Itoa(i), pulled))
		}
		hints, wait = f.look(3, "t")
		equal(f, "hints up to the number", len(hints), 3)
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
	{name: "pull/a lease that ends is carried to dispatchers, which charge it", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a", pulled))
		hints, _ := f.look(1, "t")
		dead := f.expireLeases(hints)[0]
		equal(f, "carried", carriedKeys(f.carry(carryOptions)), []string{"t/a"})
		claims := f.claim(f.pop(), terms())
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
	{name: "pull/a job that was carried and not claimed comes back", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a", pulled))
		o := carryOptions
		o.Cap, o.Pull, o.Visibility = 1, []string{"t"}, time.Millisecond
		r, err := f.Carry(f.ctx, 0, o)
		f.noError("Carry", err)
		equal(f, "carried", carriedKeys(r.Carried), []string{"t/a"})
		f.waitPast(f.now().Add(o.Visibility))
		equal(f, "carried to dispatchers", carriedKeys(f.carry(carryOptions)), []string{"t/a"})
		f.settle(store.Applied, released(f.claim(f.pop(), terms())[0], 0))
		equal(f, "fetched", claimedKeys(f.pull(1, "t")), []string{"t/a"})
	}},
	{name: "pull/leases can be extended while they are current", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a", pulled))
		hints, _ := f.look(1, "t")
		o := terms()
		o.Lease = time.Second
		c := f.claim(hints, o)[0]
		r := f.extended(store.Applied, c, long)
		equal(f, "state", r.To, job.Running)
		equal(f, "the end is later", r.NextAt > c.Now.Add(long-time.Minute), true)
		f.extended(store.Applied, c, long)
		f.waitPast(c.Now.Add(o.Lease))
		equal(f, "carried", carriedKeys(f.carry(carryOptions)), nil)
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
		hints, _ := f.look(1, "t")
		c := f.expireLeases(hints)[0]
		f.carry(carryOptions)
		f.extended(store.Applied, c, long)
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Running: 1})
		equal(f, "claimed by an old hint", claimedKeys(f.claim(f.pop(), terms())), nil)
		f.settle(store.Applied, delivered(c))
	}},
	{name: "pull/limits of the topic hold", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Paused: true})
		for i := range 5 {
			f.add(reg("t", strconv.Itoa(i), pulled))
		}
		hints, wait := f.look(10, "t")
		equal(f, "hints of a paused topic", len(hints), 0)
		equal(f, "a consumer looks again later", wait > 0, true)
		l := f.listen(store.PullChannel)
		f.limit("t", store.Limits{Concurrency: 2})
		equal(f, "topic told when it resumes", strings.HasSuffix(l.take(1)[0], " t"), true)
		l.end()
		claims := f.pull(10, "t")
		equal(f, "leased", len(claims), 2)
		hints, wait = f.look(10, "t")
		equal(f, "hints beyond the concurrency", len(hints), 0)
		equal(f, "a consumer looks again later", wait > 0, true)
		l = f.listen(store.PullChannel)
		f.settle(store.Applied, delivered(claims[0]))
		equal(f, "topic told of the free place", strings.HasSuffix(l.take(1)[0], " t"), true)
		l.end()
		equal(f, "leased", len(f.pull(10, "t")), 1)
		f.limit("t", store.Limits{Rate: 1})
		f.pull(10, "t")
		hints, wait = f.look(10, "t")
		equal(f, "hints beyond the rate", len(hints), 0)
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
