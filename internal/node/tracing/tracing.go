// Package tracing exports traces, as the standard OTEL_* variables of the
// environment say, over OTLP. Without an endpoint in them there is no tracing,
// and no cost.
package tracing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/duehook/duehook/internal/job"
)

// Options of Open. All are required.
type Options struct {
	Getenv  func(name string) string // the environment
	Version string
	ID      string // of the node
	Clock   job.Clock
	Logger  *slog.Logger
}

// complainEvery bounds how often failing to export is logged.
const complainEvery = time.Minute

// protocol is the encoding of OTLP that every collector accepts.
const protocol = "http/protobuf"

// Provider makes spans and exports them. The nil *Provider does nothing.
type Provider struct{ sdk *sdktrace.TracerProvider }

// Open gives nil without an error when nobody asks for traces.
func Open(ctx context.Context, o Options) (*Provider, error) {
	if wanted, err := wanted(o.Getenv); err != nil || !wanted {
		return nil, err
	}
	collector, err := newClient(o.Getenv)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	exporter, err := otlptrace.New(ctx, collector)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(
			attribute.String("service.name", "duehook"),
			attribute.String("service.version", o.Version),
			attribute.String("service.instance.id", o.ID),
		),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tracing: OTEL_RESOURCE_ATTRIBUTES: %w", err), exporter.Shutdown(ctx))
	}
	// The exporter has no other way to tell that it fails.
	otel.SetErrorHandler(&complaints{clock: o.Clock, log: o.Logger})
	return &Provider{sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))}, nil
}

// wanted says whether the environment names an endpoint, and refuses what it
// asks for beyond OTLP over HTTP.
func wanted(getenv func(string) string) (bool, error) {
	first := func(names ...string) string {
		values := make([]string, len(names))
		for i, name := range names {
			values[i] = strings.TrimSpace(getenv(name))
		}
		return cmp.Or(values...)
	}
	exporter := first("OTEL_TRACES_EXPORTER")
	switch {
	case first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT") == "",
		strings.EqualFold(first("OTEL_SDK_DISABLED"), "true"), exporter == "none":
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER %q is not supported: set otlp, or none", exporter)
	}
	if p := first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); p != "" && p != protocol {
		return false, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL %q is not supported: set %s, on port 4318 of most collectors", p, protocol)
	}
	return true, nil
}

// Tracer makes spans; nil without tracing.
func (p *Provider) Tracer() trace.Tracer {
	if p == nil {
		return nil
	}
	return p.sdk.Tracer("github.com/duehook/duehook")
}

// Close exports what is left.
func (p *Provider) Close(ctx context.Context) error {
	if p == nil {
		return nil
	}
	if err := p.sdk.Shutdown(ctx); err != nil {
		return fmt.Errorf("export the last traces: %w", err)
	}
	return nil
}

// complaints logs that exporting fails, now and then.
type complaints struct {
	clock job.Clock
	log   *slog.Logger

	mu   sync.Mutex
	last time.Time
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if now.Sub(c.last) < complainEvery {
		return
	}
	c.last = now
	c.log.Warn("traces cannot be exported", "error", err)
}
