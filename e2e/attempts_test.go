package e2e

import (
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// TestTerminateUnderLoad: after SIGTERM attempts in flight end and no new ones
// start. The next process makes the others; none is charged.
func TestTerminateUnderLoad(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"embedded", "redis"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			rnd := newRand(t)
			r := receiver.Start(t, func(receiver.Delivery) receiver.Answer {
				return receiver.Answer{Hold: 200 * time.Millisecond}
			})
			binary := raced
			if long {
				binary = shipped // the race detector would take minutes to restore what a long run piles up
			}
			var nodes []*node
			switch backend {
			case "embedded":
				nodes = []*node{startEmbedded(t, binary)}
			case "redis":
				nodes = startNodes(t, binary, "a b c", testenv.StartRedis(t).URL(), quickTakeover...)
			}
			up := &bases{nodes: nodes}
			over, perSecond, restarts := sized(6*time.Second, 5*time.Minute), sized(200, 500), sized(3, 100)
			l := &load{topic: backend, url: r.URL(), jobs: int(over.Seconds()) * perSecond, over: over, maxDelay: time.Second, pick: up.pick}
			began := clock.Now()
			wait := l.start(t, rnd)
			for i := range restarts {
				next := began.Add(over * time.Duration(i+1) / time.Duration(restarts+1))
				pause(t, max(0, next.Sub(clock.Now())))
				n := nodes[i%len(nodes)]
				if code := n.stop(); code != 0 {
					t.Errorf("SIGTERM number %d: exit code %d", i+1, code)
				}
				n.start()
			}
			restarted := clock.Now().Sub(began)
			wait()
			loaded := clock.Now().Sub(began)
			// No cut: a node that is asked to end has no excuse for repeating.
			audit(t, l, r, &cuts{}, nodes[0].base())
			t.Logf("%d restarts in %v under %d jobs/s, of which %.0f were held for %v; received − due: %v",
				restarts, restarted, perSecond, float64(l.jobs)/loaded.Seconds(), loaded, latenessOf(r))
		})
	}
}

// TestTerminateCutsOffLongAttempts: an attempt that outlasts the grace is cut
// off and made again, and does not count.
func TestTerminateCutsOffLongAttempts(t *testing.T) {
	t.Parallel()
	r := receiver.Start(t, func(d receiver.Delivery) receiver.Answer {
		if d.Body == `"hang"` {
			return receiver.Answer{Hold: time.Hour}
		}
		return receiver.Answer{}
	})
	n := startEmbedded(t, raced, "--grace", "1s", "--timeout", "30s")
	register(t, n.base(), registration{Topic: "long", ID: "j", URL: r.URL(), Body: "hang"})
	testenv.Eventually(t, testenv.Patience, func() bool { return r.Count() == 1 }, "the attempt is under way")
	if code := n.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	n.start()
	testenv.Eventually(t, testenv.Patience, func() bool { return r.Count() == 2 }, "the attempt is made again")
	for _, d := range r.Of("long", "j") {
		if d.Attempt != 1 {
			t.Errorf("attempt %d: the shutdown was charged", d.Attempt)
		}
	}
	if got := getJob(t, n.base(), "long", "j").Attempts; got != 0 {
		t.Errorf("%d attempts charged", got)
	}
}
