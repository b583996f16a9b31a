package e2e

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// TestSentinelUnderLoad: the master is killed and comes back, and the next one
// is frozen for longer than the sentinels wait, while 100 jobs/s flow. Nothing
// is lost, and who was thought dead follows. It runs alone: servers that get no
// processor for a second are replaced once more.
func TestSentinelUnderLoad(t *testing.T) {
	rnd := newRand(t)
	r := receiver.Start(t, slowly)
	master := testenv.StartRedis(t)
	servers := []*testenv.Redis{master, testenv.StartReplica(t, master), testenv.StartReplica(t, master)}
	sentinels := testenv.StartSentinels(t, 3, "main", master, 2)
	nodes := startNodes(t, shipped, "a b", urlOf("redis-sentinel://main@", sentinels), confirmed...)
	up := &bases{nodes: nodes}
	over := sized(18*time.Second, time.Minute)
	l := &load{topic: "sentinel", url: r.URL(), jobs: int(over.Seconds()) * perSecond(), over: over, maxDelay: time.Second, pick: up.pick}
	tr := startTrickle(t, nodes[0].base(), 2*over)
	wait := l.start(t, rnd)

	var c cuts
	pause(t, 2*time.Second)
	at := 1 + takeover(t, &c, "master killed", tr, nodes, servers[1:], master.Kill)
	follow(t, master, servers[at])
	frozen := awaitAgreement(t, sentinels, servers)
	takeover(t, &c, "master frozen", tr, nodes, without(servers, frozen), frozen.Pause)
	c.during("old master awake", false, func() {
		frozen.Resume()
		awaitReplica(t, frozen)
	})
	wait()
	audit(t, l, r, &c, nodes[0].base())
	for _, a := range l.refusals() {
		checkRefusal(t, a)
	}
}

// follow starts a server again as the replica of another.
func follow(t *testing.T, s, master *testenv.Redis) {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	testenv.WithArgs("--replicaof", host, port)(s)
	s.Start()
	awaitReplica(t, s)
}

// awaitAgreement waits until all sentinels know the same master and two
// replicas of it, and returns the master. On a busy machine they may still be
// about to elect another one, which lacks what this one's replicas confirm.
func awaitAgreement(t *testing.T, sentinels, servers []*testenv.Redis) *testenv.Redis {
	t.Helper()
	clients := make([]*redis.SentinelClient, len(sentinels))
	for i, s := range sentinels {
		clients[i] = redis.NewSentinelClient(&redis.Options{Addr: s.Addr(), PoolSize: 1})
		t.Cleanup(func() { _ = clients[i].Close() })
	}
	var master *testenv.Redis
	testenv.Eventually(t, takeoverLimit, func() bool {
		master = nil
		for _, c := range clients {
			known, err := c.Master(t.Context(), "main").Result()
			if err != nil || known["flags"] != "master" {
				return false
			}
			at := slices.IndexFunc(servers, func(s *testenv.Redis) bool {
				return s.Addr() == net.JoinHostPort(known["ip"], known["port"])
			})
			if at < 0 || master != nil && master != servers[at] {
				return false
			}
			master = servers[at]
			replicas, err := c.Replicas(t.Context(), "main").Result()
			able := slices.DeleteFunc(replicas, func(r map[string]string) bool { return r["flags"] != "slave" })
			if err != nil || len(able) != len(servers)-1 {
				return false
			}
		}
		return true
	}, "the sentinels agree")
	return master
}

func without(servers []*testenv.Redis, one *testenv.Redis) []*testenv.Redis {
	var rest []*testenv.Redis
	for _, s := range servers {
		if s != one {
			rest = append(rest, s)
		}
	}
	return rest
}
