package tracing

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/duehook/duehook/internal/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWanted(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318"
	for environment, want := range map[string]string{
		"":       "off",
		endpoint: "on",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:4318/v1/traces":                                       "on",
		endpoint + " OTEL_SDK_DISABLED=TRUE":                                                                       "off",
		endpoint + " OTEL_SDK_DISABLED=no":                                                                         "on",
		endpoint + " OTEL_TRACES_EXPORTER=none":                                                                    "off",
		endpoint + " OTEL_TRACES_EXPORTER=otlp":                                                                    "on",
		endpoint + " OTEL_TRACES_EXPORTER=zipkin":                                                                  "OTEL_TRACES_EXPORTER",
		endpoint + " OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf":                                                    "on",
		endpoint + " OTEL_EXPORTER_OTLP_PROTOCOL=grpc":                                                             "OTEL_EXPORTER_OTLP_PROTOCOL",
		endpoint + " OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf":            "on",
		"OTEL_TRACES_EXPORTER=zipkin OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_SERVICE_NAME=x OTEL_TRACES_SAMPLER=bad": "off",
	} {
		on, err := wanted(func(name string) string {
			for pair := range strings.FieldsSeq(environment) {
				if key, value, _ := strings.Cut(pair, "="); key == name {
					return value
				}
			}
			return ""
		})
		got := map[bool]string{true: "on", false: "off"}[on]
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", environment, got, want)
		}
	}
}

func options(log *slog.Logger) Options {
	return Options{Getenv: os.Getenv, Version: "1", ID: "node", Clock: job.SystemClock(), Logger: log}
}

// Without an endpoint there is nothing, which can be used.
func TestOff(t *testing.T) {
	p, err := Open(t.Context(), options(nil))
	if p != nil || err != nil {
		t.Fatalf("%v, %v", p, err)
	}
	if p.Tracer() != nil || p.Close(t.Context()) != nil {
		t.Error("nothing does something")
	}
}

// The last spans are exported at the end, with the headers that are set.
func TestExports(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/base/v1/traces" && r.Header.Get("X-Tenant") == "acme" {
			requests.Add(1)
		}
	}))
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL+"/base")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=acme")
	p, err := Open(t.Context(), options(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	_, span := p.Tracer().Start(context.Background(), "a")
	span.End()
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if requests.Load() != 1 {
		t.Errorf("%d requests", requests.Load())
	}
}

// That exporting fails is logged once in a while.
func TestComplaints(t *testing.T) {
	var log bytes.Buffer
	clock := &handClock{now: time.Unix(1_767_258_000, 0)}
	c := &complaints{clock: clock, log: slog.New(slog.NewTextHandler(&log, nil))}
	for range 5 {
		c.Handle(errors.New("connection refused"))
		clock.now = clock.now.Add(complainEvery / 2)
	}
	if n := strings.Count(log.String(), "traces cannot be exported"); n != 3 {
		t.Errorf("logged %d times:\n%s", n, &log)
	}
}

// handClock is moved by hand.
type handClock struct {
	job.Clock
	now time.Time
}

func (c *handClock) Now() time.Time { return c.now }
