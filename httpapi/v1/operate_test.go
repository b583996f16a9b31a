package v1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/store"
)

func TestNewWantsAnApp(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("New worked without an app")
	}
}

func TestNewRegistersItsMetricsOnce(t *testing.T) {
	a := newAPI(t)
	registry := prometheus.NewRegistry()
	if _, err := httpapi.New(httpapi.Options{Ready: a.mem.Ping, Metrics: registry}); err != nil {
		t.Error(err)
	}
	if _, err := httpapi.New(httpapi.Options{Ready: a.mem.Ping, Metrics: registry}); err == nil {
		t.Error("New registered its metrics twice in one registry")
	}
}

func TestPercentEncodedPaths(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t:1","id":"a@b","delay":60}`)
	for _, path := range []string{"/v1/jobs/t:1/a@b", "/v1/jobs/t%3A1/a%40b", "/v1/jobs/%74%3a1/%61@b", "/v1/topics/t%3A1"} {
		if got := a.call("GET", path, ""); got.Code != 200 {
			t.Errorf("%s: %d %s", path, got.Code, got.Body)
		}
	}
	// Decoded once it is "a%40b", which is no name, decoded twice it would be a job.
	if p := a.wantProblem(httpapi.CodeInvalidRequest, "GET", "/v1/jobs/t:1/a%2540b", ""); p.Errors[0].Pointer != "/id" {
		t.Errorf("got %+v", p)
	}
}

func TestMethodsAreListed(t *testing.T) {
	a := newAPI(t)
	got := a.call("PUT", "/v1/jobs/t/a", "")
	for _, method := range []string{"GET", "HEAD", "PATCH", "DELETE", "OPTIONS"} {
		if !strings.Contains(got.Header().Get("Allow"), method) {
			t.Errorf("Allow: %s lacks %s", got.Header().Get("Allow"), method)
		}
	}
	if got := a.call("OPTIONS", "/v1/jobs/t/a", ""); got.Code != http.StatusNoContent || got.Header().Get("Allow") == "" {
		t.Errorf("OPTIONS: %d, Allow %q", got.Code, got.Header().Get("Allow"))
	}
}

func TestReady(t *testing.T) {
	a := newAPI(t)
	a.want(200, "GET", "/readyz", "")
	a.faults.set(func() error { return fmt.Errorf("%w: gone", store.ErrUnavailable) })
	a.wantProblem(httpapi.CodeStoreUnavailable, "GET", "/readyz", "")
	a.want(200, "GET", "/livez?verbose", "")
	a.faults.set(nil)
	a.want(200, "GET", "/readyz", "")
}

// The store answers, and nothing is delivered.
func TestReadyWhileDeliveryIsStuck(t *testing.T) {
	stuck := ""
	a := newAPI(t, func(o *testOptions) { o.Stuck = func() string { return stuck } })
	a.want(200, "GET", "/readyz", "")
	stuck = "taking jobs"
	got := a.wantProblem(httpapi.CodeStoreUnavailable, "GET", "/readyz", "")
	if detail := got.Detail; !strings.Contains(detail, stuck) {
		t.Errorf("/readyz does not name what fails: %s", detail)
	}
	stuck = ""
	a.want(200, "GET", "/readyz", "")
}

// hangingStore answers only when its context ends.
type hangingStore struct{ Store }

func (hangingStore) Ping(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
}

func (hangingStore) Topics(ctx context.Context, _ store.TopicQuery) (store.TopicPage, error) {
	<-ctx.Done()
	return store.TopicPage{}, ctx.Err()
}

func TestRequestsEndInTime(t *testing.T) {
	a := newAPI(t, func(o *testOptions) { o.Store = hangingStore{o.Store}; o.RequestTimeout = 1 })
	a.wantProblem(httpapi.CodeStoreUnavailable, "GET", "/v1/topics", "")
	a.wantProblem(httpapi.CodeStoreUnavailable, "GET", "/readyz", "")
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	a := newAPI(t, func(o *testOptions) { o.Metrics = registry })
	const body = `{"url":"https://shop.example/hook","topic":"t","id":"a","delay":60}`
	a.want(201, "POST", "/v1/jobs", body)
	a.want(200, "POST", "/v1/jobs", body)
	a.wantProblem(httpapi.CodeJobExists, "POST", "/v1/jobs", strings.Replace(body, "60", "61", 1))
	a.want(200, "POST", "/v1/jobs", strings.Replace(body, "60", `61,"on_conflict":"ignore"`, 1))
	a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/jobs", `{}`)
	a.wantProblem(httpapi.CodeMalformedJSON, "POST", "/v1/jobs", `{`)
	a.want(200, "POST", "/v1/jobs/batch", `{"jobs":[`+body+`,{}]}`)
	a.faults.set(func() error { return store.ErrUnavailable })
	a.wantProblem(httpapi.CodeStoreUnavailable, "POST", "/v1/jobs", body)
	a.wantProblem(httpapi.CodeStoreUnavailable, "POST", "/v1/jobs/batch", `{"jobs":[`+body+`,`+body+`]}`)
	a.faults.set(nil)
	a.call("GET", "/made/up", "")
	a.call("BREW", "/v1/jobs", "")
	want := `
# HELP duehook_registrations_total Registrations of clients, by outcome.
# TYPE duehook_registrations_total counter
duehook_registrations_total{outcome="busy"} 0
duehook_registrations_total{outcome="created"} 1
duehook_registrations_total{outcome="dead"} 0
duehook_registrations_total{outcome="exists"} 1
duehook_registrations_total{outcome="in_flight"} 0
duehook_registrations_total{outcome="invalid"} 3
duehook_registrations_total{outcome="kept"} 1
duehook_registrations_total{outcome="key_reused"} 0
duehook_registrations_total{outcome="moved"} 0
duehook_registrations_total{outcome="other_order_key"} 0
duehook_registrations_total{outcome="same"} 2
duehook_registrations_total{outcome="topic_draining"} 0
duehook_registrations_total{outcome="topic_full"} 0
duehook_registrations_total{outcome="unavailable"} 3
# HELP duehook_http_requests_total Requests to the HTTP API, by route, method and status code.
# TYPE duehook_http_requests_total counter
duehook_http_requests_total{code="200",method="POST",route="/v1/jobs"} 2
duehook_http_requests_total{code="200",method="POST",route="/v1/jobs/batch"} 1
duehook_http_requests_total{code="201",method="POST",route="/v1/jobs"} 1
duehook_http_requests_total{code="400",method="POST",route="/v1/jobs"} 1
duehook_http_requests_total{code="404",method="GET",route="unmatched"} 1
duehook_http_requests_total{code="405",method="other",route="/v1/jobs"} 1
duehook_http_requests_total{code="409",method="POST",route="/v1/jobs"} 1
duehook_http_requests_total{code="422",method="POST",route="/v1/jobs"} 1
duehook_http_requests_total{code="503",method="POST",route="/v1/jobs"} 1
duehook_http_requests_total{code="503",method="POST",route="/v1/jobs/batch"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "duehook_registrations_total", "duehook_http_requests_total"); err != nil {
		t.Error(err)
	}
	page := a.call("GET", "/metrics", "")
	if !strings.Contains(page.Body.String(), `duehook_http_request_seconds_count{route="/v1/jobs"} 8`) {
		t.Errorf("/metrics: %s", page.Body)
	}
}

// logBuffer gathers log records as JSON.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// records gives the records so far, and forgets them.
func (l *logBuffer) records(t *testing.T) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var records []map[string]any
	for line := range strings.Lines(l.b.String()) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	l.b.Reset()
	return records
}

func withLog(l *logBuffer, level slog.Level) func(*testOptions) {
	return func(o *testOptions) {
		o.Logger = slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: level}))
	}
}

func TestAccessLines(t *testing.T) {
	var log logBuffer
	a := newAPI(t, withLog(&log, slog.LevelDebug))
	got := a.call("POST", "/v1/jobs", `{"url":"https://shop.example/hook?token=secret","body":"secret"}`, "X-Request-Id", "req-1")
	records := log.records(t)
	if len(records) != 1 {
		t.Fatalf("got %v", records)
	}
	r := records[0]
	if r["level"] != "DEBUG" || r["route"] != "/v1/jobs" || r["status"] != 201.0 || r["request_id"] != "req-1" || r["client"] != "192.0.2.1" || got.Header().Get("X-Request-Id") != "req-1" {
		t.Errorf("got %v", r)
	}
	a.wantProblem(httpapi.CodeInvalidRequest, "GET", "/v1/jobs?biz_key=sec%20ret", "")
	a.want(200, "GET", "/v1/jobs?biz_key=secret", "")
	for _, r := range log.records(t) {
		if strings.Contains(fmt.Sprint(r), "secret") {
			t.Errorf("logged: %v", r)
		}
	}

	quiet := newAPI(t, withLog(&log, slog.LevelInfo))
	quiet.want(200, "GET", "/v1/topics", "")
	if records := log.records(t); len(records) != 0 {
		t.Errorf("at info level: %v", records)
	}
}

func TestRequestIDs(t *testing.T) {
	a := newAPI(t)
	for given, kept := range map[string]bool{
		"abc-DEF_1.2": true, "": false, "a b": false, "a\"b": false, "{}": false, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "é": false,
	} {
		got := a.call("GET", "/livez", "", "X-Request-Id", given).Header().Get("X-Request-Id")
		if (got == given) != kept || got == "" {
			t.Errorf("%q became %q", given, got)
		}
	}
}

// A panic is answered, and logged with its stack under the answer's id.
func TestPanics(t *testing.T) {
	var log logBuffer
	a := newAPI(t, withLog(&log, slog.LevelInfo))
	a.faults.set(func() error { panic("out of order") })
	got := a.call("GET", "/v1/topics", "")
	if got.Code != 500 || strings.Contains(got.Body.String(), "out of order") {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
	var stack, id string
	for _, r := range log.records(t) {
		if s, ok := r["stack"].(string); ok {
			stack, id = s, r["request_id"].(string)
		}
	}
	if !strings.Contains(stack, "listTopics") || id != got.Header().Get("X-Request-Id") {
		t.Errorf("logged under %q: %s", id, stack)
	}
	a.faults.set(nil)
	a.want(200, "GET", "/v1/topics", "")
}

func TestInternalErrorsAreLoggedNotShown(t *testing.T) {
	var log logBuffer
	a := newAPI(t, withLog(&log, slog.LevelInfo))
	a.faults.set(func() error { return errors.New("password=hunter2") })
	got := a.call("GET", "/v1/topics", "")
	if strings.Contains(got.Body.String(), "hunter2") {
		t.Errorf("shown: %s", got.Body)
	}
	if records := log.records(t); len(records) != 1 || records[0]["error"] != "password=hunter2" {
		t.Errorf("logged: %v", records)
	}
}

// Pages of other sites cannot make a browser change anything here.
func TestCrossOrigin(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"a","delay":60}`)
	a.wantProblem(httpapi.CodeForbidden, "POST", "/v1/jobs/t/a/run", "", "Sec-Fetch-Site", "cross-site")
	a.wantProblem(httpapi.CodeForbidden, "POST", "/v1/jobs/t/a/run", "", "Origin", "https://evil.example")
	a.want(200, "POST", "/v1/jobs/t/a/run", "", "Origin", "http://example.com", "Sec-Fetch-Site", "same-origin")
	a.want(200, "GET", "/v1/jobs/t/a", "", "Sec-Fetch-Site", "cross-site")
}

func TestBlockedDestinations(t *testing.T) {
	a := newAPI(t, func(o *testOptions) {
		o.Guard = func(rawURL string) error { return errors.New("10.1.2.3 is private: " + rawURL) }
	})
	p := a.wantProblem(httpapi.CodeDestinationBlocked, "POST", "/v1/jobs", `{"url":"http://db.internal/"}`)
	if strings.Contains(fmt.Sprint(p), "10.1.2.3") || len(p.Errors) != 1 || p.Errors[0].Pointer != "/url" {
		t.Errorf("got %+v", p)
	}
	if n := len(a.held()); n != 0 {
		t.Errorf("%d jobs are held", n)
	}
}
