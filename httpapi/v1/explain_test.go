package v1

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/store"
)

// explained asks why, and gives the codes of the reasons and the answer.
func (a *api) explained(key string) ([]string, map[string]any) {
	a.t.Helper()
	answer := a.want(200, "GET", "/v1/jobs/"+key+"/explain", "")
	var codes []string
	for _, r := range answer["reasons"].([]any) {
		codes = append(codes, r.(map[string]any)["code"].(string))
	}
	return codes, answer
}

func (a *api) explains(key string, want ...string) map[string]any {
	a.t.Helper()
	codes, answer := a.explained(key)
	if diff := cmp.Diff(want, codes); diff != "" {
		a.t.Errorf("%s: reasons (-want +got):\n%s", key, diff)
	}
	return answer
}

func TestExplainGoesByWhatCarriersAreTold(t *testing.T) {
	a := newAPI(t, func(o *testOptions) { o.Carry = store.CarryOptions{FlightLimits: store.FlightLimits{EndpointLimit: 1}} })
	for _, id := range []string{"a", "b"} {
		a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"`+id+`","url":"https://shop.example/hook"}`)
	}
	a.explains("t/a", "carrier_behind")
	if _, err := a.mem.Take(t.Context(), 0, store.TakeOptions{Max: 10, Lease: time.Minute, Limits: store.FlightLimits{EndpointLimit: 1, HalfOpenLimit: 1}}); err != nil {
		t.Fatal(err)
	}
	a.explains("t/a", "in_flight")
	answer := a.explains("t/b", "endpoint_limit")
	if answer["expected_at"] != answer["now"] {
		t.Errorf("it is expected at %v, and it is %v", answer["expected_at"], answer["now"])
	}
}

func TestExplainNamesAHoldOfTheStore(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"a","url":"https://shop.example/hook"}`)
	if _, err := store.PutDocument(t.Context(), a.mem, store.Document{Kind: store.HoldKind, Name: store.HoldStart, Data: []byte(`{"since":1767258000000}`)}); err != nil {
		t.Fatal(err)
	}
	answer := a.explains("t/a", "deliveries_held")
	reason := answer["reasons"].([]any)[0].(map[string]any)
	if detail := reason["detail"].(string); !strings.Contains(detail, "--start-paused at 2026-01-01T09:00:00.000Z") || answer["expected_at"] != nil {
		t.Errorf("%q, expected at %v", detail, answer["expected_at"])
	}
}

func TestExplainNamesTheNode(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"a","url":"https://shop.example/hook","ttl":"2h"}`)
	ctx := t.Context()
	if _, err := a.mem.Take(ctx, 0, store.TakeOptions{Max: 10, Lease: 20 * time.Second, By: "node-7", Limits: store.FlightLimits{HalfOpenLimit: 1}}); err != nil {
		t.Fatal(err)
	}
	answer := a.explains("t/a", "in_flight")
	reason := answer["reasons"].([]any)[0].(map[string]any)
	if reason["node"] != "node-7" || reason["until"] != "2026-01-01T09:00:20.000Z" || answer["expected_at"] != nil {
		t.Errorf("%v, expected at %v", reason, answer["expected_at"])
	}
	a.want(202, "DELETE", "/v1/jobs/t/a", "")
	answer = a.explains("t/a", "cancel_noted", "in_flight")
	if ladder := answer["ladder"].(map[string]any); len(ladder["attempts"].([]any)) != 0 || ladder["expires_at"] != nil {
		t.Errorf("what follows on a cancel: %v", ladder)
	}
}

func TestExplainNotesWhatTheJobMakes(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"a","url":"https://shop.example/hook","callbacks":{"dead":{"url":"https://shop.example/dead"}}}`)
	_, answer := a.explained("t/a")
	want := []any{map[string]any{
		"code": "callbacks_follow", "params": map[string]any{"events": "dead"}, "detail": "A callback follows each of these events: dead.",
	}}
	if diff := cmp.Diff(want, answer["notes"]); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

// A plan is what the job has when it is registered, and registers nothing.
func TestPlanIsWhatIsRegistered(t *testing.T) {
	a := newAPI(t)
	const body = `{"topic":"t","id":"a","url":"https://shop.example/hook","delay":"90s","retry":{"steps":["10s","1m"],"limit":4},"ttl":"1h"}`
	plan := a.want(200, "POST", "/v1/jobs/plan", body)
	if held := a.held(); len(held) != 0 {
		t.Fatalf("a plan was stored: %v", held)
	}
	j := a.want(201, "POST", "/v1/jobs", body)
	_, explained := a.explained("t/a")
	if plan["due_at"] != j["due_at"] || plan["max_attempts"] != j["max_attempts"] {
		t.Errorf("the plan %v is not of the job %v", plan, j)
	}
	if diff := cmp.Diff(plan["ladder"], explained["ladder"]); diff != "" {
		t.Errorf("the ladder planned and that of the job (-plan +job):\n%s", diff)
	}
	if again := a.want(200, "POST", "/v1/jobs/plan", body); !cmp.Equal(plan, again) {
		t.Errorf("with the job registered, the plan is %v", again)
	}
}

// A plan refuses what a registration refuses, in the same words.
func TestPlanIsAsStrict(t *testing.T) {
	a := newAPI(t)
	for _, body := range []string{
		`{}`, `{"url":"ftp://a"}`, `{"url":"https://a.example","colour":1}`, `{"url":"https://a.example","delay":1,"at":"2026-01-01T09:00:00Z"}`,
		`{"url":"https://a.example"} x`, `{"url":"https://a.example","url":"https://b.example"}`, `[]`, `{"url":"https://a.example","retry":{"limit":-1}}`,
	} {
		registered, planned := a.call("POST", "/v1/jobs", body), a.call("POST", "/v1/jobs/plan", body)
		if planned.Code < 400 || planned.Code != registered.Code {
			t.Errorf("%s: planned %d, registered %d", body, planned.Code, registered.Code)
		}
		var want, got any
		if json.Unmarshal(registered.Body.Bytes(), &want) != nil || json.Unmarshal(planned.Body.Bytes(), &got) != nil || !cmp.Equal(want, got) {
			t.Errorf("%s: planned\n%s\nregistered\n%s", body, planned.Body, registered.Body)
		}
	}
}
