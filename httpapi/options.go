package httpapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/memory"
)

// DefaultMemory is the usual budget for requests, in bytes.
const DefaultMemory = 128 << 20

// Options are the settings of a Server. Only Ready is required.
type Options struct {
	// Dialects are the APIs that the server speaks. Their paths must differ.
	Dialects []Dialect
	// Wrap may answer requests of other protocols by calls of the API; nil: there are none. known returns an
	// error for a request whose caller no call would admit: nothing large must be read of it. Otherwise it returns the
	// request with its caller in the context: calls with that context authenticate nobody again.
	Wrap func(api http.Handler, known func(*http.Request) (*http.Request, error)) http.Handler
	// Ready reports whether the store can serve; its errors are those of
	// store.Store.Ping.
	Ready func(ctx context.Context) error
	// Clock paces draining; nil means the machine's.
	Clock job.Clock
	// Logger gets access lines at debug level, audit lines at info level, and panics
	// with their stacks; nil means none.
	Logger *slog.Logger
	// Access checks API keys. Nil: no key is needed, and everybody may do everything
	// except manage keys.
	Access Access
	// Dashboard serves pages for browsers beside the API; nil means none.
	Dashboard Dashboard
	// Tracer makes spans of registrations; nil makes none.
	Tracer trace.Tracer
	// LocalHosts refuses requests whose Host is neither localhost nor an IP address. A
	// server on loopback without Access needs it against DNS rebinding: a page of
	// another site can make its own name resolve to 127.0.0.1.
	LocalHosts bool
	// TLS serves HTTPS and provides the certificate; nil serves HTTP.
	TLS *tls.Config
	// Metrics is the registry that /metrics shows, the API's own metrics included; nil: one
	// of the API's own.
	Metrics *prometheus.Registry

	// Stuck names what delivery has failed to do for long; /readyz answers 503 then.
	// Empty: nothing. Nil: not checked.
	Stuck func() string

	// Memory bounds what requests hold; nil: a budget of DefaultMemory bytes.
	Memory *memory.Budget
	// Connections bounds the connections of clients; zero: no bound. Beyond it, the one that has been idle for longest is
	// closed.
	Connections int

	// RequestTimeout bounds the work on one request; zero means 10 s.
	RequestTimeout time.Duration
	// DrainDelay is how long Serve still accepts requests after its context ended. /readyz
	// answers 503 meanwhile, so that load balancers stop sending. Zero: not at all.
	DrainDelay time.Duration
	// DrainTimeout bounds the wait for requests in progress when Serve ends; zero means
	// 15 s.
	DrainTimeout time.Duration
}

func (o *Options) setDefaults() error {
	if o.Ready == nil {
		return errors.New("httpapi: Options.Ready is missing")
	}
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Metrics = cmp.Or(o.Metrics, prometheus.NewRegistry())
	o.Memory = cmp.Or(o.Memory, memory.New(DefaultMemory, o.Clock))
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 10*time.Second)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 15*time.Second)
	return nil
}
