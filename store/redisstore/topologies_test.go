package redisstore

import (
	"errors"
	"strconv"
	"testing"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

// TestClusterWithoutAMaster: the store is not ready, and goes on with the
// shards of the other masters.
func TestClusterWithoutAMaster(t *testing.T) {
	t.Parallel()
	const shards = 6
	nodes := testenv.StartRedisCluster(t, 3, testenv.WithArgs("--cluster-require-full-coverage", "no", "--cluster-node-timeout", "1000"))
	s := openAs(t, Options{URL: "redis-cluster://" + nodes[0].Addr(), Shards: shards})
	defer s.Close()
	ok(t, "Ping", s.Ping(t.Context()))
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
