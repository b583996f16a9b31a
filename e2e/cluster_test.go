package e2e

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// TestClusterUnderLoad: while 100 jobs/s flow over the eight shards of a
// Cluster, the shards of one master are moved to another, which is then
// killed, and a third is frozen for longer than the Cluster waits. Nothing is
// lost, and who was thought dead follows. It runs alone: servers that get no
// processor for a second replace their master once more.
func TestClusterUnderLoad(t *testing.T) {
	rnd := newRand(t)
	r := receiver.Start(t, slowly)
	quick := testenv.WithArgs("--cluster-node-timeout", "3000")
	masters := testenv.StartRedisCluster(t, 3, quick)
	replicas := testenv.AddClusterReplicas(t, masters, quick)
	servers := slices.Concat(masters, replicas)
	nodes := startNodes(t, shipped, "a b", urlOf("redis-cluster://", masters), append([]string{"--shards", "8"}, confirmed...)...)
	up := &bases{nodes: nodes}
	over := sized(18*time.Second, time.Minute)
	l := &load{topic: "cluster", url: r.URL(), jobs: int(over.Seconds()) * perSecond(), over: over, maxDelay: time.Second, pick: up.pick}
	tr := startTrickle(t, nodes[0].base(), 2*over)
	wait := l.start(t, rnd)

	var c cuts
	pause(t, 2*time.Second)
	c.during("slots moved", false, func() {
		begin, keys := clock.Now(), 0
		moved := slotsInUse(t, masters[0])
		for _, slot := range moved {
			keys += moveSlot(t, masters, slot, masters[0], masters[1])
		}
		t.Logf("moved %d slots with %d keys in %v", len(moved), keys, clock.Now().Sub(begin))
		if len(moved) == 0 {
			t.Error("the first master had no shard")
		}
		for _, n := range nodes {
			n.awaitReady()
		}
	})
	awaitSameSlots(t, servers)
	takeover(t, &c, "master killed", tr, nodes, replicas[1:2], masters[1].Kill)
	masters[1].Start() // it knows its cluster, and learns that it was replaced
	awaitReplica(t, masters[1])
	awaitSameSlots(t, servers)
	takeover(t, &c, "master frozen", tr, nodes, replicas[2:], masters[2].Pause)
	c.during("old master awake", false, func() {
		masters[2].Resume()
		awaitReplica(t, masters[2])
	})
	wait()
	audit(t, l, r, &c, nodes[0].base())
	for _, a := range l.refusals() {
		checkRefusal(t, a)
	}
}

// awaitSameSlots waits until all servers agree on who serves which slots. A
// replica that takes over before it knows what its master got would lose that.
func awaitSameSlots(t *testing.T, servers []*testenv.Redis) {
	t.Helper()
	clients := make([]*redis.Client, len(servers))
	for i, s := range servers {
		clients[i] = control(t, s)
	}
	testenv.Eventually(t, takeoverLimit, func() bool {
		var first string
		for i, c := range clients {
			shards, err := c.ClusterShards(t.Context()).Result()
			if err != nil {
				return false
			}
			served := 0
			var masters []string
			for _, shard := range shards {
				at := slices.IndexFunc(shard.Nodes, func(n redis.Node) bool { return n.Role == "master" })
				if at < 0 {
					return false
				}
				for _, s := range shard.Slots {
					served += int(s.End - s.Start + 1)
					masters = append(masters, fmt.Sprint(s, shard.Nodes[at].Port))
				}
			}
			slices.Sort(masters)
			view := strings.Join(masters, "; ")
			if i == 0 {
				first = view
			}
			if view != first || served != 16384 {
				return false
			}
		}
		return true
	}, "the servers agree on their slots")
}

// slotsInUse are the slots in which a master has keys.
func slotsInUse(t *testing.T, master *testenv.Redis) []int {
	t.Helper()
	c := control(t, master)
	var used []int
	keys := c.Scan(t.Context(), 0, "*", 1000).Iterator()
	for keys.Next(t.Context()) {
		slot, err := c.ClusterKeySlot(t.Context(), keys.Val()).Result()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(used, int(slot)) {
			used = append(used, int(slot))
		}
	}
	if err := keys.Err(); err != nil {
		t.Fatal(err)
	}
	return used
}

// moveSlot moves a slot and its keys, as redis-cli --cluster reshard does it,
// and returns how many keys there were.
func moveSlot(t *testing.T, masters []*testenv.Redis, slot int, from, to *testenv.Redis) int {
	t.Helper()
	source, target := control(t, from), control(t, to)
	sourceID, targetID := nodeID(t, source), nodeID(t, target)
	command(t, target, "CLUSTER", "SETSLOT", slot, "IMPORTING", sourceID)
	command(t, source, "CLUSTER", "SETSLOT", slot, "MIGRATING", targetID)
	host, port, err := net.SplitHostPort(to.Addr())
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for {
		keys, err := source.ClusterGetKeysInSlot(t.Context(), slot, 10).Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		args := []any{"MIGRATE", host, port, "", 0, 5000, "KEYS"}
		for _, k := range keys {
			args = append(args, k)
		}
		command(t, source, args...)
		moved += len(keys)
	}
	// First where the slot is now, so that nobody is sent in circles.
	for _, m := range []*testenv.Redis{to, from} {
		command(t, control(t, m), "CLUSTER", "SETSLOT", slot, "NODE", targetID)
	}
	for _, m := range masters {
		if m != from && m != to {
			command(t, control(t, m), "CLUSTER", "SETSLOT", slot, "NODE", targetID)
		}
	}
	return moved
}

func nodeID(t *testing.T, c *redis.Client) string {
	t.Helper()
	id, err := c.ClusterMyID(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return id
}
