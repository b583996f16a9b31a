package httpapi

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
)

// traced makes a span for each request that registers jobs, below the client's span.
func (s *Server) traced(rt *served) func(*Call) error {
	return func(c *Call) error {
		ctx := c.Context()
		if t := clientTrace(c.Request.Header); t.Parent != "" {
			ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{parentField: t.Parent, stateField: t.State})
		}
		ctx, span := s.opts.Tracer.Start(ctx, rt.Method+" "+rt.Path, trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(attribute.String("http.request.method", rt.Method), attribute.String("http.route", rt.Path)))
		defer span.End()
		c.Request = c.Request.WithContext(ctx)
		err := rt.Handle(c)
		status := c.context.Response().Status
		if err != nil {
			status = AsError(err).Code.Status
		}
		span.SetAttributes(attribute.Int("http.response.status_code", status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(otelcodes.Error, "")
		}
		if c.Target != "" {
			span.SetAttributes(attribute.String("duehook.target", c.Target))
		}
		return err
	}
}

// The fields of W3C Trace Context.
const (
	parentField = "traceparent"
	stateField  = "tracestate"
)

// clientTrace is the client's trace context. What is invalid of it is left out.
func clientTrace(h http.Header) (t app.Trace) {
	if parent := h.Values("Traceparent"); len(parent) == 1 && job.ValidTraceparent(parent[0]) {
		t.Parent, t.State = parent[0], job.TracestateOf(h.Values("Tracestate"))
	}
	return t
}

// Trace is the trace context that the call's jobs keep: that of its span if it is
// recorded, otherwise the client's.
func (c *Call) Trace() app.Trace {
	ctx := c.Context()
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() && !span.IsRemote() {
		own := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, own)
		return app.Trace{Parent: own[parentField], State: own[stateField]}
	}
	return clientTrace(c.Request.Header)
}
