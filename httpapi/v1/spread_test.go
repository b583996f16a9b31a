package v1

import (
	"fmt"
	"testing"
	"time"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
)

func TestSpread(t *testing.T) {
	a := newAPI(t)
	due := func(id string, spread time.Duration) string {
		return job.InstantOf(time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC).Add(job.Share("t/"+id, spread))).RFC3339()
	}
	const body = `{"topic":"t","id":"a","url":"https://shop.example/hook","at":"2026-01-01T10:00:00Z","spread":"5m"}`
	j := a.want(201, "POST", "/v1/jobs", body)
	if j["due_at"] != due("a", 5*time.Minute) || j["next_at"] != j["due_at"] || j["spread"] != "5m" {
		t.Errorf("registered: %v", j)
	}
	again := a.want(200, "POST", "/v1/jobs", body)
	if again["result"] != "same" || again["due_at"] != j["due_at"] {
		t.Errorf("registered again: %v", again)
	}
	if plan := a.want(200, "POST", "/v1/jobs/plan", body); plan["due_at"] != j["due_at"] {
		t.Errorf("planned: %v", plan)
	}
	const registration = `{"topic":"t","id":"a","url":"https://shop.example/hook","method":"POST","at":"2026-01-01T10:00:00.000Z","retry":{},"priority":5,"spread":"5m"}`
	if got := a.registrationOf("t/a"); got != registration {
		t.Errorf("the registration is\n%s", got)
	}
	for _, change := range []struct {
		body, spread string
		due          string
	}{
		{`{"at":"2026-01-01T10:00:00Z","spread":"1h"}`, "1h", due("a", time.Hour)},
		{`{"at":"2026-01-01T10:00:00Z"}`, "1h", due("a", time.Hour)},
		{`{"at":"2026-01-01T10:00:00Z","spread":0}`, "<nil>", "2026-01-01T10:00:00.000Z"},
	} {
		got := a.want(200, "PATCH", "/v1/jobs/t/a", change.body)
		if got["due_at"] != change.due || fmt.Sprint(got["spread"]) != change.spread {
			t.Errorf("%s: %v", change.body, got)
		}
	}
	a.want(201, "PUT", "/v1/topics/t", `{"spread":"1m"}`)
	batch := a.want(200, "POST", "/v1/jobs/batch", `{"jobs":[
		{"topic":"t","id":"b","url":"https://shop.example/hook","at":"2026-01-01T10:00:00Z"},
		{"topic":"t","id":"c","url":"https://shop.example/hook","at":"2026-01-01T10:00:00Z","spread":"0s"}]}`)
	for i, want := range []string{due("b", time.Minute), "2026-01-01T10:00:00.000Z"} {
		item := batch["results"].([]any)[i].(map[string]any)["job"].(map[string]any)
		if item["due_at"] != want {
			t.Errorf("with the topic's default, job %d is due at %v, want %s", i, item["due_at"], want)
		}
	}
	run := a.want(200, "POST", "/v1/jobs/t/b/run", "")
	if run["next_at"] != "2026-01-01T09:00:00.000Z" {
		t.Errorf("run now: %v", run)
	}
}

// The spread of a schedule's job adds to the jitter, and changes the times shown.
func TestSpreadOfASchedule(t *testing.T) {
	a := newAPI(t)
	first := func(body string) map[string]any {
		preview := a.want(200, "POST", "/v1/schedules/preview", body)
		return preview["data"].([]any)[0].(map[string]any)
	}
	jitter := first(`{"schedule":"s","every":"1h","jitter":"10m","limit":1}`)
	spread := first(`{"schedule":"s","every":"1h","jitter":"4m","limit":1,"job":{"url":"https://shop.example/hook","spread":"6m"}}`)
	if jitter["due_at"] != spread["due_at"] || jitter["due_at"] == jitter["time"] {
		t.Errorf("by a jitter %v, by a spread %v", jitter, spread)
	}
	s := a.want(201, "PUT", "/v1/schedules/s", `{"every":"1h","jitter":"4m","job":{"url":"https://shop.example/hook","spread":"6m"}}`)
	next := s["next"].([]any)[0].(map[string]any)
	due := job.InstantOf(time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC).Add(job.Share("s@20260101T100000Z", 10*time.Minute))).RFC3339()
	if s["jitter"] != "4m" || next["due_at"] != due {
		t.Errorf("jitter %v, next %v", s["jitter"], next)
	}
	registration := a.want(200, "GET", "/v1/schedules/s/registration", "")
	if registration["job"].(map[string]any)["spread"] != "6m" {
		t.Errorf("the registration is %v", registration)
	}
	p := a.wantProblem(httpapi.CodeInvalidRequest, "PUT", "/v1/schedules/s", `{"every":"1h","jitter":"20h","job":{"url":"https://shop.example/hook","spread":"5h"}}`)
	if len(p.Errors) != 1 || p.Errors[0].Pointer != "/job/spread" {
		t.Errorf("%v", p.Errors)
	}
}

func TestPlanCountsOthers(t *testing.T) {
	a := newAPI(t)
	for i, job := range []string{
		`"topic":"t","url":"https://shop.example/a","at":"2026-01-01T10:00:07.100Z"`,
		`"topic":"u","url":"https://shop.example/b","at":"2026-01-01T10:00:07.999Z"`,
		`"topic":"t","url":"https://shop.example/a","at":"2026-01-01T10:00:08Z"`,
		`"topic":"t","url":"https://shop.example/a","at":"2026-01-01T10:00:59.999Z"`,
		`"topic":"t","url":"https://shop.example/a","at":"2026-01-01T10:01:00Z"`,
		`"topic":"t","url":"https://shop.example/a","at":"2026-01-01T09:59:59.999Z"`,
		`"topic":"t","url":"https://other.example/a","at":"2026-01-01T10:00:07Z"`,
	} {
		a.want(201, "POST", "/v1/jobs", fmt.Sprintf(`{"id":"%d",%s}`, i, job))
	}
	plan := a.want(200, "POST", "/v1/jobs/plan", `{"url":"https://shop.example/c","at":"2026-01-01T10:00:07Z"}`)
	if got := fmt.Sprint(plan["others_due"]); got != "map[same_minute:4 same_second:2]" {
		t.Errorf("others due: %s", got)
	}
	none := a.want(200, "POST", "/v1/jobs/plan", `{"url":"https://none.example/c","at":"2026-01-01T10:00:07Z"}`)
	if got := fmt.Sprint(none["others_due"]); got != "map[same_minute:0 same_second:0]" {
		t.Errorf("others due at an unknown endpoint: %s", got)
	}
}
