package v1

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// attemptOf records an attempt that began now, at a job of the topic.
func (a *api) attemptOf(topic, endpoint string, kind job.OutcomeKind) {
	now := job.InstantOf(a.clock.Now())
	o := job.Outcome{Kind: kind, After: time.Minute, Attempt: &job.Attempt{StartedAt: now}}
	s := job.Settle(&job.Job{NextAt: now}, o, func(int) (time.Duration, bool) { return time.Minute, true })
	s.Lane = job.Lane{Topic: topic, Endpoint: endpoint}
	a.recent.Subscriber().Settled(func(yield func(*job.Settlement, *store.Settled) bool) { yield(&s, &store.Settled{}) })
}

func TestActivity(t *testing.T) {
	a := newAPI(t)
	a.attemptOf("orders", "https://shop.example:443", job.OutcomeDelivered)
	a.clock.Advance(2 * time.Hour) // 11:00
	a.attemptOf("orders", "https://shop.example:443", job.OutcomeRefused)
	a.attemptOf("bills", "https://shop.example:443", job.OutcomeDelivered)
	for query, want := range map[string]map[string]map[int]float64{
		"":                         {"delivered": {59: 1}, "failed": {59: 1}, "dead": {59: 1}, "expired": {}},
		"?topic=orders":            {"delivered": {}, "failed": {59: 1}, "dead": {59: 1}, "expired": {}},
		"?window=24h&topic=orders": {"delivered": {87: 1}, "failed": {95: 1}, "dead": {95: 1}, "expired": {}},
		"?window=24h&endpoint=https://shop.example/": {"delivered": {87: 1, 95: 1}, "failed": {95: 1}, "dead": {95: 1}, "expired": {}},
		"?endpoint=https://other.example":            {"delivered": {}, "failed": {}, "dead": {}, "expired": {}},
	} {
		got := a.want(200, "GET", "/v1/activity"+query, "")
		for name, steps := range want {
			if diff := cmp.Diff(steps, numbers(got[name])); diff != "" {
				t.Errorf("%s of %s (-want +got):\n%s", name, query, diff)
			}
		}
	}
	got := a.want(200, "GET", "/v1/activity?window=24h&topic=orders", "")
	facts := []any{got["window"], got["topic"], got["endpoint"], got["from"], got["step_ms"], got["partial"]}
	if diff := cmp.Diff([]any{"24h", "orders", nil, "2025-12-31T11:15:00.000Z", 900000.0, false}, facts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	a.refuses("GET", "/v1/activity?", map[string]string{"window=2h": "?window", "topic=a&endpoint=https://shop.example": "?endpoint", "topic=a%20b": "?topic", "endpoint=x": "?endpoint"})
}

func TestActivityOfARestrictedKey(t *testing.T) {
	a, token := restricted(t)
	for _, topic := range []string{"mine", "own-a", foreign} {
		a.attemptOf(topic, "https://shop.example:443", job.OutcomeDelivered)
	}
	for query, want := range map[string]float64{"": 2, "?topic=mine": 1} {
		got := a.want(200, "GET", "/v1/activity"+query, "", "Authorization", token)
		if n := numbers(got["delivered"])[59]; n != want {
			t.Errorf("%q: %v delivered, want %v", query, n, want)
		}
	}
	for _, query := range []string{"?topic=" + foreign, "?endpoint=https://shop.example"} {
		a.wantProblem(httpapi.CodeForbidden, "GET", "/v1/activity"+query, "", "Authorization", token)
	}
	a.wantProblem(httpapi.CodeForbidden, "GET", "/v1/nodes", "", "Authorization", token)
}

func TestNodes(t *testing.T) {
	a := newAPI(t)
	want := map[string]any{
		"id": "node", "state": "running", "host": "host", "version": "1", "store": "redis",
		"started_at": "2026-01-01T09:00:00.000Z", "seen_at": "2026-01-01T09:01:00.000Z", "clock_ahead_ms": 0.0,
	}
	a.clock.Advance(time.Minute)
	page := a.want(200, "GET", "/v1/nodes?limit=1", "")
	if diff := cmp.Diff([]any{want}, page["data"]); diff != "" || page["next_cursor"] != nil {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
