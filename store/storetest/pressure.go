package storetest

import (
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

func (f *fixture) backlogs() []store.Backlog {
	f.Helper()
	before := f.now()
	b, err := f.Backlogs(f.ctx)
	f.noError("Backlogs", err)
	if b.Now < before || b.Now > f.now() {
		f.Fatalf("the backlogs are of %d, not between %d and %d", b.Now, before, f.now())
	}
	return b.Topics
}

// backlog is the backlog of n jobs of a topic, of which the oldest is j.
func backlog(n int64, j job.Job) store.Backlog {
	return store.Backlog{Topic: j.Topic, Jobs: n, Oldest: j.DueAt}
}

var pressureCases = []testCase{
	{name: "backlog/an empty store", options: Options{Shards: 2}, run: func(f *fixture) {
		equal(f, "backlogs", f.backlogs(), nil)
	}},
	{name: "backlog/jobs that are due and wait", options: Options{Shards: 3}, run: func(f *fixture) {
		f.add(reg("t", "later", delay(long)))
		equal(f, "backlogs before anything is due", f.backlogs(), nil)
		first := f.add(reg("tu", "a"))
		f.waitPast(f.now())
		other := f.add(reg("t", "a", to(urlB)))
		f.waitPast(f.now())
		f.add(reg("t", "b"))
		f.add(reg("tu", "b", to(urlB)))
		f.add(reg("tu", "c"))
		equal(f, "backlogs", f.backlogs(), []store.Backlog{backlog(2, other), backlog(3, first)})
	}},
	{name: "backlog/jobs that came due", options: Options{}, run: func(f *fixture) {
		j := f.add(reg("t", "a", delay(short)))
		f.add(reg("t", "b", delay(long)))
		f.waitPast(j.DueAt)
		equal(f, "backlogs", f.backlogs(), []store.Backlog{backlog(1, j)})
	}},
	{name: "backlog/what is claimed does not wait", options: Options{}, run: func(f *fixture) {
		f.register(store.Created, many("t", 3)...)
		o := generous
		o.Max = 2
		f.takeOnce(o)
		left := f.backlogs()
		equal(f, "waiting", left[0].Jobs, 1)
		equal(f, "backlogs", f.backlogs(), left)
	}},
	{name: "backlog/retries that are due, and jobs of a held endpoint", options: Options{}, run: func(f *fixture) {
		j := f.add(reg("t", "a"))
		f.settle(store.Applied, failed(f.takeOne(), always))
		f.noError("SetCircuit", f.SetCircuit(f.ctx, j.Lane().Endpoint, store.CircuitOpen, long))
		equal(f, "backlogs", f.backlogs(), []store.Backlog{{Topic: "t", Jobs: 1, Oldest: f.get(j.Key).NextAt}})
	}},
	{name: "backlog/a replaced and a cancelled job", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.add(reg("t", "b"))
		f.update(job.Key{Topic: "t", ID: "a"}, cancel)
		f.update(job.Key{Topic: "t", ID: "b"}, func(j *job.Job, now job.Instant) error {
			return j.Reschedule(job.When{Delay: long}, now)
		})
		equal(f, "backlogs", f.backlogs(), nil)
	}},
}
