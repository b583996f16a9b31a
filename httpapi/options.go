package httpapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/store"
)

// Access is what the API needs of the keys. An *access.Keyring is one.
type Access interface {
	Authenticate(authorization string) (access.Principal, error)
	Take(p access.Principal) access.Quota
	Create(ctx context.Context, d access.Draft) (access.Token, access.Key, error)
	List(ctx context.Context) ([]access.Key, error)
	Revoke(ctx context.Context, id string) error
}

// Options are the settings of a Server. Only Scheduler and Ready are required.
type Options struct {
	// Scheduler does what clients ask for.
	Scheduler *scheduler.Scheduler
	// Ready reports whether the store can serve; its errors are those of
	// store.Store.Ping.
	Ready func(ctx context.Context) error
	// Clock paces draining; nil means the machine's.
	Clock job.Clock
	// Logger gets access lines at debug level, audit lines at info level and
	// panics with their stacks; nil means none.
	Logger *slog.Logger
	// Access knows the API keys; nil asks nobody for one. Then everybody may do
	// everything except manage keys.
	Access Access
	// Signing knows the signing secrets; nil means that there is nothing to keep
	// them with.
	Signing Signing
	// Operations changes many jobs at once; nil: nothing does.
	Operations Operations
	// Alerts keeps alert rules and tells what fires; nil: nothing does.
	Alerts Alerts
	// Dashboard serves pages for browsers beside the API; nil means none.
	Dashboard Dashboard
	// Restoring puts back what the store lost; nil means that there is no journal.
	Restoring store.Restoring
	// Events are what happens to jobs; nil means that there is no stream of them.
	Events Events
	// Tracer makes spans of registrations; nil makes none.
	Tracer trace.Tracer
	// LocalHosts refuses requests whose Host is neither localhost nor an IP
	// address. A server on loopback without Access needs it: a page of another
	// site can make a name of its own resolve to 127.0.0.1, and would otherwise
	// count as one of this server's own.
	LocalHosts bool
	// TLS serves HTTPS; nil serves HTTP. It has to provide the certificate.
	TLS *tls.Config
	// Metrics is where the API's own metrics are registered, and Gatherer what
	// /metrics shows. With neither, the API has a registry of its own; with
	// Metrics alone it has to be a prometheus.Gatherer too.
	Metrics  prometheus.Registerer
	Gatherer prometheus.Gatherer

	// MaxBatchBytes bounds the request of a batch registration; zero means
	// 16 MiB.
	MaxBatchBytes int64
	// Stuck reports what delivery has failed to do for long, so that /readyz answers 503;
	// empty when nothing. Nil: it is not asked.
	Stuck func() string

	// RequestTimeout bounds the work on one request; zero means 10 s.
	RequestTimeout time.Duration
	// DrainDelay is how long, once Serve's context has ended, requests are
	// still taken while /readyz already answers 503, so that load balancers
	// turn away in time; zero means not at all.
	DrainDelay time.Duration
	// DrainTimeout bounds the wait for requests under way when Serve ends;
	// zero means 15 s.
	DrainTimeout time.Duration
}

func (o *Options) setDefaults() error {
	if o.Scheduler == nil || o.Ready == nil {
		return errors.New("httpapi: Options.Scheduler or Options.Ready is missing")
	}
	if o.Clock == nil {
		o.Clock = job.SystemClock()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil && o.Gatherer == nil {
		own := prometheus.NewRegistry()
		o.Metrics, o.Gatherer = own, own
	}
	if o.Gatherer == nil {
		gatherer, ok := o.Metrics.(prometheus.Gatherer)
		if !ok {
			return errors.New("httpapi: Options.Gatherer is missing, and Options.Metrics is none")
		}
		o.Gatherer = gatherer
	}
	o.MaxBatchBytes = cmp.Or(o.MaxBatchBytes, 16<<20)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 10*time.Second)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 15*time.Second)
	return nil
}
