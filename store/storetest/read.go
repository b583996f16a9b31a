package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
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
		for _, topic := range []string{"u", "T"} {
			equal(f, "topic "+topic, f.states(topic), nil)
		}
	}},
	{name: "read/an empty store", options: Options{Shards: 2}, run: func(f *fixture) {
		f.noError("Ping", f.Ping(f.ctx))
		equal(f, "topics", f.topics(), nil)
		d := f.depth()
		equal(f, "states", nonZero(d.States), nil)
		equal(f, "hints", d.ReadyList, 0)
		equal(f, "oldest due", d.OldestDue, 0)
		equal(f, "open circuits", d.OpenCircuits, 0)
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
		claims := f.take()
		spoil(claims[0].Job)
		f.settle(store.Applied, released(claims[0], 0))
		got := f.get(r.Key)
		equal(f, "spec", got.Spec, want.Spec)
		equal(f, "last attempt", got.LastAttempt, want.LastAttempt)
		equal(f, "log", f.attempts(r.Key), log)
	}},
	{name: "read/a head is the job without its body", options: Options{Retention: long}, run: readHeads},
	{name: "read/heads of several shards", options: Options{Retention: long, Shards: 3}, run: readHeads},
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
		want := f.detailed(s.Attempt)
		want.NextAt = f.settle(store.Applied, s).NextAt
		equal(f, "log", f.attempts(c.Job.Key), []job.Attempt{want})
		equal(f, "last attempt", f.get(c.Job.Key).LastAttempt, &want)
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
		ready := f.ready(job.Waiting)
		f.register(store.Created, reg("b", "w1", delay(long)), reg("b", "w2", delay(long)))
		f.register(store.Created, reg("c", "a", delay(long)), reg("B", "a", delay(long)), reg("a-b", "x", delay(long)))

		var names []string
		for _, t := range f.topics() {
			names = append(names, t.Topic)
		}
		equal(f, "names", names, []string{"B", "a-b", "b", "c"})
		want := map[job.State]int64{
			job.Waiting: 2, job.Retrying: 1, job.Running: 1,
			job.Delivered: 1, job.Dead: 1, job.Cancelled: 1, job.Expired: 1,
		}
		want[ready]++
		equal(f, "counts", f.states("b"), want)
		listed := map[string]map[job.State]int64{}
		for _, t := range f.topics() {
			listed[t.Topic] = nonZero(t.States)
		}
		equal(f, "counts in the listing", listed["b"], want)
		want[job.Waiting] += 3
		equal(f, "counts of all", nonZero(f.depth().States), want)
		for state := range want {
			equal(f, "state of "+state.String(), f.list(store.Query{Topic: "b", States: stateOf(state), Limit: 9})[0].State, state)
		}
	}},
	{name: "read/waiting jobs of a topic are counted by when they are due", options: Options{Retention: long, Shards: 3}, run: func(f *fixture) {
		delays := []time.Duration{30 * time.Second, 5 * time.Minute, 45 * time.Minute, 12 * time.Hour, 90 * 24 * time.Hour}
		f.end(reg("t", "ended"), job.Delivered)
		f.add(reg("t", "running"))
		f.take() // leased for an hour
		f.add(reg("t", "retrying"))
		f.settle(store.Applied, failed(f.takeOne(), after(45*time.Minute)))
		f.add(reg("t", "due"))
		f.takeOne()
		f.add(reg("t", "overdue"))
		f.add(reg("t", "expiring", delay(90*24*time.Hour), ttl(5*time.Minute)))
		for i, d := range delays {
			url := urlA
			if i%2 == 1 {
				url = urlB
			}
			f.add(reg("t", "w-"+d.String(), delay(d), to(url)))
			f.add(reg("other", "w-"+d.String(), delay(d)))
		}
		const minute, hour = time.Minute, time.Hour
		equal(f, "counts", f.dueCountsOf(store.DueOf{Topic: "t"}, f.now(), minute, 10*minute, hour, 24*hour), []int64{2, 2, 2, 1, 1})
	}},
	{name: "read/a topic goes with its last job", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.settle(store.Applied, delivered(f.takeOne()))
		equal(f, "topics", f.topics(), nil)
		equal(f, "the topic", f.states("t"), nil)
	}},
	{name: "read/depth tells what is due", options: Options{}, run: func(f *fixture) {
		before := f.now()
		j := f.add(reg("t", "later", delay(long)))
		d := f.depth()
		equal(f, "oldest due", d.OldestDue, j.DueAt)
		f.between("now", d.Now, before, f.now())
		early := f.add(reg("t", "now", to(urlB)))
		d = f.depth()
		equal(f, "oldest due", d.OldestDue, early.DueAt)
		f.takeOne()
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
			equal(f, "counts of "+topic, f.states(topic), map[job.State]int64{job.Waiting: 1, job.Delivered: 1, job.Dead: 1})
			equal(f, "due counts of "+topic, f.dueCountsOf(store.DueOf{Topic: topic}, f.now()), []int64{1})
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

// detailed sets the fields of a failed attempt that failed leaves empty, except NextAt.
func (f *fixture) detailed(a *job.Attempt) job.Attempt {
	f.Helper()
	a.Error, a.Version, a.ConnectRetries, a.Resent, a.Node = "some_class", 7, 2, true, "node"
	a.ResponseHeaders = []job.Header{{Name: "Content-Type", Value: "text/plain"}, {Name: "X", Value: "a|b\n 1 2"}}
	a.Timings = job.Timings{
		DNS: time.Nanosecond, Connect: time.Microsecond, TLS: time.Millisecond, FirstByte: time.Minute, Reused: true,
	}
	all := *a
	all.NextAt = 1
	if field := emptyField(reflect.ValueOf(all)); field != "" {
		f.Fatalf("the attempt has no %s", field)
	}
	return *a
}

// readHeads reads heads of jobs that are larger together than what is read at once.
func readHeads(f *fixture) {
	var keys []job.Key
	want := map[job.Key]*job.Job{{Topic: "t", ID: "gone"}: nil}
	for i := range 12 {
		f.add(reg("t", fmt.Sprint(i), biz("b"), body(strings.Repeat("x", store.BatchBytes/8))))
	}
	claims := f.take()
	f.settle(store.Applied, delivered(claims[0]))
	f.settle(store.Applied, failed(claims[1], always))
	for i := range 12 {
		j := f.get(job.Key{Topic: "t", ID: fmt.Sprint(i)})
		j.Spec.Body = nil
		keys, want[j.Key] = append(keys, j.Key), &j
	}
	keys = append(keys, job.Key{Topic: "t", ID: "gone"})
	heads, err := listing.HeadsOf(f.ctx, f.Store, keys)
	f.noError("HeadsOf", err)
	for i, key := range keys {
		equal(f, "the head of "+key.String(), heads[i], want[key])
	}
	for q := (store.Query{BizKey: "b", Limit: 5}); ; {
		page, err := listing.Heads(f.ctx, f.Store, q)
		f.noError("Heads", err)
		for i := range page.Jobs {
			j := &page.Jobs[i]
			equal(f, "the listed head of "+j.Key.String(), j, want[j.Key])
			delete(want, j.Key)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	equal(f, "jobs that no page has", len(want), 1)
	page, err := listing.Heads(f.ctx, f.Store, store.Query{UID: heads[3].UID, Limit: 1})
	f.noError("Heads", err)
	equal(f, "the head by its uid", page.Jobs, []job.Job{*heads[3]})
}
