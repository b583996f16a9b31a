package storetest

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

var readCases = []testCase{
	{name: "read/what is not there", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a", delay(long)))
		for _, key := range []job.Key{{Topic: "t", ID: "b"}, {Topic: "u", ID: "a"}, {Topic: "a", ID: "t"}} {
			f.notFound(key)
			if _, err := f.Attempts(f.ctx, key); !errors.Is(err, store.ErrNotFound) {
				f.Errorf("Attempts: %v, want ErrNotFound", err)
			}
		}
		for _, topic := range []string{"u", "", "T"} {
			if _, err := f.Topic(f.ctx, topic); !errors.Is(err, store.ErrNotFound) {
				f.Errorf("Topic %q: %v, want ErrNotFound", topic, err)
			}
		}
	}},
	{name: "read/an empty store", options: Options{Shards: 2}, run: func(f *fixture) {
		f.noError("Ping", f.Ping(f.ctx))
		equal(f, "topics", f.topics(), nil)
		d := f.depth()
		equal(f, "states", nonZero(d.States), nil)
		equal(f, "hints", d.ReadyList, 0)
		equal(f, "oldest due", d.OldestDue, 0)
		equal(f, "held", d.Held, 0)
		equal(f, "jobs", keys(f.list(store.Query{Limit: 10})), nil)
	}},
	{name: "read/what it answers is the caller's", options: Options{}, run: func(f *fixture) {
		r := reg("t", "a", func(r *store.Registration) {
			r.Spec.Headers = []job.Header{{Name: "X-A", Value: "1"}}
			r.Spec.Retry = &job.Retry{Steps: []time.Duration{time.Second}}
		})
		spoil := func(j job.Job) {
			j.Spec.Body[0] = '!'
			j.Spec.Headers[0].Value = "spoiled"
			j.Spec.Retry.Steps[0] = 0
			if j.LastAttempt != nil {
				j.LastAttempt.Status = 1
			}
		}
		f.add(r)
		f.settle(store.Applied, failed(f.takeOne(), always))
		want, log := f.get(r.Key), f.attempts(r.Key)
		spoil(f.get(r.Key))
		spoil(f.list(store.Query{Limit: 1})[0])
		f.attempts(r.Key)[0].Status = 1
		f.carry(carryOptions)
		claims := f.claim(f.pop(), terms())
		spoil(claims[0].Job)
		f.settle(store.Applied, released(claims[0], 0))
		got := f.get(r.Key)
		equal(f, "spec", got.Spec, want.Spec)
		equal(f, "last attempt", got.LastAttempt, want.LastAttempt)
		equal(f, "log", f.attempts(r.Key), log)
	}},
	{name: "read/the log holds every attempt, oldest first", options: Options{Retention: long}, run: func(f *fixture) {
		key := f.add(reg("t", "a")).Key
		equal(f, "log of a new job", f.attempts(key), nil)
		equal(f, "last attempt of a new job", f.get(key).LastAttempt == nil, true)
		var want []job.Attempt
		for range 3 {
			c := f.takeOne()
			s := failed(c, always)
			a := *s.Attempt
			a.NextAt = f.settle(store.Applied, s).NextAt
			want = append(want, a)
			equal(f, "log", f.attempts(key), want)
			equal(f, "last attempt", f.get(key).LastAttempt, &a)
		}
		s := delivered(f.takeOne())
		f.settle(store.Applied, s)
		want = append(want, *s.Attempt)
		equal(f, "log", f.attempts(key), want)
		equal(f, "number of the last", want[3].Number, 4)
	}},
	{name: "read/an attempt keeps every field", options: Options{Retention: long}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		c := f.takeOne()
		s := failed(c, always)
		s.Attempt.Error, s.Attempt.Version, s.Attempt.ConnectRetries = "some_class", 7, 2
		s.Attempt.ResponseHeaders = []job.Header{{Name: "Content-Type", Value: "text/plain"}, {Name: "X", Value: "a|b\n 1 2"}}
		s.Attempt.Timings = job.Timings{
			DNS: time.Nanosecond, Connect: time.Microsecond, TLS: time.Millisecond, FirstByte: time.Minute, Reused: true,
		}
		want := *s.Attempt
		want.NextAt = f.settle(store.Applied, s).NextAt
		if field := emptyField(reflect.ValueOf(want)); field != "" {
			f.Fatalf("this case does not set the attempt's %s", field)
		}
		equal(f, "log", f.attempts(c.Job.Key), []job.Attempt{want})
		equal(f, "last attempt", f.get(c.Job.Key).LastAttempt, &want)
		r := store.RestoredJob{Job: restorable("t", "b", job.Retrying), Log: []job.Attempt{want}}
		f.restore(1, r)
		equal(f, "restored log", f.attempts(r.Job.Key), r.Log)
	}},
	{name: "read/a log of long attempts keeps the latest that fit", options: Options{}, run: func(f *fixture) {
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
	{name: "read/a long log keeps the latest", options: Options{}, run: func(f *fixture) {
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
	{name: "read/topics are counted by state", options: Options{Retention: long, Shards: 3}, run: func(f *fixture) {
		for _, state := range finals {
			f.end(reg("b", "ended-"+state.String()), state)
		}
		f.add(reg("b", "retrying"))
		f.settle(store.Applied, failed(f.takeOne(), after(long)))
		f.add(reg("b", "running"))
		f.take()
		f.add(reg("b", "ready"))
		f.carry(carryOptions)
		f.register(store.Created, reg("b", "w1", delay(long)), reg("b", "w2", delay(long)))
		f.register(store.Created, reg("c", "a", delay(long)), reg("B", "a", delay(long)), reg("a-b", "x", delay(long)))

		var names []string
		for _, t := range f.topics() {
			names = append(names, t.Topic)
			equal(f, "due ranges in the listing of topics", t.DueIn, nil)
		}
		equal(f, "names", names, []string{"B", "a-b", "b", "c"})
		want := map[job.State]int64{
			job.Waiting: 2, job.Retrying: 1, job.Ready: 1, job.Running: 1,
			job.Delivered: 1, job.Dead: 1, job.Cancelled: 1, job.Expired: 1,
		}
		equal(f, "counts", f.states("b"), want)
		one, err := f.Topic(f.ctx, "b")
		f.noError("Topic", err)
		equal(f, "counts of the topic", nonZero(one.States), want)
		want[job.Waiting] += 3
		equal(f, "counts of all", nonZero(f.depth().States), want)
		for _, state := range job.States {
			equal(f, "state of "+state.String(), f.list(store.Query{Topic: "b", States: stateOf(state), Limit: 9})[0].State, state)
		}
	}},
	{name: "read/unfinished jobs are counted by when they are due", options: Options{Retention: long, Shards: 3}, run: func(f *fixture) {
		delays := []time.Duration{
			30 * time.Second, 5 * time.Minute, 20 * time.Minute, 45 * time.Minute, 3 * time.Hour, 12 * time.Hour,
			3 * 24 * time.Hour, 15 * 24 * time.Hour, 90 * 24 * time.Hour,
		}
		f.end(reg("t", "ended"), job.Delivered)
		f.add(reg("t", "running"))
		f.take() // leased for an hour, but it is being worked on
		f.add(reg("t", "retrying"))
		f.settle(store.Applied, failed(f.takeOne(), after(45*time.Minute)))
		f.add(reg("t", "ready"))
		f.carry(carryOptions)
		f.add(reg("t", "overdue"))
		f.add(reg("t", "expiring", delay(90*24*time.Hour), ttl(5*time.Minute)))
		for i, d := range delays {
			url := urlA
			if i%2 == 1 {
				url = urlB
			}
			f.add(reg("t", "w-"+store.DueRanges[i].Name, delay(d), to(url)))
			f.add(reg("other", "w-"+store.DueRanges[i].Name, delay(d)))
		}
		got, err := f.Topic(f.ctx, "t")
		f.noError("Topic", err)
		equal(f, "due in", got.DueIn, []int64{1 + 3, 1 + 1, 1, 1 + 1, 1, 1, 1, 1, 1})
	}},
	{name: "read/a topic goes with its last job", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.settle(store.Applied, delivered(f.takeOne()))
		equal(f, "topics", f.topics(), nil)
		if _, err := f.Topic(f.ctx, "t"); !errors.Is(err, store.ErrNotFound) {
			f.Errorf("Topic: %v, want ErrNotFound", err)
		}
	}},
	{name: "read/depth tells what the carrier has before it", options: Options{}, run: func(f *fixture) {
		before := f.now()
		j := f.add(reg("t", "later", delay(long)))
		d := f.depth()
		equal(f, "oldest due", d.OldestDue, j.DueAt)
		f.between("now", d.Now, before, f.now())
		early := f.add(reg("t", "now", to(urlB)))
		d = f.depth()
		equal(f, "oldest due", d.OldestDue, early.DueAt)
		equal(f, "hints", d.ReadyList, 0)
		f.carry(carryOptions)
		equal(f, "hints", f.depth().ReadyList, 1)
		f.claim(f.pop(), terms())
		equal(f, "hints", f.depth().ReadyList, 0)
		if due := f.depth().OldestDue; due < j.DueAt {
			f.Errorf("oldest due is %d although nothing is due before %d", due, j.DueAt)
		}
	}},
	{name: "read/topics whose names begin alike are kept apart", options: Options{Retention: long, Shards: 2}, run: func(f *fixture) {
		topics := []string{"a", "a-b", "a.b", "a:b", "a@b", "ab", "a1", "A"}
		for _, topic := range topics {
			f.end(reg(topic, "dead"), job.Dead)
			f.end(reg(topic, "ended"), job.Delivered)
			f.add(reg(topic, "waiting", delay(long)))
		}
		for _, topic := range topics {
			jobs := f.list(store.Query{Topic: topic, Limit: 2})
			equal(f, "jobs of "+topic, keys(jobs), []string{topic + "/dead", topic + "/ended", topic + "/waiting"})
			stats, err := f.Topic(f.ctx, topic)
			f.noError("Topic", err)
			equal(f, "due in", slices.Index(stats.DueIn, 1) > 0, true)
		}
	}},
}

// emptyField names a field that is zero, of v or of a struct in it.
func emptyField(v reflect.Value) string {
	for i := range v.NumField() {
		name, field := v.Type().Field(i).Name, v.Field(i)
		if field.Kind() == reflect.Struct {
			if inner := emptyField(field); inner != "" {
				return name + "." + inner
			}
		} else if field.IsZero() {
			return name
		}
	}
	return ""
}
