package e2e

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// TestRecoveredEndpointGetsItsRetries: jobs that reached a step of an hour during
// an outage do not wait for it after the outage.
func TestRecoveredEndpointGetsItsRetries(t *testing.T) {
	t.Parallel()
	flags := []string{"--breaker-failures=5", "--breaker-open=1s", "--retry-jitter=0"}
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		recoverEndpoint(t, startEmbedded(t, raced, flags...))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		recoverEndpoint(t, startNodes(t, raced, "a", testenv.StartRedis(t).URL(), flags...)[0])
	})
}

func recoverEndpoint(t *testing.T, n *node) {
	t.Helper()
	const jobs, topic = 20, "payment-notify"
	var up atomic.Bool
	r := receiver.Start(t, func(receiver.Delivery) receiver.Answer {
		if up.Load() {
			return receiver.Answer{}
		}
		return receiver.Answer{Status: http.StatusInternalServerError}
	})
	for i := range jobs {
		register(t, n.base(), registration{
			Topic: topic, ID: fmt.Sprint(i), URL: r.URL(), Retry: map[string]any{"steps": []string{"1s", "1h"}},
		})
	}
	// While the circuit opens and half-opens, they get there a few at a time.
	high := func() (ids []string) {
		for i := range jobs {
			j := getJob(t, n.base(), topic, fmt.Sprint(i))
			if j.NextAt != nil && time.Until(*j.NextAt) > 50*time.Minute {
				ids = append(ids, j.ID)
			}
		}
		return ids
	}
	testenv.Eventually(t, deliverLimit, func() bool { return len(high()) >= 5 }, "jobs to stand at the step of an hour")
	waiting := high()
	up.Store(true)
	register(t, n.base(), registration{Topic: topic, ID: "fresh", URL: r.URL()})
	states := awaitDelivered(t, n.base(), topic, jobs+1)
	if states["delivered"] != jobs+1 {
		t.Errorf("the jobs' states after the outage: %v", states)
	}
	for _, id := range waiting {
		got := r.Of(topic, id)
		if last := got[len(got)-1]; last.Attempt != 3 || last.Status != http.StatusOK {
			t.Errorf("job %s ended with attempt %d and status %d", id, last.Attempt, last.Status)
		}
	}
}
