package v1

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/internal/services/alerts"
)

// alertsWith are alerts whose rules cannot be put.
type alertsWith struct {
	*alerts.Manager
	err error
}

func (a alertsWith) Put(context.Context, string, alerts.Draft, ...documents.Allow) (alerts.Rule, bool, error) {
	return alerts.Rule{}, false, a.err
}

func TestAlertRules(t *testing.T) {
	a := newAPI(t)
	const path = "/v1/alerts/rules/failing"
	a.want(201, "PUT", path, `{"metric":"failure_rate","by":"topic","endpoint":"https://shop.example/x","above":0.25,
		"window":120,"min_attempts":5,"for":"90s","keep_firing_for":0,"repeat":"1d","url":"https://ops.example/alerts"}`)
	a.clock.Advance(time.Minute)
	got := a.want(200, "PUT", path, `{"metric":"failure_rate","above":5e-1,"topic":"orders","by":null,"url":null}`)
	want := map[string]any{
		"name": "failing", "metric": "failure_rate", "by": "total", "topic": "orders", "endpoint": nil, "above": 0.5,
		"window": "5m", "min_attempts": 10.0, "for": "1m", "keep_firing_for": "1m", "repeat": "4h", "url": nil,
		"created_at": "2026-01-01T09:00:00.000Z", "updated_at": "2026-01-01T09:01:00.000Z", "version": 1767258060000.0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(got, a.want(200, "GET", path, "")); diff != "" {
		t.Error(diff)
	}
	a.want(201, "PUT", "/v1/alerts/rules/down", `{"metric":"open_circuits"}`)
	list := a.want(200, "GET", "/v1/alerts/rules", "")["data"].([]any)
	if len(list) != 2 || list[0].(map[string]any)["name"] != "down" {
		t.Errorf("%v", list)
	}
	a.want(200, "DELETE", path, "")
	a.wantProblem(httpapi.CodeAlertRuleNotFound, "GET", path, "")
}

func TestBadAlertRules(t *testing.T) {
	a := newAPI(t)
	a.refuses("PUT", "/v1/alerts/rules/r", map[string]string{
		`{}`:                                  "/metric",
		`{"metric":""}`:                       "/metric",
		`{"metric":7}`:                        "/metric",
		`{"metric":"weather"}`:                "/metric",
		`{"metric":"backlog"}`:                "/above",
		`{"metric":"backlog","above":"many"}`: "/above",
		`{"metric":"backlog","above":1e999}`:  "/above",
		`{"metric":"backlog","above":-1}`:     "/above",
		`{"metric":"open_circuits","for":"soon","repeat":true}`:                  "/for /repeat",
		`{"metric":"open_circuits","by":"topic"}`:                                "/by",
		`{"metric":"open_circuits","url":"shop.example"}`:                        "/url",
		`{"metric":"open_circuits","endpoint":"shop.example"}`:                   "/endpoint",
		`{"metric":"backlog","above":1,"topic":"a b"}`:                           "/topic",
		`{"metric":"backlog","above":1,"topic":"duehook-alerts"}`:                "/topic",
		`{"metric":"failure_rate","above":0.5,"min_attempts":1.5}`:               "/min_attempts",
		`{"metric":"open_circuits","severity":"page","above":0,"window":"many"}`: "/severity /window",
	})
	for _, name := range []string{"a%20b", strings.Repeat("a", 65)} {
		a.wantProblem(httpapi.CodeInvalidRequest, "PUT", "/v1/alerts/rules/"+name, `{"metric":"open_circuits"}`)
	}
}

// What fires and what is pending are told with all that there is to tell.
func TestAlertsAreListed(t *testing.T) {
	a := newAPI(t)
	then := job.InstantOf(a.clock.Now())
	a.v1.Alerts = fixedAlerts{a.alerts, []alerts.Alert{
		{
			Rule: "down", Subject: alerts.Subject{Endpoint: "https://shop.example:443"}, Metric: alerts.OpenCircuits,
			Value: 1, Since: then, FiredAt: then.Add(time.Minute), ToldAt: then.Add(time.Hour), ID: "01KDWCJ2M00000000000000009", Repeats: 2,
		},
		{Rule: "t:oldest_due", Subject: alerts.Subject{Topic: "t"}, Metric: alerts.OldestDue, Value: 61.5, Above: 60, Since: then},
	}}
	want := []any{
		map[string]any{
			"id": "01KDWCJ2M00000000000000009", "rule": "down", "metric": "open_circuits",
			"subject": map[string]any{"topic": nil, "endpoint": "https://shop.example:443"}, "state": "firing",
			"value": 1.0, "threshold": 0.0, "since": "2026-01-01T09:00:00.000Z", "fired_at": "2026-01-01T09:01:00.000Z",
			"told_at": "2026-01-01T10:00:00.000Z", "repeat": 2.0,
		},
		map[string]any{
			"id": nil, "rule": "t:oldest_due", "metric": "oldest_due", "subject": map[string]any{"topic": "t", "endpoint": nil},
			"state": "pending", "value": 61.5, "threshold": 60.0, "since": "2026-01-01T09:00:00.000Z",
			"fired_at": nil, "told_at": nil, "repeat": 0.0,
		},
	}
	if diff := cmp.Diff(want, a.want(200, "GET", "/v1/alerts", "")["data"]); diff != "" {
		t.Error(diff)
	}
	for query, want := range map[string][]any{"state=firing": want[:1], "state=pending": want[1:], "state=pending,firing": want} {
		if diff := cmp.Diff(want, a.want(200, "GET", "/v1/alerts?"+query, "")["data"]); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
	if p := a.wantProblem(httpapi.CodeInvalidRequest, "GET", "/v1/alerts?state=quiet", ""); p.Errors[0].Message != "must be one of firing, pending" {
		t.Errorf("%v", p.Errors)
	}
}

// fixedAlerts are alerts of which some fire.
type fixedAlerts struct {
	*alerts.Manager
	all []alerts.Alert
}

func (f fixedAlerts) Alerts(context.Context) ([]alerts.Alert, error) { return slices.Clone(f.all), nil }

// The topic of alerts is not for clients to register in; its jobs are looked up
// and steered like any other.
func TestAlertsHaveTheirTopic(t *testing.T) {
	a := newAPI(t)
	const sent = `{"topic":"duehook-alerts","url":"https://shop.example/hook"}`
	for _, path := range []string{"/v1/jobs", "/v1/jobs/plan"} {
		if p := a.wantProblem(httpapi.CodeInvalidRequest, "POST", path, sent); p.Errors[0].Pointer != "/topic" {
			t.Errorf("%s: %v", path, p.Errors)
		}
	}
	results := a.want(200, "POST", "/v1/jobs/batch", `{"jobs":[`+sent+`]}`)["results"].([]any)
	if got := results[0].(map[string]any)["status"]; got != 422.0 {
		t.Errorf("in a batch: %v", got)
	}
	a.want(200, "GET", "/v1/jobs?topic=duehook-alerts", "")
}
