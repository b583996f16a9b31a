package e2e

import (
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// TestNodesAreInterchangeable: a job registered at one node is listed,
// changed, cancelled, delivered and replayed by another.
func TestNodesAreInterchangeable(t *testing.T) {
	t.Parallel()
	var recovered atomic.Bool // the receiver of the topic "dead"
	r := receiver.Start(t, func(d receiver.Delivery) receiver.Answer {
		if d.Topic == "dead" && !recovered.Load() {
			return receiver.Answer{Status: http.StatusGone}
		}
		return receiver.Answer{}
	})
	redis := testenv.StartRedis(t)
	nodes := startNodes(t, raced, "a b", redis.URL(), quickTakeover...)
	a, b := nodes[0], nodes[1]

	register(t, a.base(), registration{Topic: "plain", ID: "deliver", BizKey: "k", URL: r.URL(), Delay: "3s", Body: "as registered"})
	register(t, a.base(), registration{Topic: "plain", ID: "cancel", BizKey: "k", URL: r.URL(), Delay: "1h"})
	register(t, a.base(), registration{Topic: "plain", ID: "patch", URL: r.URL(), Delay: "1h", Body: "before"})
	register(t, a.base(), registration{Topic: "plain", ID: "run", URL: r.URL(), Delay: "1h"})
	register(t, a.base(), registration{Topic: "dead", ID: "replay", URL: r.URL()})
	testenv.Eventually(t, testenv.Patience, func() bool { return getJob(t, b.base(), "dead", "replay").State == "dead" }, "b sees the dead letter")
	recovered.Store(true)

	// Node a goes before any of the others is due.
	if code := a.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if ids := list(t, b.base()+"/v1/jobs?topic=plain&limit=1000"); !slices.Equal(ids, []string{"cancel", "deliver", "patch", "run"}) {
		t.Errorf("b lists %q", ids)
	}
	if ids := list(t, b.base()+"/v1/jobs?biz_key=k"); !slices.Equal(ids, []string{"cancel", "deliver"}) {
		t.Errorf("b lists by biz_key %q", ids)
	}
	must(t, http.StatusOK, "DELETE", b.base()+"/v1/jobs/plain/cancel", nil)
	must(t, http.StatusOK, "PATCH", b.base()+"/v1/jobs/plain/patch", map[string]any{"delay": 0, "body": "after"})
	must(t, http.StatusOK, "POST", b.base()+"/v1/jobs/plain/run/run", nil)
	must(t, http.StatusOK, "POST", b.base()+"/v1/jobs/dead/replay/replay", nil)
	testenv.Eventually(t, testenv.Patience, func() bool { return r.Jobs() == 4 }, "b delivers")

	a.start()
	for key, want := range map[[2]string]struct {
		state  string
		bodies []string
	}{
		{"plain", "deliver"}: {"delivered", []string{`"as registered"`}},
		{"plain", "cancel"}:  {"cancelled", nil},
		{"plain", "patch"}:   {"delivered", []string{`"after"`}},
		{"plain", "run"}:     {"delivered", []string{""}},
		{"dead", "replay"}:   {"delivered", []string{"", ""}}, // refused once, replayed once
	} {
		topic, id := key[0], key[1]
		testenv.Eventually(t, testenv.Patience, func() bool { return getJob(t, a.base(), topic, id).State == want.state }, id+" is "+want.state)
		var bodies []string
		for _, d := range r.Of(topic, id) {
			bodies = append(bodies, d.Body)
		}
		if !slices.Equal(bodies, want.bodies) {
			t.Errorf("%s arrived as %q, want %q", id, bodies, want.bodies)
		}
	}
}

// list is the sorted ids of all pages of a listing.
func list(t *testing.T, address string) []string {
	t.Helper()
	var ids []string
	for _, j := range listJobs(t, address) {
		ids = append(ids, j.ID)
	}
	slices.Sort(ids)
	return ids
}

// listJobs is all pages of a listing.
func listJobs(t *testing.T, address string) []jobView {
	t.Helper()
	var jobs []jobView
	for cursor := ""; ; {
		var page struct {
			Data       []jobView `json:"data"`
			NextCursor *string   `json:"next_cursor"`
		}
		must(t, http.StatusOK, "GET", address+cursor, nil).into(t, &page)
		jobs = append(jobs, page.Data...)
		if page.NextCursor == nil {
			return jobs
		}
		cursor = "&cursor=" + url.QueryEscape(*page.NextCursor)
	}
}
