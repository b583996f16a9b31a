package dispatcher

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/duehook/duehook/internal/job"
)

const registered = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// traces records spans.
func traces(t testing.TB, o ...sdktrace.TracerProviderOption) (*tracetest.SpanRecorder, *sdktrace.TracerProvider) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(append(o, sdktrace.WithSpanProcessor(recorder))...)
	t.Cleanup(func() {
		if err := provider.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return recorder, provider
}

// attributes are those of a span, as text.
func attributes(s sdktrace.ReadOnlySpan) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes() {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

// Each attempt is a span under that of the registration, the receiver is told of
// it, and what was waited for is a span beside it.
func TestAttemptsAreSpans(t *testing.T) {
	url, requests := recorder(t)
	spans, provider := traces(t)
	s := realSender(t, Options{AllowCIDRs: loopback(), Tracer: provider.Tracer("test")})
	j := newJob("order-1", url+"/hook?token=secret")
	j.Spec.Traceparent = registered
	c := claimOf(j)
	c.Job.CreatedAt, c.Job.DueAt, c.Job.NextAt = c.Now.Add(-time.Hour), c.Now.Add(-time.Second), c.Now.Add(-time.Second)
	o, _ := s.send(t.Context(), c)
	sent := next(t, requests, "request").header.Get("traceparent")

	ended := spans.Ended()
	if len(ended) != 2 {
		t.Fatalf("%d spans", len(ended))
	}
	wait, attempt := ended[0], ended[1]
	for _, span := range ended {
		if got := span.Parent().TraceID().String() + span.Parent().SpanID().String(); got != registered[3:35]+registered[36:52] {
			t.Errorf("%s is a child of %s", span.Name(), got)
		}
	}
	if want := fmt.Sprintf("00-%s-%s-01", registered[3:35], attempt.SpanContext().SpanID()); sent != want {
		t.Errorf("the receiver is told of %s, want %s", sent, want)
	}
	if attempt.Name() != "POST" || wait.Name() != "wait" {
		t.Errorf("the spans are %s and %s", attempt.Name(), wait.Name())
	}
	start := o.Attempt.StartedAt.Time()
	if !attempt.StartTime().Equal(start) || attempt.EndTime().Sub(start) != o.Attempt.Duration {
		t.Errorf("the attempt's span is from %v to %v; it began %v and took %v", attempt.StartTime(), attempt.EndTime(), start, o.Attempt.Duration)
	}
	if !wait.StartTime().Equal(c.Job.CreatedAt.Time()) || !wait.EndTime().Equal(start) || !wait.Events()[0].Time.Equal(c.Job.DueAt.Time()) {
		t.Errorf("the wait is from %v to %v, due %v", wait.StartTime(), wait.EndTime(), wait.Events())
	}
	got := attributes(attempt)
	for name, want := range map[string]string{
		"duehook.topic": j.Topic, "duehook.job_id": "order-1", "duehook.attempt": "1", "duehook.outcome": "delivered",
		"http.request.method": "POST", "http.response.status_code": "200", "server.address": "127.0.0.1", "url.scheme": "http",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

// Spans tell of failures; a retry has waited since it was due.
func TestFailuresAreSpans(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	for name, want := range map[string]map[string]string{
		"status":  {"error.type": "http_502", "http.response.status_code": "502", "duehook.outcome": "failed"},
		"refused": {"error.type": classBlocked, "duehook.outcome": "refused"},
	} {
		spans, provider := traces(t)
		options := Options{Tracer: provider.Tracer("test")}
		if name == "status" {
			options.AllowCIDRs = loopback()
		}
		c := claimOf(newJob("a", url))
		c.Job.Spec.Traceparent, c.Job.Attempts = registered, 1
		c.Job.CreatedAt, c.Job.DueAt, c.Job.NextAt = c.Now.Add(-time.Hour), c.Now.Add(-time.Hour), c.Now.Add(-time.Minute)
		_, _ = realSender(t, options).send(t.Context(), c) // the spans tell
		ended := spans.Ended()
		if len(ended) != 2 || !ended[0].StartTime().Equal(c.Job.NextAt.Time()) {
			t.Fatalf("%s: %d spans, the first from %v", name, len(ended), ended[0].StartTime())
		}
		got := attributes(ended[1])
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s: %s is %q, want %q", name, key, got[key], value)
			}
		}
		if ended[1].Status().Code.String() != "Error" {
			t.Errorf("%s: status %v", name, ended[1].Status())
		}
	}
}

// A job that was registered without a trace context begins a trace of its own.
func TestAttemptsWithoutATraceBeginOne(t *testing.T) {
	url, requests := recorder(t)
	spans, provider := traces(t)
	s := realSender(t, Options{AllowCIDRs: loopback(), Tracer: provider.Tracer("test")})
	_, _ = s.send(t.Context(), claimOf(newJob("a", url))) // the spans tell
	ended := spans.Ended()
	if len(ended) != 1 || ended[0].Parent().IsValid() {
		t.Fatalf("%d spans", len(ended))
	}
	if sent := next(t, requests, "request").header.Get("traceparent"); !job.ValidTraceparent(sent) {
		t.Errorf("the receiver is told of %q", sent)
	}
}

// What is not sampled is not recorded, and goes on under the same trace.
func TestUnsampledTraces(t *testing.T) {
	url, requests := recorder(t)
	spans, provider := traces(t, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())))
	s := realSender(t, Options{AllowCIDRs: loopback(), Tracer: provider.Tracer("test")})
	c := claimOf(newJob("a", url))
	c.Job.Spec.Traceparent = registered[:53] + "00"
	_, _ = s.send(t.Context(), c) // the spans tell
	if n := len(spans.Ended()); n != 0 {
		t.Errorf("%d spans", n)
	}
	sent := next(t, requests, "request").header.Get("traceparent")
	if !job.ValidTraceparent(sent) || sent[:35] != registered[:35] || sent[53:] != "00" {
		t.Errorf("the receiver is told of %q", sent)
	}
}

// A recorded attempt is an exemplar, and others are none.
func TestExemplars(t *testing.T) {
	url, _ := recorder(t)
	_, provider := traces(t, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())))
	for flags, want := range map[string]string{"01": registered[3:35], "00": ""} {
		s := realSender(t, Options{AllowCIDRs: loopback(), Tracer: provider.Tracer("test")})
		c := claimOf(newJob("a", url))
		c.Job.Spec.Traceparent = registered[:53] + flags
		_, _ = s.send(t.Context(), c) // the trace shows it
		registry := prometheus.NewRegistry()
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Buckets: []float64{1}})
		registry.MustRegister(h)
		observe(h, time.Millisecond, c.traceID)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		found := ""
		for _, label := range families[0].GetMetric()[0].GetHistogram().GetBucket()[0].GetExemplar().GetLabel() {
			found += label.GetName() + "=" + label.GetValue()
		}
		if want != "" {
			want = "trace_id=" + want
		}
		if found != want {
			t.Errorf("flags %s: %q, want %q", flags, found, want)
		}
	}
}

// BenchmarkSpans is what tracing adds to an attempt: nothing when it is off.
func BenchmarkSpans(b *testing.B) {
	_, provider := traces(b, sdktrace.WithSampler(sdktrace.NeverSample()))
	batched := sdktrace.NewTracerProvider(sdktrace.WithBatcher(tracetest.NewNoopExporter()))
	b.Cleanup(func() { _ = batched.Shutdown(context.Background()) })
	for name, s := range map[string]*spans{
		"off": newSpans(nil), "unsampled": newSpans(provider.Tracer("test")), "on": newSpans(batched.Tracer("test")),
	} {
		b.Run(name, func(b *testing.B) {
			j := newJob("a", "https://shop.example/hook")
			j.Spec.Traceparent = registered
			a := &job.Attempt{Number: 1, StartedAt: 1_767_258_000_000, Duration: time.Millisecond, Status: http.StatusOK}
			o := job.Outcome{Kind: job.OutcomeDelivered, Attempt: a}
			h := http.Header{}
			b.ReportAllocs()
			for b.Loop() {
				span := s.begin(context.Background(), &j, a)
				span.inject(h)
				span.end(&o)
			}
		})
	}
}
