package dispatcher

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/duehook/duehook/internal/job"
)

// spans creates the spans of attempts; nil creates none. They contain no path, query or
// body.
type spans struct{ tracer oteltrace.Tracer }

func newSpans(tracer oteltrace.Tracer) *spans {
	if tracer == nil {
		return nil
	}
	return &spans{tracer}
}

// span is that of one attempt; nil is none.
type span struct {
	oteltrace.Span
	started time.Time
}

// begin starts the span of an attempt as a child of the job's registration. A sibling span
// covers the wait before it.
func (s *spans) begin(ctx context.Context, j *job.Job, a *job.Attempt) *span {
	if s == nil {
		return nil
	}
	started := a.StartedAt.Time()
	of := []attribute.KeyValue{
		attribute.String("duehook.topic", j.Topic), attribute.String("duehook.job_id", j.ID),
		attribute.String("duehook.uid", j.UID), attribute.Int("duehook.attempt", a.Number),
	}
	if j.Spec.Traceparent != "" {
		registration := propagation.MapCarrier{"traceparent": j.Spec.Traceparent, "tracestate": j.Spec.Tracestate}
		ctx = propagation.TraceContext{}.Extract(ctx, registration)
		s.wait(ctx, j, started, of)
	}
	_, made := s.tracer.Start(ctx, j.Spec.HTTPMethod(), oteltrace.WithSpanKind(oteltrace.SpanKindClient),
		oteltrace.WithTimestamp(started), oteltrace.WithAttributes(of...), oteltrace.WithAttributes(server(j)...))
	return &span{made, started}
}

// wait creates the span of the wait: from the registration to the first attempt, or from
// the due time to a later one.
func (s *spans) wait(ctx context.Context, j *job.Job, until time.Time, of []attribute.KeyValue) {
	due := j.AttemptDue().Time()
	from := due
	if j.Attempts == 0 && j.Snoozes == 0 {
		from = j.CreatedAt.Time()
	}
	if from.After(until) {
		from = until
	}
	_, waited := s.tracer.Start(ctx, "wait", oteltrace.WithTimestamp(from), oteltrace.WithAttributes(of...))
	waited.SetAttributes(attribute.Int64("duehook.late_ms", until.Sub(due).Milliseconds()))
	waited.AddEvent("due", oteltrace.WithTimestamp(due))
	waited.End(oteltrace.WithTimestamp(until))
}

// server returns the attributes of the destination, without its path.
func server(j *job.Job) []attribute.KeyValue {
	of := []attribute.KeyValue{attribute.String("http.request.method", j.Spec.HTTPMethod())}
	u, err := url.Parse(j.Lane().Endpoint)
	if err != nil {
		return of
	}
	port, _ := strconv.Atoi(u.Port())
	return append(of, attribute.String("url.scheme", u.Scheme),
		attribute.String("server.address", u.Hostname()), attribute.Int("server.port", port))
}

// traceID is the trace of a span that is recorded, or empty.
func (s *span) traceID() string {
	if s == nil || !s.SpanContext().IsSampled() {
		return ""
	}
	return s.SpanContext().TraceID().String()
}

// inject makes the receiver's spans children of the attempt's.
func (s *span) inject(h http.Header) {
	if s == nil {
		return
	}
	ctx := oteltrace.ContextWithSpanContext(context.Background(), s.SpanContext())
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
}

// end ends the span with the outcome.
func (s *span) end(o *job.Outcome) {
	if s == nil {
		return
	}
	s.SetAttributes(attribute.String("duehook.outcome", outcomeNames[o.Kind]))
	ended := s.started
	if a := o.Attempt; a != nil {
		ended = ended.Add(a.Duration)
		if a.ConnectRetries > 0 {
			s.SetAttributes(attribute.Int("http.request.resend_count", a.ConnectRetries))
		}
		if a.Status != 0 {
			s.SetAttributes(attribute.Int("http.response.status_code", a.Status))
		}
		if a.Error != "" {
			s.SetAttributes(attribute.String("error.type", a.Error))
			s.SetStatus(codes.Error, "")
		}
	} else {
		s.SetStatus(codes.Error, o.Reason)
	}
	s.End(oteltrace.WithTimestamp(ended))
}
