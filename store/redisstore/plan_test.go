package redisstore

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

// planned is a shard with a lane of 20 due jobs, and a node that is interrupted between its
// plan and the script that carries it out.
type planned struct {
	testing.TB
	a, b *Store // a is interrupted
	lane job.Lane
	own  map[string]int // CarryOptions.TopicLimits
	// between is called once, before the next plan of a is carried out.
	between func()
}

var plannedLane = job.Lane{Topic: "work", Endpoint: "http://a.example:80"}

func newPlanned(t testing.TB) *planned {
	t.Helper()
	namespace := fmt.Sprintf("planned%d", namespaces.Add(1))
	url := testenv.StartRedis(t).URL()
	p := &planned{TB: t, lane: plannedLane}
	for _, s := range []**Store{&p.a, &p.b} {
		opened, err := prepare(Options{URL: url, Namespace: namespace}, true)
		ok(t, "Open", err)
		t.Cleanup(func() { _ = opened.Close() })
		*s = opened
	}
	p.a.db.AddHook(p)
	for n := range 20 {
		p.register(n)
	}
	return p
}

func (p *planned) register(n int, with ...func(*store.Registration)) {
	p.Helper()
	reg := waitingJob(n)
	reg.Key.Topic, reg.UID = p.lane.Topic, ulid.Make().String()
	reg.Spec.Destination, reg.Spec.When = job.Destination(p.lane.Endpoint+"/"), job.When{}
	for _, set := range with {
		set(&reg)
	}
	_, err := p.b.Register(p.Context(), []store.Registration{reg})
	ok(p, "Register", err)
}

func (*planned) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*planned) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (p *planned) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if between := p.between; between != nil && len(cmd.Args()) > 1 && cmd.Args()[1] == carryScript.Hash() {
			p.between = nil
			between()
		}
		return next(ctx, cmd)
	}
}

// carry looks at the lane, and carries up to so many jobs.
func (p *planned) carry(s *Store, ready int) int {
	p.Helper()
	ok(p, "look at the lane", s.db.ZAddXX(p.Context(), s.shards[0].lanes, redis.Z{Score: 1, Member: p.lane.String()}).Err())
	r, err := s.Carry(p.Context(), 0, store.CarryOptions{
		Cap: ready, Visibility: time.Hour, FlightLimits: store.FlightLimits{HalfOpenLimit: 1, TopicLimits: p.own},
	})
	ok(p, "Carry", err)
	return len(r.Carried)
}

// carryOldPlan carries by a plan that was made before something happened, and returns how
// many jobs it carried. before may be nil.
func (p *planned) carryOldPlan(before, between func(*planned)) int {
	p.Helper()
	if before != nil {
		before(p)
	}
	p.between = func() { between(p) }
	n := p.carry(p.a, 100)
	if p.between != nil {
		p.Fatal("no plan was carried out")
	}
	return n
}

// claim claims the carried job of the lane.
func (p *planned) claim() store.Claimed {
	p.Helper()
	hints, err := p.b.Pop(p.Context(), 0, 100, 0)
	ok(p, "Pop", err)
	hints = slices.DeleteFunc(hints, func(h store.Hint) bool { return h.Lane != p.lane })
	claims, err := p.b.Claim(p.Context(), 0, hints, terms())
	ok(p, "Claim", err)
	return claims[0]
}

func (p *planned) settle(c store.Claimed) {
	p.Helper()
	_, err := p.b.Settle(p.Context(), []job.Settlement{outcome(c, job.OutcomeDelivered)})
	ok(p, "Settle", err)
}

func (p *planned) limit(l store.Limits) {
	p.Helper()
	ok(p, "SetLimits", p.b.SetLimits(p.Context(), p.lane.Topic, l))
}

// A plan that follows an old one sees all lanes of a pull queue.
func TestOldPlanOfAPullQueue(t *testing.T) {
	t.Parallel()
	p := newPlanned(t)
	pulled := func(n, priority int) {
		p.register(n, func(r *store.Registration) {
			r.Key.Topic, r.Spec.Destination, r.Spec.Priority = "fetched", job.PullQueue, job.PriorityOf(priority)
		})
	}
	pulled(20, 5)
	p.between = func() {
		ok(p, "SetLimits", p.b.SetLimits(p.Context(), "fetched", store.Limits{Concurrency: 1000}))
		for priority := range job.MaxPriority {
			pulled(21+priority, priority+1)
		}
	}
	r, err := p.a.Carry(t.Context(), 0, store.CarryOptions{Cap: 100, Visibility: time.Hour, FlightLimits: store.FlightLimits{HalfOpenLimit: 1}, Pull: []string{"fetched"}})
	ok(t, "Carry", err)
	ids := map[string]bool{}
	for i := range r.Carried {
		ids[r.Carried[i].Hint.ID] = true
	}
	if want := 1 + job.MaxPriority; len(r.Carried) != want || len(ids) != want || p.between != nil {
		t.Errorf("carried %d, %d different ones; want all %d", len(r.Carried), len(ids), want)
	}
}

// Two nodes share a store. Each obeys the latest change of the other.
func TestPlansOfTwoNodes(t *testing.T) {
	t.Parallel()
	p := newPlanned(t)
	carry := func(s *Store, want int) {
		t.Helper()
		if n := p.carry(s, 100); n != want {
			t.Fatalf("carried %d jobs, want %d", n, want)
		}
	}
	p.limit(store.Limits{Concurrency: 2})
	carry(p.a, 2)
	p.limit(store.Limits{Concurrency: 5})
	carry(p.a, 3)
	p.limit(store.Limits{Paused: true})
	carry(p.a, 0)
	p.limit(store.Limits{Rate: 0.001})
	if n := p.carry(p.b, 0); n != 0 {
		t.Fatalf("carried %d jobs to a full list", n)
	}
	carry(p.a, 1)
	carry(p.b, 0)
	p.limit(store.Limits{Rate: 0.002})
	carry(p.b, 1)
	carry(p.a, 0)
	p.limit(store.Limits{Concurrency: 10})
	ok(t, "SetCircuit", p.b.SetCircuit(t.Context(), p.lane.Endpoint, store.CircuitOpen, time.Hour))
	carry(p.a, 0)
	ok(t, "SetCircuit", p.b.SetCircuit(t.Context(), p.lane.Endpoint, store.CircuitClosed, 0))
	carry(p.a, 0) // the ramp begins with the limit of a half-open circuit
	ok(t, "forget the circuit", p.b.db.Del(t.Context(), p.b.shards[0].circuits).Err())
	carry(p.a, 3)
	p.limit(store.Limits{})
	carry(p.a, 10)
}

// A plan that was made before another change carries no more than that allows.
func TestOldPlans(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, between func(p *planned)
		want            int
	}{
		"nothing changed": {between: func(*planned) {}, want: 20},
		"paused":          {between: func(p *planned) { p.limit(store.Limits{Paused: true}) }},
		"circuit opened": {between: func(p *planned) {
			ok(p, "SetCircuit", p.b.SetCircuit(p.Context(), p.lane.Endpoint, store.CircuitOpen, time.Hour))
		}},
		"another carrier, to the same limit": {
			before:  func(p *planned) { p.limit(store.Limits{Concurrency: 5}) },
			between: func(p *planned) { p.carry(p.b, 3) },
			want:    2,
		},
		"another carrier, at the same rate": {
			before:  func(p *planned) { p.limit(store.Limits{Rate: 0.001}) },
			between: func(p *planned) { p.carry(p.b, 100) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if n := newPlanned(t).carryOldPlan(tc.before, tc.between); n != tc.want {
				t.Errorf("carried %d jobs, want %d", n, tc.want)
			}
		})
	}
}

// A lane that changes between a plan and its execution is looked at in time.
func TestLooksOfOldPlans(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, between func(p *planned)
	}{
		"a job arrived": {
			between: func(p *planned) { p.register(20) },
		},
		"a place of the lane came free": {
			before: func(p *planned) {
				p.own = map[string]int{p.lane.Topic: 1}
				p.carry(p.b, 100)
			},
			between: func(p *planned) { p.settle(p.claim()) },
		},
		"a place of the topic came free": {
			before: func(p *planned) {
				p.limit(store.Limits{Concurrency: 1})
				p.carry(p.b, 100)
			},
			between: func(p *planned) { p.settle(p.claim()) },
		},
		"a head of an order key was called": {
			before: func(p *planned) {
				p.lane.Ordered = true
				for n := range 2 {
					p.register(20+n, func(r *store.Registration) { r.Spec.OrderKey = "key" })
				}
				p.carry(p.b, 100)
			},
			between: func(p *planned) { p.settle(p.claim()) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlanned(t)
			p.carryOldPlan(tc.before, tc.between)
			now, err := store.Now(t.Context(), p.b)
			ok(t, "Now", err)
			look, err := p.b.db.ZScore(t.Context(), p.b.shards[0].lanes, p.lane.String()).Result()
			ok(t, "the lane's look", err)
			if job.Instant(look) > now {
				t.Errorf("the lane is looked at in %v", job.Instant(look).Sub(now))
			}
		})
	}
}

// Carrying forgets the circuit of an endpoint that has closed.
func TestCarryForgetsClosedCircuits(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	sc := newScene(t, r, r.URL())
	ctx := t.Context()
	endpoint := sc.hint.Lane.Endpoint
	sh := sc.s.shards[0]
	ok(t, "HSET", sc.s.db.HSet(ctx, sh.circuits, endpoint, "1000 2000").Err())
	carried := 0
	for range 2 {
		ok(t, "look at the lane", sc.s.db.ZAddXX(ctx, sh.lanes, redis.Z{Score: 1, Member: sc.hint.Lane.String()}).Err())
		r, err := sc.s.Carry(ctx, 0, carryAll)
		ok(t, "Carry", err)
		carried += len(r.Carried)
	}
	if carried == 0 {
		t.Error("nothing was carried")
	}
	if there, err := sc.s.db.HExists(ctx, sh.circuits, endpoint).Result(); err != nil || there {
		t.Errorf("the circuit is there: %t, %v", there, err)
	}
}
