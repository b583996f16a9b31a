package v1

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/jobjson"
	"github.com/duehook/duehook/retrypolicy"
)

const callbacksOfA = `{"delivered":{"url":"https://shop.example/done","method":"PUT","headers":{"X-Kind":"done"}},` +
	`"attempt_failed":{"url":"https://shop.example/failed"},"retry":{"steps":["1s"],"limit":2},"include_request":true}`

func TestCallbacks(t *testing.T) {
	a := newAPI(t)
	j := a.want(201, "POST", "/v1/jobs",
		`{"topic":"t","id":"a","url":"https://shop.example/hook","headers":{"x-a":"1"},"body":{"n":1},"callbacks":`+callbacksOfA+`}`)
	if _, has := j["callback_jobs"]; has {
		t.Errorf("the new job names callbacks: %v", j)
	}
	claim := a.claim()[0]
	a.clock.Advance(time.Second)
	attempt := job.Attempt{Number: 1, StartedAt: claim.Now, Status: 200, Node: "n-1", ResponseBody: "ok", ResponseHeaders: []job.Header{{Name: "X-B", Value: "2"}}}
	s := job.Settle(&claim.Job, job.Outcome{
		Kind: job.OutcomeDelivered, Attempt: &attempt, Response: &job.Response{Body: []byte("ok\xff"), Cut: true},
	}, nil)
	if _, err := a.mem.Settle(t.Context(), []job.Settlement{s}); err != nil {
		t.Fatal(err)
	}

	id := fmt.Sprint(j["uid"]) + ".delivered"
	done := a.want(200, "GET", "/v1/jobs/t/a", "")
	want := []any{map[string]any{"event": "delivered", "id": id, "url": "/v1/jobs/t/" + id}}
	if diff := cmp.Diff(want, done["callback_jobs"]); diff != "" {
		t.Errorf("callbacks (-want +got):\n%s", diff)
	}
	callback := a.want(200, "GET", "/v1/jobs/t/"+id, "")
	of := map[string]any{"event": "delivered", "at": "2026-01-01T09:00:01.000Z", "uid": j["uid"], "id": "a", "url": "/v1/jobs/t/a"}
	if diff := cmp.Diff(of, callback["callback_of"]); diff != "" || callback["method"] != "PUT" || callback["max_attempts"] != 3.0 {
		t.Errorf("callback_of (-want +got):\n%s\n%v", diff, callback)
	}

	stored := a.stored("t", id)
	body, err := jobjson.CallbackBody(retrypolicy.Default())(&stored)
	if err != nil {
		t.Fatal(err)
	}
	if err := theContract().validate("/components/schemas/CallbackBody", body); err != nil {
		t.Errorf("%v in\n%s", err, body)
	}
	var sent struct {
		Event, At string
		Job       map[string]any
		Attempt   map[string]any
		Request   map[string]any
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	listed := a.want(200, "GET", "/v1/jobs?id=a&topic=t", "")["data"].([]any)[0]
	if _, has := listed.(map[string]any)["last_attempt"].(map[string]any)["node"]; has {
		t.Error("an attempt tells clients the name of a machine")
	}
	if diff := cmp.Diff(listed, any(sent.Job)); diff != "" || sent.Event != "delivered" || sent.At != done["ended_at"] {
		t.Errorf("%s at %s reports (-listed +reported):\n%s", sent.Event, sent.At, diff)
	}
	if sent.Attempt["response_body_base64"] != "b2v/" || sent.Attempt["response_body_truncated"] != true || sent.Attempt["status"] != 200.0 {
		t.Errorf("attempt %v", sent.Attempt)
	}
	request := map[string]any{"headers": map[string]any{"X-A": "1", "Content-Type": "application/json"}, "body_base64": "eyJuIjoxfQ=="}
	if diff := cmp.Diff(request, sent.Request); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	registration := a.want(200, "GET", "/v1/jobs/t/"+id+"/registration", "")
	if registration["body"].(map[string]any)["event"] != "delivered" {
		t.Errorf("the registration is %v", registration)
	}
}

func TestCallbacksAreChecked(t *testing.T) {
	blocked := func(o *testOptions) {
		o.Guard = func(url string) error {
			if url == "http://10.0.0.1/" {
				return fmt.Errorf("refused")
			}
			return nil
		}
	}
	a := newAPI(t, blocked)
	const rest = `"url":"https://shop.example/hook"`
	for _, row := range []struct {
		callbacks string
		code      httpapi.Code
		pointers  []string
	}{
		{`{"dead":{"url":"http://10.0.0.1/"}}`, httpapi.CodeDestinationBlocked, []string{"/callbacks/dead/url"}},
		{`{"dead":{"url":"nowhere"},"deed":{}}`, httpapi.CodeInvalidRequest, []string{"/callbacks/dead/url", "/callbacks/deed"}},
		{`{"dead":{},"expired":{"url":"https://a","method":"HEAD"}}`, httpapi.CodeInvalidRequest, []string{"/callbacks/dead/url", "/callbacks/expired/method"}},
		{
			`{"dead":{"url":"https://a","headers":{"host":"b"}},"retry":{"limit":-1}}`, httpapi.CodeInvalidRequest,
			[]string{"/callbacks/dead/headers/host", "/callbacks/retry/limit"},
		},
		{`{"retry":{"limit":1}}`, httpapi.CodeInvalidRequest, []string{"/callbacks"}},
		{
			fmt.Sprintf(`{"dead":{"url":"https://a","headers":%[1]s},"expired":{"url":"https://a","headers":%[1]s}}`,
				fmt.Sprintf(`{"a":%q,"b":%[1]q,"c":%[1]q}`, strings.Repeat("h", 4000))),
			httpapi.CodeInvalidRequest,
			[]string{"/callbacks"},
		},
		{`[]`, httpapi.CodeInvalidRequest, []string{"/callbacks"}},
	} {
		for _, call := range [][3]string{
			{"POST", "/v1/jobs", `{` + rest + `,"callbacks":` + row.callbacks + `}`},
			{"PUT", "/v1/topics/t", `{"callbacks":` + row.callbacks + `}`},
		} {
			p := a.wantProblem(row.code, call[0], call[1], call[2])
			found := map[string]bool{}
			for _, e := range p.Errors {
				found[e.Pointer] = true
			}
			for _, pointer := range row.pointers {
				if !found[pointer] || len(found) != len(row.pointers) {
					t.Errorf("%s %s: %v, want %s", call[1], row.callbacks, p.Errors, row.pointers)
				}
			}
		}
	}
	if held := a.held(); len(held) > 0 {
		t.Errorf("%d jobs are stored", len(held))
	}
	reserved := `{"id":"01KDWCJ2M00000000000000001.dead",` + rest + `}`
	if p := a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/jobs", reserved); p.Errors[0].Pointer != "/id" {
		t.Errorf("%v", p.Errors)
	}
}

func TestCallbacksOfATopic(t *testing.T) {
	a := newAPI(t)
	topic := a.want(201, "PUT", "/v1/topics/t", `{"callbacks":`+callbacksOfA+`}`)
	shown, err := json.Marshal(topic["settings"].(map[string]any)["callbacks"])
	var want, got any
	if err != nil || json.Unmarshal([]byte(callbacksOfA), &want) != nil || json.Unmarshal(shown, &got) != nil || !cmp.Equal(want, got) {
		t.Errorf("the settings show %s", shown)
	}
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"a","url":"https://shop.example/hook"}`)
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"b","url":"https://shop.example/hook","callbacks":{}}`)
	if c := a.stored("t", "a").Spec.Callbacks; c == nil || c.On(job.CallbackDelivered) == nil || c.On(job.CallbackAttemptFailed) == nil {
		t.Errorf("with the topic's default, the job has %+v", c)
	}
	if c := a.stored("t", "b").Spec.Callbacks; c != nil {
		t.Errorf("without, it has %+v", c)
	}
	if registration := a.want(200, "GET", "/v1/jobs/t/b/registration", ""); !cmp.Equal(registration["callbacks"], any(map[string]any{})) {
		t.Errorf("the registration is %v", registration)
	}
	a.want(200, "PATCH", "/v1/jobs/t/a", `{"callbacks":{"dead":{"url":"https://shop.example/dead"}}}`)
	if c := a.stored("t", "a").Spec.Callbacks; c == nil || c.On(job.CallbackDead) == nil || len(c.By) != 1 {
		t.Errorf("after a change, it has %+v", c)
	}
	a.want(200, "DELETE", "/v1/topics/t", "")
	if registration := a.want(200, "GET", "/v1/jobs/t/b/registration", ""); registration["callbacks"] != nil {
		t.Errorf("without a default, the registration is %v", registration)
	}
}

// A dead callback is mended and replayed as any job, but its body is the report.
func TestReplayOfACallback(t *testing.T) {
	a := newAPI(t)
	j := a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"a","url":"https://shop.example/hook","callbacks":{"dead":{"url":"https://shop.example/dead"}}}`)
	a.end(job.OutcomeRefused)
	a.end(job.OutcomeRefused)
	id := fmt.Sprint(j["uid"]) + ".dead"
	p := a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/jobs/t/"+id+"/replay", `{"body":1,"content_type":"text/plain","callbacks":{}}`)
	if len(p.Errors) != 3 {
		t.Errorf("%v", p.Errors)
	}
	again := a.want(200, "POST", "/v1/jobs/t/"+id+"/replay", `{"url":"https://shop.example/other"}`)
	if again["state"] != "waiting" || again["callback_of"] == nil {
		t.Errorf("%v", again)
	}
	a.want(200, "POST", "/v1/jobs/t/a/replay", "")
	a.end(job.OutcomeRefused)
	round := a.want(200, "GET", "/v1/jobs/t/"+id+".2", "")
	if round["callback_of"].(map[string]any)["event"] != "dead" {
		t.Errorf("%v", round)
	}
}
