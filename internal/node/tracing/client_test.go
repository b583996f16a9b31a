package tracing

import (
	"compress/gzip"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// env makes a lookup of "NAME=value" pairs without the common prefix.
func env(pairs ...string) func(string) string {
	return func(name string) string {
		for _, pair := range pairs {
			if key, value, _ := strings.Cut(pair, "="); "OTEL_EXPORTER_OTLP_"+key == name {
				return value
			}
		}
		return ""
	}
}

// spans are one batch with a name to recognize it by.
func spans(name string) []*tracepb.ResourceSpans {
	return []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{{Name: name}}}}}}
}

func TestEndpoint(t *testing.T) {
	for pair, want := range map[string]string{
		"ENDPOINT=http://a:4318":               "http://a:4318/v1/traces",
		"ENDPOINT=https://a/base/":             "https://a/base/v1/traces",
		"TRACES_ENDPOINT=http://a:4318/custom": "http://a:4318/custom",
		"ENDPOINT=a:4318":                      "OTEL_EXPORTER_OTLP_ENDPOINT",
		"TRACES_ENDPOINT=grpc://a:4317":        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
	} {
		got, err := endpoint(env(pair))
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: %s, want %s", pair, got, want)
		}
	}
}

func TestClientRefusesBadSettings(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, pair := range []string{"HEADERS=hunter2", "HEADERS=a=%zz", "TIMEOUT=1s", "TIMEOUT=0", "CERTIFICATE=" + empty, "CERTIFICATE=/nowhere.pem", "CLIENT_CERTIFICATE=" + empty} {
		_, err := newClient(env("ENDPOINT=http://a", pair))
		name, value, _ := strings.Cut(pair, "=")
		if err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_"+name) {
			t.Errorf("%s: %v", pair, err)
		}
		if name == "HEADERS" && strings.Contains(err.Error(), value) {
			t.Errorf("the error shows a header: %v", err)
		}
	}
}

// A collector that is overloaded gets the same spans again, compressed and with
// the headers, over a connection that its certificate secures.
func TestUploadRetries(t *testing.T) {
	var got []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		body, err := io.ReadAll(unzipped)
		if err != nil {
			t.Error(err)
		}
		var data tracepb.TracesData
		if err := proto.Unmarshal(body, &data); err != nil {
			t.Error(err)
		}
		got = append(got, r.Header.Get("X-Tenant")+" "+data.ResourceSpans[0].ScopeSpans[0].Spans[0].Name)
		if len(got) == 1 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of the handshake that fails below
	server.StartTLS()
	defer server.Close()
	authority := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(authority, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := newClient(env("ENDPOINT="+server.URL, "COMPRESSION=gzip", "CERTIFICATE="+authority, "HEADERS=x-tenant=a%20b"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.UploadTraces(t.Context(), spans("one")); err != nil {
		t.Error(err)
	}
	if want := "a b one, a b one"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	other, err := newClient(env("ENDPOINT=" + server.URL))
	if err != nil {
		t.Fatal(err)
	}
	other.http.RetryMax = 0
	if err := other.UploadTraces(t.Context(), spans("two")); err == nil {
		t.Error("a certificate of an unknown authority was accepted")
	}
}

// A refusal is final, and the error shows the collector's reason.
func TestUploadReportsRefusals(t *testing.T) {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		http.Error(w, "unknown tenant", http.StatusForbidden)
	}))
	defer server.Close()
	c, err := newClient(env("ENDPOINT=" + server.URL))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Stop(t.Context()) }()
	err = c.UploadTraces(t.Context(), spans("one"))
	if err == nil || !strings.Contains(err.Error(), "unknown tenant") || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}
