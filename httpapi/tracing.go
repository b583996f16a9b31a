package httpapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/duehook/duehook/job"
)

// registrations are the calls that begin the life of a job.
var registrations = []string{"/v1/jobs", "/v1/jobs/batch"}

// traced makes a span of each request that registers jobs, under that of the
// client. Without tracing it is the handler itself.
func (s *Server) traced(rt route) func(*Server, echo.Context) error {
	if s.opts.Tracer == nil || rt.method != http.MethodPost || !slices.Contains(registrations, rt.path) {
		return rt.handle
	}
	return func(s *Server, c echo.Context) error {
		r := c.Request()
		ctx := r.Context()
		if parent := clientParent(r.Header); parent != "" {
			ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent})
		}
		ctx, span := s.opts.Tracer.Start(ctx, rt.method+" "+rt.path, trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(attribute.String("http.request.method", rt.method), attribute.String("http.route", rt.path)))
		defer span.End()
		c.SetRequest(r.WithContext(ctx))
		err := rt.handle(s, c)
		status := c.Response().Status
		if err != nil {
			status = codes[asAPIError(err).code].status
		}
		span.SetAttributes(attribute.Int("http.response.status_code", status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(otelcodes.Error, "")
		}
		if target, ok := c.Get(contextTarget).(string); ok {
			span.SetAttributes(attribute.String("duehook.target", target))
		}
		return err
	}
}

// clientParent is the trace context that the client sent, if it is valid.
func clientParent(h http.Header) string {
	if parent := h.Values(headerTraceparent); len(parent) == 1 && job.ValidTraceparent(parent[0]) {
		return parent[0]
	}
	return ""
}

// traceparentOf is what jobs keep of the request that registers them: its span
// if that is recorded, or else what the client sent.
func traceparentOf(ctx context.Context, h http.Header) string {
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() && !span.IsRemote() {
		own := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, own)
		return own["traceparent"]
	}
	return clientParent(h)
}
