package v1

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// fakeEndpoints notes what it is asked for.
type fakeEndpoints struct {
	faults *faultyStore

	mu     sync.Mutex
	tried  []string
	tests  []store.Claimed
	limit  time.Duration
	answer job.Attempt
	fail   error
}

func (f *fakeEndpoints) Try(_ context.Context, endpoint string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried = append(f.tried, endpoint)
	return errors.Join(f.faults.err(), f.fail)
}

func (f *fakeEndpoints) Test(_ context.Context, c store.Claimed, limit time.Duration) (job.Attempt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tests, f.limit = append(f.tests, c), limit
	answer := f.answer
	answer.Number, answer.StartedAt = 1, c.Now
	return answer, f.fail
}

// attempted tells of an attempt that began now, late.
func (a *api) attempted(endpoint string, kind job.OutcomeKind, late time.Duration, class string) {
	now := job.InstantOf(a.clock.Now())
	o := job.Outcome{Kind: kind, After: time.Minute, Attempt: &job.Attempt{StartedAt: now, Error: class}}
	s := job.Settle(&job.Job{NextAt: now.Add(-late)}, o, func(int) (time.Duration, bool) { return time.Minute, true })
	s.Lane.Endpoint = endpoint
	a.recent.Subscriber().Settled(func(yield func(*job.Settlement, *store.Settled) bool) { yield(&s, &store.Settled{}) })
}

func TestEndpoints(t *testing.T) {
	a := newAPI(t)
	for i, host := range []string{"a", "b", "c"} {
		a.want(201, "POST", "/v1/jobs", fmt.Sprintf(`{"url":"https://%s.example/hook","topic":"t","id":"j%d","delay":60}`, host, i))
	}
	if err := a.mem.SetCircuit(t.Context(), "https://b.example:443", store.CircuitOpen, time.Minute); err != nil {
		t.Fatal(err)
	}
	a.attempted("https://b.example:443", job.OutcomeFailed, 0, "tls_error")
	a.attempted("https://z.example:443", job.OutcomeDelivered, 0, "")

	unknown := map[string]any{"failures": nil, "last_error": nil, "last_failure_at": nil, "last_success_at": nil, "ready": 0.0, "in_flight": 0.0, "reopens_at": nil, "waiting": 1.0, "state": "closed"}
	line := func(name string, change map[string]any) any {
		l := map[string]any{"endpoint": "https://" + name + ".example:443"}
		for _, fields := range []map[string]any{unknown, change} {
			for k, v := range fields {
				l[k] = v
			}
		}
		return l
	}
	lines := []any{
		line("a", nil),
		line("b", map[string]any{"state": "open", "reopens_at": "2026-01-01T09:01:00.000Z", "failures": 1.0, "last_error": "tls_error", "last_failure_at": "2026-01-01T09:00:00.000Z"}),
		line("c", nil),
		line("z", map[string]any{"waiting": 0.0, "failures": 0.0, "last_success_at": "2026-01-01T09:00:00.000Z"}),
	}
	for query, want := range map[string][]any{
		"": lines, "?limit=1": lines, "?state=open&state=half_open": lines[1:2], "?state=closed&limit=1": {lines[0], lines[2], lines[3]},
		"?endpoint=HTTPS://b.example/path": lines[1:2], "?endpoint=https://none.example": nil,
	} {
		if got, _ := a.entries("/v1/endpoints" + query); !cmp.Equal(want, got) {
			t.Errorf("%s (-want +got):\n%s", query, cmp.Diff(want, got))
		}
	}
	a.refuses("GET", "/v1/endpoints", map[string]string{
		"?state=ajar": "?state", "?endpoint=shop": "?endpoint", "?limit=0": "?limit", "?cursor=": "?cursor", "?cursor=x": "?cursor", "?topic=t": "?topic",
	})
}

func TestTryEndpoint(t *testing.T) {
	a := newAPI(t)
	got := a.want(200, "POST", "/v1/endpoints/try", `{"endpoint":"https://Shop.example/any"}`)
	if got["endpoint"] != "https://shop.example:443" || got["state"] != "closed" {
		t.Errorf("%v", got)
	}
	if diff := cmp.Diff([]string{"https://shop.example:443"}, a.endpoints.tried); diff != "" {
		t.Error(diff)
	}
	a.refuses("POST", "/v1/endpoints/try", map[string]string{
		`{}`: "/endpoint", `{"endpoint":null}`: "/endpoint", `{"endpoint":"shop"}`: "/endpoint", `{"endpoint":7}`: "/endpoint",
	})
	a.endpoints.fail = store.ErrUnavailable
	a.wantProblem(httpapi.CodeStoreUnavailable, "POST", "/v1/endpoints/try", `{"endpoint":"https://shop.example"}`)
}

func TestTestEndpoint(t *testing.T) {
	a := newAPI(t)
	a.endpoints.answer = job.Attempt{Status: 500, Error: "http_500", ResponseBody: "no"}
	got := a.want(200, "POST", "/v1/endpoints/test", `{"url":"https://shop.example/hook"}`)
	if attempt := got["attempt"].(map[string]any); got["delivered"] != false || attempt["error"] != "http_500" || attempt["response_body"] != "no" {
		t.Errorf("%v", got)
	}
	a.endpoints.answer = job.Attempt{Status: 200}
	got = a.want(200, "POST", "/v1/endpoints/test", `{"topic":"t","url":"https://shop.example/hook","method":"PUT","headers":{"x-a":"b"},"body_text":"hello","timeout":3,"expect":{"body":"ok"}}`)
	if got["delivered"] != true {
		t.Errorf("%v", got)
	}
	first, second := a.endpoints.tests[0], a.endpoints.tests[1]
	if j := first.Job; j.Topic != "default" || j.UID == "" || j.ID != j.UID || string(j.Spec.Body) != `{"test":true}` || first.Now != job.InstantOf(a.clock.Now()) {
		t.Errorf("%+v", first)
	}
	j := second.Job
	if diff := cmp.Diff([]job.Header{{Name: "X-A", Value: "b"}, {Name: app.HeaderTest, Value: "true"}}, j.Spec.Headers); diff != "" {
		t.Error(diff)
	}
	if j.Topic != "t" || j.Spec.Method != "PUT" || string(j.Spec.Body) != "hello" || j.Spec.Timeout != 3*time.Second || j.Spec.ExpectBody != "ok" {
		t.Errorf("%+v", j)
	}
	if a.endpoints.limit != 8*time.Second {
		t.Errorf("a limit of %v", a.endpoints.limit)
	}
	if len(a.held()) != 0 {
		t.Error("a test is stored")
	}
	a.refuses("POST", "/v1/endpoints/test", map[string]string{
		`{}`: "/url", `{"url":"https://a.example/","delay":5}`: "/delay", `{"url":"https://a.example/","id":"x"}`: "/id",
		`{"url":"https://a.example/","headers":{"Duehook-Test":"x"}}`: "/headers/Duehook-Test",
	})
	a.wantProblem(httpapi.CodeBodyTooLarge, "POST", "/v1/endpoints/test", fmt.Sprintf(`{"url":"https://a.example/","body_text":"%0300000d"}`, 0))
	a.endpoints.fail = fmt.Errorf("%w: no request was made", store.ErrUnavailable)
	a.wantProblem(httpapi.CodeStoreUnavailable, "POST", "/v1/endpoints/test", `{"url":"https://shop.example/hook"}`)
}
