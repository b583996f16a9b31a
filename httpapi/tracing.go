package httpapi

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/duehook/duehook/job"
)

// traced makes a span for each request that registers jobs, below the client's span.
func (s *Server) traced(rt *served) func(*Call) error {
	return func(c *Call) error {
		ctx := c.Context()
		if parent := clientParent(c.Request.Header); parent != "" {
			ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent})
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

// clientParent is the client's trace context if it is valid.
func clientParent(h http.Header) string {
	if parent := h.Values("Traceparent"); len(parent) == 1 && job.ValidTraceparent(parent[0]) {
		return parent[0]
	}
	return ""
}

// Traceparent is the trace context that the call's jobs keep: that of its span if it is
// recorded, otherwise the client's.
func (c *Call) Traceparent() string {
	ctx := c.Context()
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() && !span.IsRemote() {
		own := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, own)
		return own["traceparent"]
	}
	return clientParent(c.Request.Header)
}
