package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

func (f *fixture) outlook(key job.Key) store.Outlook {
	f.Helper()
	o, err := f.Outlook(f.ctx, key)
	f.noError("Outlook "+key.String(), err)
	equal(f, "its job", o.Job, f.get(key))
	equal(f, "its shards", o.Shards, f.Shards())
	if now := f.now(); o.Now == 0 || o.Now > now {
		f.Fatalf("the outlook is of %d, and it is %d", o.Now, now)
	}
	return o
}

// figures are the counts of an outlook.
type figures struct{ Ahead, EndpointInFlight, LaneInFlight, ReadyList int64 }

func figuresOf(o store.Outlook) figures {
	return figures{o.Ahead, o.EndpointInFlight, o.LaneInFlight, o.ReadyList}
}

var outlookCases = []testCase{
	{name: "outlook/what is not there", options: Options{Shards: 2}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		before := f.now()
		for _, key := range []job.Key{{Topic: "t", ID: "b"}, {Topic: "u", ID: "a"}} {
			o, err := f.Outlook(f.ctx, key)
			f.isError("Outlook", err, store.ErrNotFound)
			if o.Now < before || o.Now > f.now() {
				f.Errorf("without a job it tells the time %d, not between %d and %d", o.Now, before, f.now())
			}
		}
	}},
	{name: "outlook/a job that waits", options: Options{Shards: 3}, run: func(f *fixture) {
		j := f.add(reg("t", "a", delay(long)))
		o := f.outlook(j.Key)
		equal(f, "at", o.At, j.DueAt)
		equal(f, "look", o.Look, j.DueAt)
		equal(f, "worker", o.Worker, "")
		equal(f, "circuit", o.Circuit, store.Circuit{})
		equal(f, "figures", figuresOf(o), figures{})
	}},
	{name: "outlook/a TTL that ends first", options: Options{}, run: func(f *fixture) {
		j := f.add(reg("t", "a", delay(2*long), func(r *store.Registration) { r.Spec.TTL = long }))
		equal(f, "at", f.outlook(j.Key).At, j.ExpiresAt)
	}},
	{name: "outlook/jobs ahead are those of its lane that are due before", options: Options{}, run: func(f *fixture) {
		for i, id := range []string{"c", "a", "b"} {
			f.add(reg("t", id, delay(long+time.Duration(i)*time.Second)))
		}
		f.add(reg("t", "elsewhere", delay(short), to(urlB)))
		f.add(reg("u", "other", delay(short)))
		for id, want := range map[string]int64{"c": 0, "a": 1, "b": 2} {
			equal(f, "ahead of "+id, f.outlook(job.Key{Topic: "t", ID: id}).Ahead, want)
		}
		at := f.now().Add(long)
		for _, id := range []string{"y", "x", "z"} {
			f.add(reg("v", id, func(r *store.Registration) { r.Spec.When = job.When{At: at} }))
		}
		for id, want := range map[string]int64{"x": 0, "y": 1, "z": 2} {
			equal(f, "ahead of "+id+", due with others", f.outlook(job.Key{Topic: "v", ID: id}).Ahead, want)
		}
		f.add(reg("t", "now"))
		f.take()
		equal(f, "ahead of b when another is out", f.outlook(job.Key{Topic: "t", ID: "b"}).Ahead, 2)
	}},
	{name: "outlook/jobs for other endpoints take turns with those of a paced topic", options: Options{}, run: func(f *fixture) {
		f.limit("t", store.Limits{Rate: 0.001})
		for i := range 5 {
			f.add(reg("t", fmt.Sprint("a", i)))
			f.add(reg("t", fmt.Sprint("b", i), to(urlB)))
		}
		f.add(reg("t", "c", to("https://c.example/")))
		f.add(reg("t", "open", to("https://open.example/")))
		f.add(reg("t", "later", delay(long)))
		f.add(reg("u", "other", to(urlB)))
		f.noError("SetCircuit", f.SetCircuit(f.ctx, "https://open.example:443", store.CircuitOpen, long))
		// As many of b as go before it in its own lane, and all of c.
		equal(f, "beside a3", f.outlook(job.Key{Topic: "t", ID: "a3"}).Beside, 4)
		equal(f, "beside a0", f.outlook(job.Key{Topic: "t", ID: "a0"}).Beside, 1)
		equal(f, "beside one that is not due", f.outlook(job.Key{Topic: "t", ID: "later"}).Beside, 0)
		f.limit("t", store.Limits{})
		equal(f, "beside a3 without a rate", f.outlook(job.Key{Topic: "t", ID: "a3"}).Beside, 0)
	}},
	{name: "outlook/a claimed job has the worker's name", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		terms := generous
		terms.By = "node-1.example:77-x"
		c := f.takeOnce(terms).Claims[0]
		o := f.outlook(c.Job.Key)
		equal(f, "state", o.Job.State, job.Running)
		equal(f, "lease", o.At, c.Now.Add(long))
		equal(f, "worker", o.Worker, terms.By)
		equal(f, "figures", figuresOf(o), figures{EndpointInFlight: 1, LaneInFlight: 1})
		f.settle(store.Applied, failed(c, after(long)))
		o = f.outlook(c.Job.Key)
		equal(f, "worker of a settled job", o.Worker, "")
		equal(f, "figures", figuresOf(o), figures{})
	}},
	{name: "outlook/a worker's name may hold anything", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		terms := generous
		terms.By = "node @1:2 \n\u00e9"
		claims := f.takeOnce(terms).Claims
		equal(f, "claimed", claimedKeys(claims), []string{"t/a"})
		if o := f.outlook(claims[0].Job.Key); o.Worker == "" {
			f.Errorf("no worker for %q", terms.By)
		}
		f.settle(store.Applied, delivered(claims[0]))
	}},
	{name: "outlook/a lease that expired", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		c := f.expireOne()
		o := f.outlook(c.Job.Key)
		equal(f, "state", o.Job.State, job.Running)
		equal(f, "it has expired", o.At <= o.Now, true)
		equal(f, "worker", o.Worker, "storetest")
	}},
	{name: "outlook/an open circuit", options: Options{Shards: 2}, run: func(f *fixture) {
		j := f.add(reg("t", "a"))
		endpoint := j.Lane().Endpoint
		before := f.now()
		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitOpen, long))
		f.takeNone(generous)
		o := f.outlook(j.Key)
		equal(f, "open", o.Circuit.OpenUntil >= before.Add(long) && o.Circuit.OpenUntil <= o.Now.Add(long), true)
		equal(f, "probed for as long after that", o.Circuit.HalfOpenUntil.Sub(o.Circuit.OpenUntil), long)
		equal(f, "ramp", o.Circuit.RampFrom, 0)
		equal(f, "look", o.Look, o.Circuit.OpenUntil)
		equal(f, "another endpoint", f.outlook(f.add(reg("t", "b", to(urlB))).Key).Circuit, store.Circuit{})

		f.noError("SetCircuit", f.SetCircuit(f.ctx, endpoint, store.CircuitClosed, 0))
		o = f.outlook(j.Key)
		equal(f, "half-open", o.Circuit, store.Circuit{RampFrom: o.Circuit.RampFrom})
		equal(f, "ramp", o.Circuit.RampFrom >= before && o.Circuit.RampFrom <= o.Now, true)
	}},
	{name: "outlook/an endpoint that is probed", options: Options{}, run: func(f *fixture) {
		j := f.add(reg("t", "a"))
		f.openBriefly()
		circuit := f.outlook(j.Key).Circuit
		equal(f, "circuit", circuit, store.Circuit{HalfOpenUntil: circuit.HalfOpenUntil})
		equal(f, "probed", circuit.HalfOpenUntil > f.now(), true)
	}},
	{name: "outlook/a changed job", options: Options{}, run: func(f *fixture) {
		j := f.add(reg("t", "a"))
		f.noError("SetCircuit", f.SetCircuit(f.ctx, j.Lane().Endpoint, store.CircuitOpen, long))
		f.update(j.Key, respecify(func(s *job.Spec) { s.Destination = urlB }))
		equal(f, "circuit of the new endpoint", f.outlook(j.Key).Circuit, store.Circuit{})
	}},
	{name: "outlook/a job that has ended", options: Options{Retention: long}, run: func(f *fixture) {
		for _, s := range finals {
			r := reg("t", s.String())
			if s == job.Expired {
				r.Spec.TTL = long
			}
			j := f.end(r, s)
			o := f.outlook(j.Key)
			equal(f, "outlook", o, store.Outlook{Now: o.Now, Job: j, Shard: o.Shard, Shards: o.Shards})
		}
	}},
	{name: "outlook/the shard is the one of the job", options: Options{Shards: 3}, run: func(f *fixture) {
		for i := range 9 {
			j := f.add(reg("t", fmt.Sprint(i)))
			claims := f.takeFrom(f.outlook(j.Key).Shard, generous).Claims
			equal(f, "taken", claimedKeys(claims), []string{j.Key.String()})
		}
	}},
	{name: "outlook/a job that is forgotten", options: Options{}, run: func(f *fixture) {
		f.add(reg("t", "a"))
		f.settle(store.Applied, delivered(f.takeOne()))
		if _, err := f.Outlook(f.ctx, job.Key{Topic: "t", ID: "a"}); !errors.Is(err, store.ErrNotFound) {
			f.Errorf("Outlook: %v, want ErrNotFound", err)
		}
	}},
}
