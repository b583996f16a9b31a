package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

var registerCases = []testCase{
	{name: "register/a new job waits until its delay has passed", options: Options{Retention: long}, run: func(f *fixture) {
		before := f.now()
		r := reg("t", "a", delay(long), ttl(2*long))
		j := f.add(r)
		after := f.now()
		equal(f, "state", j.State, job.Waiting)
		equal(f, "uid", j.UID, r.UID)
		equal(f, "spec", j.Spec, r.Spec)
		f.between("created at", j.CreatedAt, before, after)
		equal(f, "due at", j.DueAt, j.CreatedAt.Add(long))
		equal(f, "next at", j.NextAt, j.DueAt)
		equal(f, "expires at", j.ExpiresAt, j.CreatedAt.Add(2*long))
		equal(f, "attempts", j.Attempts, 0)
		equal(f, "version is set", j.Version > 0, true)
		equal(f, "updated at", j.UpdatedAt, j.CreatedAt)
		equal(f, "the stored job", f.get(r.Key), j)
		equal(f, "counts", f.states("t"), map[job.State]int64{job.Waiting: 1})
		f.takeNone(generous)
	}},
	{name: "register/a job without a delay is due at once", options: Options{}, run: func(f *fixture) {
		j := f.add(reg("t", "a"))
		equal(f, "due at", j.DueAt, j.CreatedAt)
		equal(f, "expires at", j.ExpiresAt, job.Instant(0))
		equal(f, "claimed", f.takeOne().Job.Key, j.Key)
	}},
	{name: "register/a job may be due at an instant", options: Options{}, run: func(f *fixture) {
		at := f.now().Add(long)
		r := reg("t", "a")
		r.Spec.When = job.When{At: at}
		equal(f, "due at", f.add(r).DueAt, at)
	}},
	{name: "register/a spread delays a job by the share of its key", options: Options{Shards: 2}, run: func(f *fixture) {
		spread := func(r store.Registration, w job.When) store.Registration {
			r.Spec.When = w
			return r
		}
		at := f.now().Add(long)
		share := func(r store.Registration) time.Duration { return job.Share(r.Key.String(), long) }
		instant := spread(reg("t", "a"), job.When{At: at, Spread: long})
		equal(f, "due at", f.add(instant).DueAt, at.Add(share(instant)))
		for _, r := range []store.Registration{
			spread(reg("t", "b"), job.When{Delay: long, Spread: long}),
			spread(reg("t", "c", ttl(3*long)), job.When{Spread: long}),
		} {
			j := f.add(r)
			equal(f, "due at", j.DueAt, j.CreatedAt.Add(r.Spec.When.Delay+share(r)))
			equal(f, "next at", j.NextAt, j.DueAt)
			equal(f, "spec", j.Spec, r.Spec)
			equal(f, "the stored job", f.get(r.Key), j)
			r.UID = newUID()
			equal(f, "the same job again", f.register(store.Same, r)[0], j)
		}
		moved := spread(reg("t", "a", onConflict(job.ConflictLater)), job.When{At: at.Add(long), Spread: long})
		equal(f, "outcome", f.move(moved), store.Moved)
		equal(f, "outcome", f.move(moved), store.Kept)
		equal(f, "due at", f.get(moved.Key).DueAt, at.Add(long+share(moved)))
		instant.OnConflict, instant.UID = job.ConflictReplace, newUID()
		instant.Spec.Body, instant.Spec.Content = []byte("new"), 1
		equal(f, "due at", f.register(store.Created, instant)[0].DueAt, at.Add(share(instant)))
		f.takeNone(generous)
	}},
	{name: "register/an instant in the past is now", options: Options{}, run: func(f *fixture) {
		before := f.now()
		r := reg("t", "a")
		r.Spec.When = job.When{At: before.Add(-long)}
		j := f.add(r)
		f.between("due at", j.DueAt, before, f.now())
		equal(f, "claimed", f.takeOne().Job.Key, r.Key)
	}},
	{name: "register/every field of a spec is kept", options: Options{}, run: func(f *fixture) {
		limit := 3
		r := reg("t", "a")
		r.Spec = job.Spec{
			Destination: "https://shop.example/hooks?x=1&y=%20", Method: "PUT", BizKey: "order:8812", ContentType: "text/plain",
			Headers: []job.Header{{Name: "X-A", Value: "1"}, {Name: "X-B", Value: "zwei ü"}},
			Body:    []byte("a\x00b\xff\n|/{}"), BodyForm: job.BodyBase64, When: job.When{Delay: 1500 * time.Millisecond},
			Retry:   &job.Retry{Steps: []time.Duration{time.Second, 90 * time.Second}, Limit: &limit},
			Timeout: 7 * time.Second, TTL: 48 * time.Hour, ExpectBody: "success",
			Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			Tracestate:  "vendor=1",
			Labels:      []job.Label{{Key: "empty"}, {Key: "shop", Value: "größe: 7"}},
		}
		f.add(r)
		equal(f, "spec", f.get(r.Key).Spec, r.Spec)
		equal(f, "listed spec", f.list(store.Query{Limit: 1})[0].Spec, r.Spec)
	}},
	{name: "register/names keep their case and signs", options: Options{}, run: func(f *fixture) {
		regs := []store.Registration{
			reg("Topic", "Id"), reg("topic", "id"), reg("topic", "ID"), reg("a.b_c:d@e-f", "A.b_C:d@E-f"),
			reg("t", "00000000000000000000000000000000000000000000000000000000000000000000000000000001"),
		}
		f.register(store.Created, regs...)
		for _, r := range regs {
			equal(f, "uid of "+r.Key.String(), f.get(r.Key).UID, r.UID)
		}
		equal(f, "claimed", len(f.take()), len(regs))
	}},
	{name: "register/results stand in the order of the batch", options: Options{Retention: long, Shards: 3}, run: func(f *fixture) {
		f.add(reg("t", "other", delay(long), body("old")))
		f.add(reg("t", "same", delay(long)))
		batch := []store.Registration{
			reg("t", "other", delay(long), body("new")),
			reg("t", "new1", delay(long)),
			reg("t", "same", delay(long)),
			reg("u", "new2", delay(long)),
			reg("t", "new1", delay(long)),               // twice in one batch
			reg("t", "new1", delay(long), body("else")), // and with other content
			reg("t", "other", delay(long), body("new"), onConflict(job.ConflictIgnore)),
		}
		results, err := f.Register(f.ctx, batch)
		f.noError("Register", err)
		var outcomes []store.RegisterOutcome
		for i, r := range results {
			outcomes = append(outcomes, r.Outcome)
			equal(f, "key", r.Job.Key, batch[i].Key)
			equal(f, "the job that has the key", f.whole(r), f.get(batch[i].Key))
		}
		equal(f, "outcomes", outcomes, []store.RegisterOutcome{
			store.Exists, store.Created, store.Same, store.Created, store.Same, store.Exists, store.Kept,
		})
	}},
	{name: "register/a batch may be empty or large", options: Options{Shards: 3}, run: func(f *fixture) {
		f.register(store.Created)
		regs := make([]store.Registration, 1_000)
		for i := range regs {
			regs[i] = reg(fmt.Sprintf("t%d", i%3), fmt.Sprintf("job-%d", i), delay(long))
		}
		f.register(store.Created, regs...)
		for i := range regs {
			regs[i].UID = newUID()
		}
		f.register(store.Same, regs...)
		equal(f, "waiting", f.depth().States[job.Waiting], int64(len(regs)))
	}},
	{name: "register/of many at once one makes the job", options: Options{}, run: func(f *fixture) {
		const callers = 8
		r := reg("t", "a", delay(long))
		outcomes := make([]store.RegisterOutcome, callers)
		answers := make([]store.Registered, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				mine := r
				mine.UID = newUID()
				results, err := f.Register(f.ctx, []store.Registration{mine})
				if err != nil || len(results) != 1 {
					f.Errorf("Register: %d results, %v", len(results), err)
					return
				}
				outcomes[i], answers[i] = results[0].Outcome, results[0]
			})
		}
		wg.Wait()
		created := 0
		for i := range callers {
			if outcomes[i] == store.Created {
				created++
			}
			equal(f, "every caller's job", f.whole(answers[i]), f.whole(answers[0]))
		}
		equal(f, "created", created, 1)
	}},
}

// between fails the test unless from <= got <= till.
func (f *fixture) between(what string, got, from, till job.Instant) {
	f.Helper()
	if got < from || got > till {
		f.Fatalf("%s: %d, want %d to %d", what, got, from, till)
	}
}
