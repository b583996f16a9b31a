package e2e

import (
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
)

// pause waits in a test's plan of events; what it waits for is that time
// passes, not that something has happened.
func pause(t testing.TB, d time.Duration) {
	t.Helper()
	if err := job.Sleep(t.Context(), clock, d); err != nil {
		t.Fatal(err)
	}
}

// slowly accepts everything after a while, so that there is always something
// in flight.
func slowly(receiver.Delivery) receiver.Answer { return receiver.Answer{Hold: 30 * time.Millisecond} }

// TestKillEmbedded: whatever the embedded default has acknowledged survives
// SIGKILL, and is delivered once but for what was in flight.
func TestKillEmbedded(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	r := receiver.Start(t, slowly)
	n := startEmbedded(t, shipped)
	l := &load{
		topic: "embedded", url: r.URL(), jobs: sized(2_000, 100_000),
		over: sized(12*time.Second, 3*time.Minute), maxDelay: 2 * time.Second, pick: n.base,
	}
	wait := l.start(t, rnd)
	kills := sized(5, 50)
	var c cuts
	for range kills {
		pause(t, l.over/time.Duration(kills+1)+time.Duration(rnd.Int64N(int64(time.Second)))-time.Second/2)
		c.kill(n)
		n.start()
	}
	wait()
	audit(t, l, r, &c, n.base())
}

// TestKillNodesOnRedis: three nodes on one Redis that writes its AOF before
// it answers; every 2 s a random one is killed and started again.
func TestKillNodesOnRedis(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	r := receiver.Start(t, slowly)
	redis := testenv.StartRedis(t, testenv.WithAOF())
	nodes := startNodes(t, shipped, "a b c", redis.URL(), quickTakeover...)
	up := &bases{nodes: nodes}
	l := &load{
		topic: "cluster", url: r.URL(), jobs: sized(2_000, 100_000),
		over: sized(12*time.Second, 3*time.Minute), maxDelay: 2 * time.Second, pick: up.pick,
	}
	wait := l.start(t, rnd)
	var c cuts
	begin := clock.Now()
	for clock.Now().Sub(begin) < l.over {
		pause(t, 2*time.Second)
		n := nodes[rnd.IntN(len(nodes))]
		c.kill(n)
		n.start()
	}
	wait()
	audit(t, l, r, &c, nodes[0].base())
}

// quickTakeover makes the jobs of a killed node wait less than by default, so
// that tests are quick. The lease is what the timeout allows, and the timeout what a busy
// machine may need.
var quickTakeover = []string{"--timeout", "5s", "--lease", "10s", "--visibility", "3s"}
