package redisstore

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

const (
	urlA      = "http://a.example:80/"
	urlB      = "http://b.example:80/"
	endpointB = "http://b.example:80"
)

// scene is a store of two shards that holds something to do for every call.
type scene struct {
	namespace string

	sure   *Store // straight on Redis
	s      *Store // the same, by the URL under test
	locker store.Locker

	waiting   job.Key // due, with a biz_key
	counted   job.Key // far from its target
	dead      job.Key // with a log of one attempt
	hint      store.Hint
	claims    []store.Claimed // one of each shard
	regs      []store.Registration
	document  store.Document
	forgotten store.Document
}

var carryAll = store.CarryOptions{Cap: 100, Visibility: time.Hour, FlightLimits: store.FlightLimits{HalfOpenLimit: 100}}

func newScene(t testing.TB, r *testenv.Redis, url string) *scene {
	t.Helper()
	sc := &scene{namespace: fmt.Sprintf("scene%d", namespaces.Add(1))}
	sc.sure = sc.through(t, r.URL())
	sc.s = sc.through(t, url)
	sc.locker = sc.s.Locker(0)
	ctx := t.Context()

	var jobs []store.Registration
	for shard := range 2 {
		for _, name := range []string{"work", "dead", "done"} {
			jobs = append(jobs, sc.reg(shard, name))
		}
	}
	sc.register(t, jobs...)
	for shard := range 2 {
		_, err := sc.sure.Carry(ctx, shard, carryAll)
		ok(t, "Carry", err)
		hints, err := sc.sure.Pop(ctx, shard, 100, 0)
		ok(t, "Pop", err)
		claims, err := sc.sure.Claim(ctx, shard, hints, terms())
		ok(t, "Claim", err)
		if len(claims) != 3 {
			t.Fatalf("claimed %d jobs of 3", len(claims))
		}
		for _, c := range claims {
			switch {
			case strings.HasPrefix(c.Job.ID, "work"):
				sc.claims = append(sc.claims, c)
				continue
			case strings.HasPrefix(c.Job.ID, "dead"):
				sc.dead = c.Job.Key
				_, err = sc.sure.Settle(ctx, []job.Settlement{outcome(c, job.OutcomeFailed)})
			default:
				_, err = sc.sure.Settle(ctx, []job.Settlement{outcome(c, job.OutcomeDelivered)})
			}
			ok(t, "Settle", err)
		}
	}

	ready := sc.reg(0, "ready")
	sc.register(t, ready)
	carried, err := sc.sure.Carry(ctx, 0, carryAll)
	ok(t, "Carry", err)
	sc.hint = carried.Carried[0].Hint

	waiting, held := sc.reg(0, "waiting"), sc.reg(0, "held")
	sc.waiting, held.Spec.Destination = waiting.Key, urlB
	ok(t, "SetCircuit", sc.sure.SetCircuit(ctx, endpointB, store.CircuitOpen, time.Hour))
	sc.register(t, waiting, sc.reg(1, "waiting"), held)

	counted := sc.reg(0, "counted")
	sc.counted, counted.Spec.Count = counted.Key, &job.Count{Target: 1000, AtDeadline: job.DeadlineFires}
	counted.Spec.When.Delay = time.Hour
	sc.register(t, counted)

	replacing := waiting
	replacing.UID, replacing.Spec.Body, replacing.OnConflict = ulid.Make().String(), []byte("other"), job.ConflictReplace
	sc.regs = []store.Registration{sc.reg(0, "new"), replacing, sc.reg(1, "new")}
	sc.document = store.Document{Kind: "kind", Name: "new", Data: []byte("data")}
	sc.forgotten, err = store.PutDocument(ctx, sc.sure, store.Document{Kind: "kind", Name: "old"})
	ok(t, "PutDocument", err)
	held0, err := sc.locker.TryLock(ctx, time.Hour)
	if ok(t, "TryLock", err); !held0 {
		t.Fatal("the lock is taken")
	}
	return sc
}

// through opens the scene's store by another URL.
func (sc *scene) through(t testing.TB, url string) *Store {
	t.Helper()
	s, err := prepare(Options{URL: url, Namespace: sc.namespace, Shards: 2, Retention: time.Millisecond}, true)
	ok(t, "Open", err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// reg is a registration that falls into the shard.
func (sc *scene) reg(shard int, name string) store.Registration {
	key := job.Key{Topic: "t", ID: name}
	for i := 0; sc.sure.shardOf(key) != shard; i++ {
		key.ID = fmt.Sprintf("%s-%d", name, i)
	}
	return store.Registration{Key: key, UID: ulid.Make().String(), Spec: job.Spec{Destination: urlA, BizKey: "b"}}
}

func (sc *scene) register(t testing.TB, regs ...store.Registration) {
	t.Helper()
	out, err := sc.sure.Register(t.Context(), regs)
	ok(t, "Register", err)
	for i := range out {
		if out[i].Outcome != store.Created {
			t.Fatalf("%s: outcome %d", regs[i].Key, out[i].Outcome)
		}
	}
}

// plant stores a job as it is, with the log of its attempts. It waits for no replicas.
func plant(t testing.TB, s *Store, j job.Job, log []job.Attempt) {
	t.Helper()
	done, err := s.put(store.Unacknowledged(t.Context()), takeScript, s.shards[s.shardOf(j.Key)], nil, newRecord(j, log), nil)
	if err != nil || done != stored {
		t.Fatalf("plant %s: %v, %v", j.Key, done, err)
	}
}

func ok(t must.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func terms() store.ClaimOptions {
	return store.ClaimOptions{Nonce: ulid.Make().String(), Lease: time.Hour, LeaseMargin: time.Second}
}

func outcome(c store.Claimed, kind job.OutcomeKind) job.Settlement {
	o := job.Outcome{Kind: kind, Attempt: &job.Attempt{Number: 1, StartedAt: c.Now}}
	return job.Settle(&c.Job, o, func(int) (time.Duration, bool) { return 0, false })
}

// call is a call of the method that its name begins with.
type call struct {
	name string
	run  func(context.Context, *scene) error
}

// calls are calls of every method that asks Redis something.
var calls = []call{
	{"Register", func(ctx context.Context, sc *scene) error { return second(sc.s.Register(ctx, sc.regs)) }},
	{"Register on one shard", func(ctx context.Context, sc *scene) error { return second(sc.s.Register(ctx, sc.regs[:2])) }},
	{"Update", func(ctx context.Context, sc *scene) error {
		return second(sc.s.Update(ctx, sc.waiting, func(j *job.Job, now job.Instant) error {
			return j.Reschedule(job.When{Delay: time.Hour}, now)
		}))
	}},
	{"Count", func(ctx context.Context, sc *scene) error {
		return second(sc.s.Count(ctx, store.Count{Key: sc.counted, Adds: []job.Add{{N: 1}, {N: 2, Key: "k"}}}))
	}},
	{"Get", func(ctx context.Context, sc *scene) error { return second(sc.s.Get(ctx, sc.waiting)) }},
	{"Attempts", func(ctx context.Context, sc *scene) error { return second(store.Attempts(ctx, sc.s, sc.dead)) }},
	{"Outlook", func(ctx context.Context, sc *scene) error { return second(listing.Outlook(ctx, sc.s, sc.waiting)) }},
	{"List", func(ctx context.Context, sc *scene) error {
		return second(listing.List(ctx, sc.s, store.Query{Limit: 100}))
	}},
	{"List of a biz_key", func(ctx context.Context, sc *scene) error {
		return second(listing.List(ctx, sc.s, store.Query{BizKey: "b", Limit: 100}))
	}},
	{"Topics", func(ctx context.Context, sc *scene) error {
		return second(listing.Topics(ctx, sc.s, store.TopicQuery{Limit: 10}))
	}},
	{"Busiest topics", func(ctx context.Context, sc *scene) error {
		return second(listing.Topics(ctx, sc.s, store.TopicQuery{Busiest: true, Limit: 10}))
	}},
	{"Now", func(ctx context.Context, sc *scene) error { return second(store.Now(ctx, sc.s)) }},
	{"DeadGroups", func(ctx context.Context, sc *scene) error { return second(listing.DeadGroups(ctx, sc.s, "", 10, "")) }},
	{"Endpoints", func(ctx context.Context, sc *scene) error {
		return second(listing.Endpoints(ctx, sc.s, store.EndpointQuery{Limit: 10}))
	}},
	{"DueCounts", func(ctx context.Context, sc *scene) error {
		return second(listing.DueCounts(ctx, sc.s, store.DueOf{Topic: "t"}, []job.Instant{1, 1 << 42}))
	}},
	{"Backlogs", func(ctx context.Context, sc *scene) error { return second(listing.Backlogs(ctx, sc.s)) }},
	{"Depth", func(ctx context.Context, sc *scene) error { return second(listing.Depth(ctx, sc.s)) }},
	{"Carry", func(ctx context.Context, sc *scene) error { return second(sc.s.Carry(ctx, 0, carryAll)) }},
	{"Wakeups", func(ctx context.Context, sc *scene) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		return store.Wakeups(ctx, sc.s, func(int) { stop() })
	}},
	{"Publish", func(ctx context.Context, sc *scene) error { return sc.s.Publish(ctx, "channel", []byte("message")) }},
	{"Pop", func(ctx context.Context, sc *scene) error { return second(sc.s.Pop(ctx, 0, 10, time.Millisecond)) }},
	{"Claim", func(ctx context.Context, sc *scene) error {
		return second(sc.s.Claim(ctx, 0, []store.Hint{sc.hint}, terms()))
	}},
	{"Settle", func(ctx context.Context, sc *scene) error {
		return second(sc.s.Settle(ctx, []job.Settlement{
			outcome(sc.claims[0], job.OutcomeDelivered), outcome(sc.claims[1], job.OutcomeFailed),
		}))
	}},
	{"SetCircuit", func(ctx context.Context, sc *scene) error {
		return sc.s.SetCircuit(ctx, endpointB, store.CircuitOpen, time.Minute)
	}},
	{"SetCircuit to close", func(ctx context.Context, sc *scene) error {
		return sc.s.SetCircuit(ctx, endpointB, store.CircuitClosed, 0)
	}},
	{"SetLimits", func(ctx context.Context, sc *scene) error {
		return sc.s.SetLimits(ctx, "limited", store.Limits{Paused: true})
	}},
	{"Limits", func(ctx context.Context, sc *scene) error { return second(listing.Limits(ctx, sc.s)) }},
	{"Purge", func(ctx context.Context, sc *scene) error { return second(sc.s.Purge(ctx, 10)) }},
	{"ListDocuments of a name", func(ctx context.Context, sc *scene) error {
		return second(store.ReadDocument(ctx, sc.s, sc.forgotten.Kind, sc.forgotten.Name))
	}},
	{"ListDocuments", func(ctx context.Context, sc *scene) error {
		return second(sc.s.ListDocuments(ctx, store.DocumentQuery{Kind: "kind"}))
	}},
	{"Page of documents", func(ctx context.Context, sc *scene) error {
		return second(sc.s.ListDocuments(ctx, store.DocumentQuery{Kind: sc.forgotten.Kind, Limit: 1}))
	}},
	{"PutDocuments", func(ctx context.Context, sc *scene) error {
		return second(sc.s.PutDocuments(ctx, []store.Document{sc.document}))
	}},
	{"PutDocuments to delete", func(ctx context.Context, sc *scene) error {
		return store.DeleteDocument(ctx, sc.s, sc.forgotten.Kind, sc.forgotten.Name, sc.forgotten.Version)
	}},
	{"Ping", func(ctx context.Context, sc *scene) error { return sc.s.Ping(ctx) }},
	{"TryLock", func(ctx context.Context, sc *scene) error { return second(sc.s.Locker(1).TryLock(ctx, time.Hour)) }},
	{"Extend", func(ctx context.Context, sc *scene) error { return second(sc.locker.Extend(ctx)) }},
	{"Unlock", func(ctx context.Context, sc *scene) error { return sc.locker.Unlock(ctx) }},
}

// reads are the calls that leave a scene as it was.
var reads = []string{
	"Get", "Attempts", "Outlook", "List", "List of a biz_key", "Topics", "Busiest topics", "Now", "DeadGroups", "Backlogs", "Depth", "ListDocuments of a name", "ListDocuments", "Page of documents", "Ping",
}

// scenes gives a scene for each try of a call, a new one when the last was changed.
func (c call) scenes(t *testing.T, r *testenv.Redis, l *liar) func() *scene {
	if slices.Contains(reads, c.name) {
		sc := newScene(t, r, l.url())
		return func() *scene {
			for _, sh := range sc.s.shards {
				sh.clock.server = 0 // so that the time is asked for again
			}
			return sc
		}
	}
	return func() *scene { return newScene(t, r, l.url()) }
}

// topicStats are those of the topic t.
func topicStats(t *testing.T, s *Store) store.TopicStats {
	t.Helper()
	page, err := listing.Topics(t.Context(), s, store.TopicQuery{Topic: "t", Limit: 1})
	ok(t, "Topics", err)
	if len(page.Topics) != 1 {
		t.Fatalf("topics %+v", page.Topics)
	}
	return page.Topics[0]
}

func second[T any](_ T, err error) error { return err }

// atOnce makes all calls at the same time, but unlocking, which comes after
// them. It gives their errors.
func (sc *scene) atOnce(ctx context.Context) map[string]error {
	errs := make([]error, len(calls))
	var wg sync.WaitGroup
	for i, c := range calls {
		if c.name != "Unlock" {
			wg.Go(func() { errs[i] = c.run(ctx, sc) })
		}
	}
	wg.Wait()
	out := make(map[string]error)
	for i, c := range calls {
		if c.name == "Unlock" {
			errs[i] = c.run(ctx, sc)
		}
		out[c.name] = errs[i]
	}
	return out
}

func callOf(t testing.TB, name string) call {
	t.Helper()
	for _, c := range calls {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("no call %q", name)
	return call{}
}

// TestCallsAreComplete keeps calls from missing a new method.
func TestCallsAreComplete(t *testing.T) {
	called := map[string]bool{
		"Shards": true, "Locker": true, "Close": true, // which ask nothing
		"Listen": true,                                                 // asks what Wakeups asks
		"Names":  true, "Entries": true, "Read": true, "Figures": true, // through package listing
		"Take": true, // makes the calls Carry, Pop and Claim; package readylist tests how it meets their errors
	}
	for _, c := range calls {
		method, _, _ := strings.Cut(c.name, " ")
		called[method] = true
	}
	for _, i := range []reflect.Type{reflect.TypeFor[store.Store](), reflect.TypeFor[store.ReadyList](), reflect.TypeFor[store.Locker]()} {
		for m := range i.NumMethod() {
			if name := i.Method(m).Name; !called[name] {
				t.Errorf("no call of %s.%s", i.Name(), name)
			}
		}
	}
}
