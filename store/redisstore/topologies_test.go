package redisstore

import (
	"errors"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/testenv"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/storetest"
)

func TestConformanceOnCluster(t *testing.T) {
	t.Parallel()
	nodes := testenv.StartRedisCluster(t, 3)
	url := "redis-cluster://" + nodes[0].Addr() + "," + nodes[1].Addr()
	storetest.Run(t, storetest.Harness{Open: func(t testing.TB, o storetest.Options) store.Store {
		return open(t, url, o)
	}})
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
		return store.Registration{Key: job.Key{Topic: "t", ID: id}, UID: ulid.Make().String(), Spec: job.Spec{URL: "http://a.example/"}}
	}
	if _, err := s.Register(t.Context(), []store.Registration{reg("before")}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, time.Minute, func() bool {
		n, err := replica.Exists(t.Context(), s.shards[0].job(job.Key{Topic: "t", ID: "before"})).Result()
		return err == nil && n == 1
	}, "the job to be replicated")
	master.Kill()

	after := reg("after")
	testenv.Eventually(t, time.Minute, func() bool {
		_, err := s.Register(t.Context(), []store.Registration{after})
		if err != nil && !errors.Is(err, store.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	}, "the replica to take over")
	o := store.CarryOptions{Cap: 10, Visibility: time.Minute, ProbeLimit: 1}
	carried, err := s.Carry(t.Context(), 0, o)
	if err != nil || len(carried.Carried) != 2 {
		t.Fatalf("carried %v, %v; want the jobs from before and after the failover", carried.Carried, err)
	}
	hints, err := s.Pop(t.Context(), 0, 10, time.Second)
	if err != nil || len(hints) != 2 {
		t.Fatalf("popped %v, %v", hints, err)
	}
}
