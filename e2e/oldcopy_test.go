package e2e

import (
	"net/http"
	"testing"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/e2e/rig"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// TestOldCopy: by the steps of docs/storage.md after an old copy of Redis was restored, nothing is sent before
// somebody has looked, and then neither what was cancelled nor what a pause holds.
func TestOldCopy(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, testenv.WithAOF())
	n := startNodes(t, shipped, "before", server.URL())[0]
	r := receiver.Start(t, receiver.Accept)
	for topic, id := range map[string]string{"closed": "ended", "orders": "open", "payments": "held"} {
		register(t, n.base(), registration{Topic: topic, ID: id, URL: r.URL(), Delay: "3s", Body: id})
	}
	must(t, http.StatusCreated, "POST", n.base()+"/v1/jobs", map[string]any{"topic": "prints", "id": "print", "pull": true})
	must(t, http.StatusCreated, "PUT", n.base()+"/v1/schedules/ticks", map[string]any{
		"every": "1s", "job": map[string]any{"topic": "ticks", "url": r.URL()},
	})
	putBack := rig.Snapshot(t, server)
	sent := func(topic, id string) int { return len(r.Of(topic, id)) }
	testenv.Eventually(t, testenv.Patience, func() bool {
		return sent("closed", "ended") == 1 && sent("orders", "open") == 1 && sent("payments", "held") == 1
	}, "the jobs are delivered after the copy")
	n.stop()
	server.Kill()
	putBack()
	server.Start()

	before := r.Count()
	look := startNodes(t, shipped, "look", server.URL(), "--start-paused")[0]
	pull := map[string]any{"wait": "1500ms"} // longer than the schedule's interval
	var pulled struct {
		Jobs []struct {
			Job jobView `json:"job"`
		} `json:"jobs"`
	}
	must(t, http.StatusOK, "POST", look.base()+"/v1/topics/prints/pull", pull).into(t, &pulled)
	if len(pulled.Jobs) > 0 {
		t.Errorf("a consumer got %+v", pulled.Jobs)
	}
	testenv.Eventually(t, testenv.Patience, func() bool {
		return len(listJobs(t, look.base()+"/v1/jobs?due_to="+clock.Now().UTC().Format("2006-01-02T15:04:05Z")+"&state=waiting,ready")) == 4
	}, "all four jobs are due, and wait")
	must(t, http.StatusOK, "DELETE", look.base()+"/v1/jobs/closed/ended", nil)
	must(t, http.StatusOK, "POST", look.base()+"/v1/topics/payments/pause", map[string]any{"note": "old copy"})
	if got := r.Count(); got != before {
		t.Errorf("%d requests while somebody looked:\n%s", got-before, rig.Describe(r.Deliveries()))
	}
	look.stop()

	n = startNodes(t, shipped, "after", server.URL())[0]
	duehook(t, n, "resume", "--redis-url", server.URL())
	testenv.Eventually(t, testenv.Patience, func() bool { return sent("orders", "open") == 2 }, "what is due is sent")
	must(t, http.StatusOK, "POST", n.base()+"/v1/topics/prints/pull", pull).into(t, &pulled)
	if len(pulled.Jobs) != 1 {
		t.Errorf("a consumer got %+v, want the job", pulled.Jobs)
	}
	testenv.Eventually(t, testenv.Patience, func() bool { return r.Count() >= before+3 }, "the schedule goes on")
	if ended, held := sent("closed", "ended"), sent("payments", "held"); ended != 1 || held != 1 {
		t.Errorf("the cancelled job was sent %d times, the held one %d times; want 1 each", ended, held)
	}
	must(t, http.StatusOK, "POST", n.base()+"/v1/topics/payments/resume", nil)
	testenv.Eventually(t, testenv.Patience, func() bool { return sent("payments", "held") == 2 }, "a resume sends what was held")
}
