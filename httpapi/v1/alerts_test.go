package v1

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
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
	a.want(201, "PUT", path, `{"metric":"failures","endpoint":"https://shop.example/x","above":0.25,
		"window":120,"url":"https://ops.example/alerts","format":"slack"}`)
	a.clock.Advance(time.Minute)
	got := a.want(200, "PUT", path, `{"metric":"failures","above":5e1,"topic":"orders","url":null,"format":null}`)
	want := map[string]any{
		"name": "failing", "metric": "failures", "topic": "orders", "endpoint": nil, "above": 50.0, "window": "5m", "url": nil, "format": "json",
		"created_at": "2026-01-01T09:00:00.000Z", "updated_at": "2026-01-01T09:01:00.000Z", "version": 1767258060000.0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(got, a.want(200, "GET", path, "")); diff != "" {
		t.Error(diff)
	}
	if down := a.want(201, "PUT", "/v1/alerts/rules/down", `{"metric":"open_circuits"}`); down["above"] != nil || down["window"] != nil {
		t.Errorf("a rule without a threshold: %v", down)
	}
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
		`{"metric":"open_circuits","by":"topic","for":"1m"}`:                "/by /for",
		`{"metric":"open_circuits","topic":"t","format":"xml"}`:             "/format /topic",
		`{"metric":"silent_nodes","above":1}`:                               "/above",
		`{"metric":"server_trouble","topic":"t"}`:                           "/topic",
		`{"metric":"inbox_trouble","above":1}`:                              "/above",
		`{"metric":"open_circuits","url":"shop.example"}`:                   "/url",
		`{"metric":"open_circuits","endpoint":"shop.example"}`:              "/endpoint",
		`{"metric":"backlog","above":1,"topic":"a b"}`:                      "/topic",
		`{"metric":"backlog","above":1,"topic":"duehook-alerts"}`:           "/topic",
		`{"metric":"failures","severity":"page","above":0,"window":"many"}`: "/severity /window",
	})
	for _, name := range []string{"a%20b", strings.Repeat("a", 65)} {
		a.wantProblem(httpapi.CodeInvalidRequest, "PUT", "/v1/alerts/rules/"+name, `{"metric":"open_circuits"}`)
	}
}

// The list shows all fields of a firing alert.
func TestAlertsAreListed(t *testing.T) {
	a := newAPI(t)
	then := job.InstantOf(a.clock.Now())
	a.v1.Alerts = fixedAlerts{a.alerts, []alerts.Alert{
		{Rule: "down", Subject: alerts.Subject{Endpoint: "https://shop.example:443"}, Metric: alerts.OpenCircuits, Value: 1, FiredAt: then, ID: "01KDWCJ2M00000000000000009"},
		{Rule: "late", Subject: alerts.Subject{Topic: "t"}, Metric: alerts.OldestDue, Value: 61.5, Above: 60, FiredAt: then.Add(time.Minute), ID: "01KDWCJ2M0000000000000000A"},
		{Rule: "nodes", Subject: alerts.Subject{Node: "host n"}, Metric: alerts.SilentNodes, Value: 1, FiredAt: then, ID: "01KDWCJ2M0000000000000000B"},
	}}
	alert := func(id, rule, metric string, topic, endpoint, node any, value, threshold float64, at string) any {
		return map[string]any{
			"id": id, "rule": rule, "metric": metric, "topic": topic, "endpoint": endpoint, "node": node, "trouble": nil, "value": value, "threshold": threshold, "fired_at": at,
		}
	}
	want := []any{
		alert("01KDWCJ2M00000000000000009", "down", "open_circuits", nil, "https://shop.example:443", nil, 1, 0, "2026-01-01T09:00:00.000Z"),
		alert("01KDWCJ2M0000000000000000A", "late", "oldest_due", "t", nil, nil, 61.5, 60, "2026-01-01T09:01:00.000Z"),
		alert("01KDWCJ2M0000000000000000B", "nodes", "silent_nodes", nil, nil, "host n", 1, 0, "2026-01-01T09:00:00.000Z"),
	}
	if diff := cmp.Diff(want, a.want(200, "GET", "/v1/alerts", "")["data"]); diff != "" {
		t.Error(diff)
	}
	a.wantProblem(httpapi.CodeInvalidRequest, "GET", "/v1/alerts?state=firing", "")
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
