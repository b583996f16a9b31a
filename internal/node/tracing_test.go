package node

import (
	"bytes"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/duehook/duehook/internal/testing/testenv"
)

// traceCollector takes traces as OTLP over HTTP brings them.
type traceCollector struct {
	*httptest.Server
	mu       sync.Mutex
	raw      bytes.Buffer
	spans    []*trace.Span
	services map[string]bool
}

func startTraceCollector(t *testing.T) *traceCollector {
	t.Helper()
	c := &traceCollector{services: map[string]bool{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.take(body, &request)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *traceCollector) take(body []byte, request *collector.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(body)
	for _, r := range request.GetResourceSpans() {
		for _, a := range r.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				c.services[a.GetValue().GetStringValue()] = true
			}
		}
		for _, s := range r.GetScopeSpans() {
			c.spans = append(c.spans, s.GetSpans()...)
		}
	}
}

// named are the spans of a name, the earliest first.
func (c *traceCollector) named(name string) []*trace.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := slices.DeleteFunc(slices.Clone(c.spans), func(s *trace.Span) bool { return s.GetName() != name })
	slices.SortFunc(found, func(a, b *trace.Span) int { return int(a.GetStartTimeUnixNano()) - int(b.GetStartTimeUnixNano()) })
	return found
}

// TestTraces follows a job from the client's trace context to its receiver: the
// registration, what it waited for, and each attempt, without anything of its
// URL's path and query or of its body.
func TestTraces(t *testing.T) {
	c := startTraceCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	var mu sync.Mutex
	var told []string
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if told = append(told, r.Header.Get("traceparent")); len(told) == 1 {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer hook.Close()
	r := start(t, embedded(t, t.TempDir()))
	const client = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	const body = `{"topic":"t","id":"a","body":{"card":"4111"},"retry":{"steps":["100ms"]},"url":"`
	r.registerTraced(client, body+hook.URL+`/secret-path?token=secret-query"}`)
	testenv.Eventually(t, patience, func() bool { return r.state("t", "a") == "delivered" }, "the job is delivered")
	if err := r.shutdown(); err != nil {
		t.Fatal(err)
	}

	registered, attempts, waits := c.named("POST /v1/jobs"), c.named("POST"), c.named("wait")
	if len(registered) != 1 || len(attempts) != 2 || len(waits) != 2 {
		t.Fatalf("%d registrations, %d attempts, %d waits", len(registered), len(attempts), len(waits))
	}
	if got := hex.EncodeToString(registered[0].GetTraceId()) + hex.EncodeToString(registered[0].GetParentSpanId()); got != client[3:35]+client[36:52] {
		t.Errorf("the registration is under %s", got)
	}
	for _, s := range slices.Concat(attempts, waits) {
		if !bytes.Equal(s.GetTraceId(), registered[0].GetTraceId()) || !bytes.Equal(s.GetParentSpanId(), registered[0].GetSpanId()) {
			t.Errorf("%s is not under the registration", s.GetName())
		}
	}
	for i, s := range attempts {
		if want := client[:36] + hex.EncodeToString(s.GetSpanId()) + "-01"; told[i] != want {
			t.Errorf("attempt %d tells the receiver of %s, want %s", i+1, told[i], want)
		}
	}
	if s := []trace.Status_StatusCode{attempts[0].GetStatus().GetCode(), attempts[1].GetStatus().GetCode()}; s[0] != trace.Status_STATUS_CODE_ERROR || s[1] == s[0] {
		t.Errorf("statuses %v", s)
	}
	for _, secret := range []string{"secret-path", "secret-query", "4111"} {
		if bytes.Contains(c.raw.Bytes(), []byte(secret)) {
			t.Errorf("the traces hold %s", secret)
		}
	}
	if !c.services["duehook"] {
		t.Errorf("services %v", c.services)
	}
}

// registerTraced registers a job under a trace context.
func (r *running) registerTraced(traceparent, body string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.base+"/v1/jobs", bytes.NewReader([]byte(body)))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", traceparent)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusCreated {
		r.t.Fatalf("registered: %d", resp.StatusCode)
	}
}

// What asks for traces in a way that is not understood is told at the start.
func TestTracesThatAreNotSupported(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	err := Run(t.Context(), Options{Config: embedded(t, t.TempDir()), Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte("OTEL_EXPORTER_OTLP_PROTOCOL")) {
		t.Errorf("error %v", err)
	}
}
