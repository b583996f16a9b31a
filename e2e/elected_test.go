package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// TestTheElectedNodeDies: a node that does all work of which a store needs one at a time is killed. The other one goes on
// with schedules, operations and alerts within the lease.
func TestTheElectedNodeDies(t *testing.T) {
	t.Parallel()
	const (
		jobs, rate = 400, 20
		lease      = 6 * time.Second // leader.Lease
		slack      = 8 * time.Second // for looks at the lease, and for a busy machine
	)
	r := receiver.Start(t, receiver.Accept)
	fails := receiver.Start(t, func(receiver.Delivery) receiver.Answer {
		return receiver.Answer{Status: http.StatusInternalServerError}
	})
	p := startPager(t)
	redis, flags := testenv.StartRedis(t, testenv.WithAOF()).URL(), slices.Concat(quickTakeover, alertFlags)
	elected := startNodes(t, shipped, "a", redis, flags...)[0] // there is no other one yet
	for i := range jobs {
		register(t, elected.base(), registration{Topic: "later", ID: fmt.Sprint(i), URL: r.URL(), Delay: "1h"})
	}
	must(t, http.StatusCreated, "PUT", elected.base()+"/v1/schedules/ticks", map[string]any{
		"every": "1s", "misfire": map[string]any{"policy": "skip", "grace": "1s"}, "job": map[string]any{"topic": "ticks", "url": r.URL()},
	})
	must(t, http.StatusCreated, "PUT", elected.base()+"/v1/alerts/rules/down", map[string]any{"metric": "open_circuits", "url": p.url})
	o := operation(t, "POST", elected.base()+"/v1/operations", http.StatusAccepted, map[string]any{
		"action": "cancel", "filter": map[string]any{"topic": "later"}, "rate": rate,
	})
	ticks := func(since time.Time) int {
		return len(slices.DeleteFunc(r.Deliveries(), func(d receiver.Delivery) bool { return d.Topic != "ticks" || d.Arrived.Before(since) }))
	}
	testenv.Eventually(t, deliverLimit, func() bool { return ticks(time.Time{}) >= 2 }, "the schedule fires")
	other := startNodes(t, shipped, "b", redis, flags...)[0]
	target := other.base() + "/v1/operations/" + o.ID
	before := awaitOperation(t, target, deliverLimit, func(o operationView) bool { return o.Changed >= rate })

	var c cuts
	c.kill(elected)
	killed := clock.Now()
	for i := range 5 {
		register(t, other.base(), registration{Topic: "fails", ID: fmt.Sprint(i), URL: fails.URL(), Retry: map[string]any{"steps": []string{"1s"}, "limit": 1000}})
	}
	within := func(what string, limit time.Duration, done func() bool) {
		t.Helper()
		testenv.Eventually(t, deliverLimit, done, what)
		took := clock.Now().Sub(killed)
		t.Logf("%s %v after the kill", what, took.Round(10*time.Millisecond))
		if took > limit+slack {
			t.Errorf("%s only %v after the kill", what, took)
		}
	}
	within("the schedule fires", lease, func() bool { return ticks(killed.Add(time.Second)) >= 1 })
	within("the operation goes on", lease, func() bool {
		return operation(t, "GET", target, http.StatusOK, nil).Changed > before.Changed+2*rate
	})
	within("the alert fires", lease+5*time.Second, func() bool { return len(p.webhooks()["down firing"]) > 0 })
	if done := awaitOperation(t, target, deliverLimit, func(o operationView) bool { return o.State != "running" }); done.State != "done" || done.Changed > jobs || done.Changed < jobs-2*rate {
		t.Errorf("%s, of %d", done.counts(), jobs)
	}
}
