package v1

import (
	"context"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
)

// tracing makes an API record spans.
func tracing(t *testing.T, o ...sdktrace.TracerProviderOption) (*api, *tracetest.SpanRecorder) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(append(o, sdktrace.WithSpanProcessor(recorder))...)
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	return newAPI(t, func(o *testOptions) { o.Tracer = provider.Tracer("test") }), recorder
}

const clientTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// Jobs keep the span of the request that registered them, which is the client's
// child.
func TestRegistrationsAreSpans(t *testing.T) {
	a, spans := tracing(t)
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"a","url":"https://shop.example/hook","delay":60}`, "Traceparent", clientTrace)
	a.want(200, "POST", "/v1/jobs/batch", `{"jobs":[{"topic":"t","id":"b","url":"https://shop.example/hook","delay":60}]}`)
	a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/jobs", `{}`, "Traceparent", "00-zz")
	a.want(200, "GET", "/v1/jobs/t/a", "")
	ended := spans.Ended()
	if len(ended) != 3 {
		t.Fatalf("%d spans", len(ended))
	}
	for i, want := range []struct{ name, job, target, status string }{
		{"POST /v1/jobs", "a", "t/a", "201"}, {"POST /v1/jobs/batch", "b", "1 jobs", "200"}, {"POST /v1/jobs", "", "", "422"},
	} {
		span := ended[i]
		got := map[string]string{}
		for _, attribute := range span.Attributes() {
			got[string(attribute.Key)] = attribute.Value.String()
		}
		if span.Name() != want.name || got["duehook.target"] != want.target || got["http.response.status_code"] != want.status {
			t.Errorf("%s: %v", span.Name(), got)
		}
		if want.job == "" {
			continue
		}
		kept := a.stored("t", want.job).Spec.Traceparent
		if own := span.SpanContext(); kept != "00-"+own.TraceID().String()+"-"+own.SpanID().String()+"-01" {
			t.Errorf("%s keeps %s", want.job, kept)
		}
	}
	if parent := ended[0].Parent(); parent.TraceID().String() != clientTrace[3:35] || parent.SpanID().String() != clientTrace[36:52] {
		t.Errorf("the registration is under %v", parent)
	}
	if ended[2].Parent().IsValid() {
		t.Errorf("an invalid parent was taken")
	}
}

// Without a span of its own, a job keeps what the client sent.
func TestUnsampledRegistrations(t *testing.T) {
	a, spans := tracing(t, sdktrace.WithSampler(sdktrace.NeverSample()))
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"a","url":"https://shop.example/hook","delay":60}`, "Traceparent", clientTrace)
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"b","url":"https://shop.example/hook","delay":60}`)
	for id, want := range map[string]string{"a": clientTrace, "b": ""} {
		if got := a.stored("t", id).Spec.Traceparent; got != want {
			t.Errorf("%s keeps %q, want %q", id, got, want)
		}
	}
	if n := len(spans.Ended()); n != 0 {
		t.Errorf("%d spans", n)
	}
}

// Failures of the server are errors of the span; a client's are not.
func TestFailedRegistrationsAreSpans(t *testing.T) {
	a, spans := tracing(t)
	a.faults.set(func() error { return job.ErrInFlight })
	a.wantProblem(httpapi.CodeJobInFlight, "POST", "/v1/jobs", `{"url":"https://shop.example/hook"}`)
	a.faults.set(func() error { return context.DeadlineExceeded })
	a.wantProblem(httpapi.CodeStoreUnavailable, "POST", "/v1/jobs", `{"url":"https://shop.example/hook"}`)
	ended := spans.Ended()
	if len(ended) != 2 || ended[0].Status().Code.String() != "Unset" || ended[1].Status().Code.String() != "Error" {
		t.Errorf("%d spans", len(ended))
	}
}
