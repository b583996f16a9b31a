package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Two nodes share a store. Each plans with the facts that it knows. None of them carries
// what the other node's latest change forbids.
func TestPlansFromOldFacts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	namespace := fmt.Sprintf("facts%d", namespaces.Add(1))
	url := testenv.StartRedis(t).URL()
	nodes := make([]*Store, 2)
	for i := range nodes {
		s, err := Open(ctx, Options{URL: url, Namespace: namespace})
		ok(t, "Open", err)
		t.Cleanup(func() { _ = s.Close() })
		nodes[i] = s
	}
	a, b := nodes[0], nodes[1]
	const topic, endpoint = "work", "http://a.example:80"
	for n := range 20 {
		reg := waitingJob(n)
		reg.Key.Topic, reg.UID, reg.Spec.Destination, reg.Spec.When = topic, ulid.Make().String(), endpoint+"/", job.When{}
		_, err := a.Register(ctx, []store.Registration{reg})
		ok(t, "Register", err)
	}
	lane := job.Lane{Topic: topic, Endpoint: endpoint}.String()
	carryUpTo := func(s *Store, ready, want int) {
		t.Helper()
		ok(t, "look at the lane", s.db.ZAddXX(ctx, s.shards[0].lanes, redis.Z{Score: 1, Member: lane}).Err())
		r, err := s.Carry(ctx, 0, store.CarryOptions{Cap: ready, Visibility: time.Hour, HalfOpenLimit: 1})
		ok(t, "Carry", err)
		if len(r.Carried) != want {
			t.Fatalf("carried %d jobs, want %d", len(r.Carried), want)
		}
	}
	carry := func(s *Store, want int) { t.Helper(); carryUpTo(s, 100, want) }
	set := func(l store.Limits) { ok(t, "SetLimits", b.SetLimits(ctx, topic, l)) }

	set(store.Limits{Concurrency: 2})
	carry(a, 2)
	set(store.Limits{Concurrency: 5})
	carry(a, 3)
	set(store.Limits{Paused: true})
	carry(a, 0)
	set(store.Limits{Rate: 0.001})
	carryUpTo(b, 0, 0)
	carry(a, 1)
	carry(b, 0) // it knows that none went
	set(store.Limits{Rate: 0.002})
	carry(b, 1)
	carry(a, 0)
	set(store.Limits{Concurrency: 10})
	ok(t, "OpenCircuit", b.OpenCircuit(ctx, endpoint, time.Hour))
	carry(a, 0)
	ok(t, "CloseCircuit", b.CloseCircuit(ctx, endpoint))
	carry(a, 0) // the ramp begins with the one that is half-open's limit
	ok(t, "forget the circuit", b.db.Del(ctx, b.shards[0].circuits).Err())
	carry(a, 3)
	set(store.Limits{})
	carry(a, 10)
}

// Carrying forgets the circuit of an endpoint that has closed, and does not plan with it again.
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
	if _, circuits := sh.facts.of([]job.Lane{sc.hint.Lane}); len(circuits) != 0 {
		t.Errorf("plans are made with %v", circuits)
	}
}
