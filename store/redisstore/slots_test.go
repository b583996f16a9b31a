package redisstore

import (
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// Each shard's tag lies in its own part of the slots, and is its own, also among those of other numbers of shards.
func TestShardTags(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{"default", "a", "shop-1", strings.Repeat("n", 64)} {
		seen := map[string]bool{}
		for _, shards := range []int{1, 2, 3, 8, 100, 1024} {
			if shards > 100 && namespace != "default" {
				continue // a tag of many takes long to find
			}
			for i := range shards {
				tag := shardTag(namespace, i, shards)
				if slot := int(crc16(0, tag)) % slots; slot < i*slots/shards || slot >= (i+1)*slots/shards {
					t.Fatalf("shard %d of %d has tag %q in slot %d", i, shards, tag, slot)
				}
				if seen[tag] {
					t.Fatalf("shard %d of %d has tag %q, as another one", i, shards, tag)
				}
				seen[tag] = true
			}
		}
	}
	must.Equal(t, "the only shard has tag", shardTag("default", 0, 1), "default:0")
}

// In a Cluster each master gets an equal part of the shards, whatever the
// namespace, and all keys of a shard lie in the slot that its tag was chosen for.
func TestShardsSpreadOverMasters(t *testing.T) {
	t.Parallel()
	const masters, shards = 3, 8
	nodes := testenv.StartRedisCluster(t, masters)
	for _, namespace := range []string{"default", "prod", "a", "b", "shop-1"} {
		s, err := prepare(Options{URL: "redis-cluster://" + nodes[0].Addr(), Namespace: namespace, Shards: shards}, true)
		ok(t, "prepare", err)
		t.Cleanup(func() { _ = s.Close() })
		on := map[string]int{}
		for i, sh := range s.shards {
			node, err := masterOf(t.Context(), s.db, sh.lanes)
			ok(t, "masterOf", err)
			on[node.Options().Addr]++
			for _, key := range []string{sh.lanes, sh.mark, sh.page(job.Key{Topic: "t", ID: "i"}), sh.bucket("t|M|http://a:1")} {
				slot, err := s.db.ClusterKeySlot(t.Context(), key).Result()
				if err != nil || slot*shards/slots != int64(i) {
					t.Errorf("%s is in slot %d, %v; not in part %d of %d", key, slot, err, i, shards)
				}
			}
		}
		for _, n := range nodes {
			if got := on[n.Addr()]; got < shards/masters {
				t.Errorf("%s: a master has %d of %d shards: %v", namespace, got, shards, on)
			}
		}
	}
}
