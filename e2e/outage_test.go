package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// TestRedisGone: Redis is away, dead or silent, while jobs come due and others
// are to be registered. Each registration meanwhile is refused with 503 and
// Retry-After; afterwards every node resumes delivery automatically, and nothing that
// was acknowledged is lost.
func TestRedisGone(t *testing.T) {
	t.Parallel()
	type change func(*testenv.Redis)
	for name, how := range map[string]struct{ strike, heal change }{
		"dead":   {(*testenv.Redis).Kill, (*testenv.Redis).Start},
		"silent": {(*testenv.Redis).Pause, (*testenv.Redis).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t, testenv.WithAOF())
			nodes := startNodes(t, shipped, "a b", server.URL(), quickTakeover...)
			away := sized(8*time.Second, time.Minute)
			const before, after, perSecond = 2 * time.Second, 3 * time.Second, 50
			over := before + away + after
			tr := startTrickle(t, nodes[0].base(), over)
			up := &bases{nodes: nodes}
			r := receiver.Start(t, slowly)
			l := &load{topic: name, url: r.URL(), jobs: int(over.Seconds()) * perSecond, over: over, maxDelay: time.Second, pick: up.pick, again: 250 * time.Millisecond}
			wait := l.start(t, newRand(t))

			pause(t, before)
			attempts := attemptsOf(nodes)
			var c cuts
			c.during("Redis "+name, false, func() {
				how.strike(server)
				stop := startProbes(t, nodes, r.URL())
				pause(t, away)
				stop()
				healed := clock.Now()
				how.heal(server)
				reportResumed(t, tr, healed)
			})
			for i, n := range nodes {
				testenv.Eventually(t, deliverLimit, func() bool { return n.metric(attemptsMade) > attempts[i] }, n.Name+" delivers again")
			}
			wait()
			audit(t, l, r, &c, nodes[0].base())
			all := awaitDelivered(t, nodes[0].base(), trickleTopic, tr.jobs)
			if all["delivered"] != tr.jobs || tr.Jobs() != tr.jobs {
				t.Errorf("of %d jobs that were registered before, %d arrived; the store knows %v", tr.jobs, tr.Jobs(), all)
			}
		})
	}
}

const attemptsMade = "duehook_attempt_seconds_count"

func attemptsOf(nodes []*node) []float64 {
	var made []float64
	for _, n := range nodes {
		made = append(made, n.metric(attemptsMade))
	}
	return made
}

// reportResumed reports how long after healed the first job was delivered that
// came due later, and the last that came due before.
func reportResumed(t *testing.T, tr *trickle, healed time.Time) {
	t.Helper()
	var first, caughtUp time.Duration
	testenv.Eventually(t, deliverLimit, func() bool {
		tr.proceed(t)
		for _, d := range tr.dueAfter(healed) {
			if since := d.Arrived.Sub(healed); first == 0 || since < first {
				first = since
			}
		}
		return first > 0
	}, "jobs are delivered again")
	for _, d := range tr.Deliveries() {
		if d.Due.Before(healed) {
			caughtUp = max(caughtUp, d.Arrived.Sub(healed))
		}
	}
	t.Logf("the first delivery of a job that came due later was %v after Redis' return; the last of one that had come due before, so far, %v", first, caughtUp)
	if long && first > resumeLimit { // a busy machine proves nothing
		t.Errorf("deliveries took %v to go on, %v are promised", first, resumeLimit)
	}
}

// startProbes registers at each node until it is stopped. All of it is to be
// refused.
func startProbes(t *testing.T, nodes []*node, url string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	refused, took := make([][]answer, len(nodes)), make([][]time.Duration, len(nodes))
	for i, n := range nodes {
		all.Go(func() {
			for job.Sleep(ctx, clock, 2*pollEvery) == nil {
				began := clock.Now()
				probe := registration{Topic: "probe", ID: fmt.Sprintf("%s-%d", n.Name, len(took[i])), URL: url, Delay: "1d"}
				a, err := call(t.Context(), "POST", n.base()+"/v1/jobs", nil, probe)
				if err != nil || a.status != http.StatusServiceUnavailable {
					t.Errorf("%s answered a registration with %d %s (%v) while Redis was away", n.Name, a.status, a.body, err)
					return
				}
				refused[i], took[i] = append(refused[i], a), append(took[i], clock.Now().Sub(began))
			}
		})
	}
	return func() {
		t.Helper()
		cancel()
		all.Wait()
		for i, n := range nodes {
			if len(refused[i]) == 0 {
				t.Fatalf("%s has refused nothing", n.Name)
			}
			for _, a := range refused[i] {
				checkRefusal(t, a)
			}
			slices.Sort(took[i])
			t.Logf("%s refused %d registrations, half of them within %v, all within %v",
				n.Name, len(took[i]), took[i][len(took[i])/2], took[i][len(took[i])-1])
		}
	}
}
