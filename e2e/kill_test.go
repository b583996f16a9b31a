package e2e

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
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

// quickTakeover makes the jobs of a killed node wait less than by default, so
// that tests are quick. The lease is what the timeout allows, and the timeout what a busy
// machine may need.
var quickTakeover = []string{"--timeout", "5s", "--lease", "10s", "--visibility", "3s"}

// underKills is what clients do while nodes are killed.
type underKills struct {
	nodes []*node
	up    *bases
	rnd   *rand.Rand
	over  chan struct{} // closed after the last kill
	cuts  cuts          // not read before that
}

// killed waits for the last kill.
func (k *underKills) killed() *cuts {
	<-k.over
	return &k.cuts
}

// TestKill kills nodes at random, and starts each again at once, while clients of duehook's own API and of
// each dialect register jobs. On each store, whatever a node has acknowledged is delivered, and once but for
// what was in flight at a kill. Redis writes its AOF before it answers. Simulation and torture have more kinds of
// jobs and of kills.
func TestKill(t *testing.T) {
	t.Parallel()
	flags := append([]string{"--dialects", "camellia,mykit,qstash"}, quickTakeover...)
	for store, start := range map[string]func(t *testing.T) []*node{
		"embedded": func(t *testing.T) []*node { return []*node{startEmbedded(t, shipped, flags...)} },
		"redis": func(t *testing.T) []*node {
			return startNodes(t, shipped, "a b c", testenv.StartRedis(t, testenv.WithAOF()).URL(), flags...)
		},
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			k := &underKills{nodes: start(t), rnd: newRand(t), over: make(chan struct{})}
			k.up = &bases{nodes: k.nodes}
			var clients sync.WaitGroup
			defer clients.Wait()
			defer close(k.over)
			// Each begins here, and returns what it does meanwhile and afterwards.
			for _, begin := range []func(*testing.T, *underKills) func(){killMykit, killQStash, killCamellia, killJobs} {
				clients.Go(begin(t, k))
			}
			kills, over := sized(2, 50), killTime()
			for range kills {
				pause(t, over/time.Duration(kills+1)+time.Duration(k.rnd.Int64N(int64(time.Second)))-time.Second/2)
				n := k.nodes[k.rnd.IntN(len(k.nodes))]
				k.cuts.kill(n)
				n.start()
			}
		})
	}
}

// drainLimit is how long clients wait for the last job. It only catches hangs: the jobs of a queue follow each
// other, on nodes with much else to do.
const drainLimit = 10 * time.Minute

func killTime() time.Duration { return sized(5*time.Second, 3*time.Minute) }

// killJobs registers jobs, and audits their deliveries.
func killJobs(t *testing.T, k *underKills) func() {
	r := receiver.Start(t, slowly)
	l := &load{topic: "plain", url: r.URL(), jobs: sized(500, 100_000), over: killTime(), maxDelay: 2 * time.Second, pick: k.up.pick}
	wait := l.start(t, k.rnd)
	return func() {
		c := k.killed()
		wait()
		audit(t, l, r, c, k.nodes[0].base())
	}
}
