package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// killGroups registers for a group. Each job of a registration reports its own end, under one id.
func killGroups(t *testing.T, k *underKills) func() {
	const topic, members = "ended", 10
	groups := sized(30, 300)
	jobs := receiver.Start(t, func(d receiver.Delivery) receiver.Answer {
		if strings.HasSuffix(d.ID, ":m0") { // a dead letter ends a job, too
			return receiver.Answer{Status: http.StatusGone}
		}
		return receiver.Answer{Hold: 30 * time.Millisecond}
	})
	reports := receiver.Start(t, slowly)
	var list []map[string]any
	for i := range members {
		list = append(list, map[string]any{"name": fmt.Sprint("m", i), "url": jobs.URL()})
	}
	must(t, http.StatusCreated, "PUT", k.nodes[0].base()+"/v1/groups/g", map[string]any{"members": list})
	to := map[string]any{"url": reports.URL()}
	for i := range groups {
		must(t, http.StatusCreated, "POST", k.nodes[0].base()+"/v1/jobs", map[string]any{
			"topic": topic, "group": "g", "id": fmt.Sprint(i), "delay": "1s", "spread": "8s",
			"callbacks": map[string]any{"delivered": to, "dead": to},
		})
	}
	return func() {
		c := k.killed()
		ids := func() map[string]map[string]int {
			reported := map[string]map[string]int{}
			for _, d := range reports.Deliveries() {
				id := memberReport(t, d)
				if reported[id] == nil {
					reported[id] = map[string]int{}
				}
				reported[id][d.UID]++
			}
			return reported
		}
		testenv.Eventually(t, deliverLimit, func() bool { return len(ids()) == groups*members }, "each job of each registration reports its end")
		testenv.Eventually(t, drainLimit, func() bool {
			var page struct {
				Data []jobView `json:"data"`
			}
			must(t, http.StatusOK, "GET", k.nodes[0].base()+"/v1/jobs?limit=1&state=waiting,ready,running,retrying", nil).into(t, &page)
			return len(page.Data) == 0
		}, "nothing is left")
		for id, by := range ids() {
			if len(by) != 1 {
				t.Errorf("job %s reports its end under %d ids: %v", id, len(by), by)
			}
		}
		t.Logf("%d registrations of %d jobs, %d kills: %d reports in %d deliveries", groups, members, len(c.All()), len(ids()), len(reports.Deliveries()))
	}
}

// memberReport is the id of the job that a delivery reports. It checks the outcome.
func memberReport(t *testing.T, d receiver.Delivery) string {
	t.Helper()
	var report struct {
		Event string `json:"event"`
		Job   struct {
			ID string `json:"id"`
		} `json:"job"`
	}
	if err := json.Unmarshal([]byte(d.Body), &report); err != nil {
		t.Fatalf("%q: %v", d.Body, err)
	}
	want := "delivered"
	if strings.HasSuffix(report.Job.ID, ":m0") {
		want = "dead"
	}
	if report.Event != want {
		t.Fatalf("a report of the event %s; want %s: %s", report.Event, want, d.Body)
	}
	return report.Job.ID
}
