package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/retrypolicy"
)

// TestLadder: a job that always fails is tried ten times, each time one step
// after the failure before, and then kept as a dead letter.
func TestLadder(t *testing.T) {
	t.Parallel()
	// The default ladder, fifteen thousand times as fast.
	var steps []time.Duration
	var texts []string
	for _, step := range retrypolicy.Default().Steps {
		step /= 15_000
		steps, texts = append(steps, step), append(texts, step.String())
	}
	// The answer takes its time, so that counting from the failure differs from
	// counting from the start.
	const hold = 60 * time.Millisecond
	r := receiver.Start(t, func(receiver.Delivery) receiver.Answer {
		return receiver.Answer{Status: http.StatusInternalServerError, Hold: hold}
	})
	n := startEmbedded(t, raced, "--retry-steps", strings.Join(texts, ","), "--retry-jitter", "0", "--breaker-failures", "0")
	if got := register(t, n.base(), registration{Topic: "ladder", ID: "j", URL: r.URL()}).MaxAttempts; got != len(steps)+1 {
		t.Errorf("max_attempts is %d, want %d", got, len(steps)+1)
	}
	testenv.Eventually(t, testenv.Patience, func() bool { return getJob(t, n.base(), "ladder", "j").State == "dead" }, "the job is given up")

	j := getJob(t, n.base(), "ladder", "j")
	if j.Reason != "retry_limit" || j.Attempts != len(steps)+1 {
		t.Errorf("dead with reason %q after %d attempts", j.Reason, j.Attempts)
	}
	var log struct {
		Data []attemptView `json:"data"`
	}
	must(t, http.StatusOK, "GET", n.base()+"/v1/jobs/ladder/j/attempts", nil).into(t, &log)
	arrived := r.Of("ladder", "j")
	if len(log.Data) != len(steps)+1 || len(arrived) != len(steps)+1 {
		t.Fatalf("%d attempts in the log, %d arrived, want %d", len(log.Data), len(arrived), len(steps)+1)
	}
	// The step counts from the moment the failure is written down, which a busy machine may delay.
	const rounding = 2 * time.Millisecond
	for i, step := range steps {
		a, next := log.Data[i], arrived[i+1]
		failed := a.StartedAt.Add(time.Duration(a.DurationMS) * time.Millisecond)
		if a.NextAt == nil {
			t.Errorf("attempt %d failed, and nothing is set to follow it", a.Number)
			continue
		}
		if a.NextAt.Before(failed.Add(step - rounding)) {
			t.Errorf("attempt %d failed at %v: the next is set for %v, want %v after at least", a.Number, failed, a.NextAt, step)
			continue
		}
		if !next.Due.Equal(*a.NextAt) {
			t.Errorf("attempt %d was due at %v, but set for %v", i+2, next.Due, *a.NextAt)
		}
		if a.Number != i+1 || next.Attempt != i+2 || a.Reason != "ladder" {
			t.Errorf("attempt %d (%q) is followed by %d", a.Number, a.Reason, next.Attempt)
		}
		// Seen from the receiver, which answered hold after the arrival.
		if gap := next.Arrived.Sub(arrived[i].Arrived); gap < hold+step {
			t.Errorf("attempt %d came %v after the one before, want %v at least", i+2, gap, hold+step)
		}
	}
}

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
