package redisstore

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/storetest"
)

// TestClusterWithoutAMaster: the store is not ready, and goes on with the
// shards of the other masters.
func TestClusterWithoutAMaster(t *testing.T) {
	t.Parallel()
	const shards = 6
	nodes := testenv.StartRedisCluster(t, 3, testenv.WithArgs("--cluster-require-full-coverage", "no", "--cluster-node-timeout", "1000"))
	s := openAs(t, Options{URL: "redis-cluster://" + nodes[0].Addr(), Shards: shards})
	defer s.Close()
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	nodes[1].Kill()
	for range 5 { // it must not depend on which node is asked
		if err := s.Ping(t.Context()); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("ready although a master is gone: %v", err)
		}
	}
	seen := map[int]bool{}
	for i := 0; len(seen) < shards; i++ {
		reg := aJob(strconv.Itoa(i))
		shard := s.shardOf(reg.Key)
		if seen[shard] {
			continue
		}
		seen[shard] = true
		_, err := s.Register(t.Context(), []store.Registration{reg})
		gone := shard*len(nodes)/shards == 1
		if gone && !errors.Is(err, store.ErrUnavailable) || !gone && err != nil {
			t.Errorf("shard %d (its master is gone: %v): %v", shard, gone, err)
		}
	}
}

// TestSentinelFailover kills the master that a sentinel named. The store must
// go on with the replica, and have what was replicated.
func TestSentinelFailover(t *testing.T) {
	t.Parallel() // it mostly waits
	master := testenv.StartRedis(t)
	replica := redis.NewClient(&redis.Options{Addr: testenv.StartReplica(t, master).Addr()})
	defer replica.Close()
	sentinel := testenv.StartSentinels(t, 1, "main", master, 1)[0]
	s := open(t, "redis-sentinel://main@"+sentinel.Addr(), storetest.Options{Retention: time.Hour})
	defer s.Close()
	reg := func(id string) store.Registration {
		return store.Registration{Key: job.Key{Topic: "t", ID: id}, UID: ulid.Make().String(), Spec: job.Spec{Destination: "http://a.example/"}}
	}
	if _, err := s.Register(t.Context(), []store.Registration{reg("before")}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, testenv.Patience, func() bool {
		before := job.Key{Topic: "t", ID: "before"}
		there, err := replica.HExists(t.Context(), s.shards[0].page(before), before.String()).Result()
		return err == nil && there
	}, "the job to be replicated")
	master.Kill()

	after := reg("after")
	testenv.Eventually(t, testenv.Patience, func() bool {
		_, err := s.Register(t.Context(), []store.Registration{after})
		if err != nil && !errors.Is(err, store.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	}, "the replica to take over")
	o := store.CarryOptions{Cap: 10, Visibility: time.Minute, HalfOpenLimit: 1}
	carried, err := s.Carry(t.Context(), 0, o)
	if err != nil || len(carried.Carried) != 2 {
		t.Fatalf("carried %v, %v; want the jobs from before and after the failover", carried.Carried, err)
	}
	hints, err := s.Pop(t.Context(), 0, 10, time.Second)
	if err != nil || len(hints) != 2 {
		t.Fatalf("popped %v, %v", hints, err)
	}
}
