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
	"github.com/duehook/duehook/internal/services/recent"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
)

// Store is what the API needs of a store. Every store.Store is one.
type Store interface {
	Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error)
	Update(ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error) (job.Job, error)
	store.Reader
	Ping(ctx context.Context) error
}

// Access is what the API needs of the keys. An *access.Keyring is one.
type Access interface {
	Authenticate(authorization string) (access.Principal, error)
	Take(p access.Principal) access.Quota
	Create(ctx context.Context, d access.Draft) (access.Token, access.Key, error)
	List(ctx context.Context) ([]access.Key, error)
	Revoke(ctx context.Context, id string) error
}

// Options are the settings of a Server. Only Store has no default.
type Options struct {
	Store Store
	// Clock gives the time in uids; nil means the machine's. It decides
	// nothing about jobs: the store's clock does.
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
	// Topics keeps settings of topics; nil: there are none.
	Topics Topics
	// Dashboard serves pages for browsers beside the API; nil means none.
	Dashboard Dashboard
	// Restoring puts back what the store lost; nil means that there is no journal.
	Restoring store.Restoring
	// Events are what happens to jobs; nil means that there is no stream of them.
	Events Events
	// Endpoints tries and tests endpoints; nil: nobody can.
	Endpoints Endpoints
	// Recent is what was attempted lately; nil: nothing was.
	Recent Recent
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

	// Limits are those by which jobs are judged; zero values mean a body of
	// 256 KiB and an attempt of 60 s.
	Limits job.Limits
	// MaxBatchBytes bounds the request of a batch registration; zero means
	// 16 MiB.
	MaxBatchBytes int64
	// Policy is the server's retry policy, which decides max_attempts of a job
	// without its own.
	Policy retrypolicy.Policy
	// Carry is what the carriers of the store are told, by which jobs that wait
	// are explained.
	Carry store.CarryOptions
	// CheckURL refuses destinations at registration, with an error for the
	// log; nil refuses none.
	CheckURL func(rawURL string) error

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
	if o.Store == nil {
		return errors.New("httpapi: Options.Store is missing")
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
	if o.Endpoints == nil {
		o.Endpoints = noEndpoints{}
	}
	if o.Recent == nil {
		o.Recent = recent.New(recent.Options{})
	}
	o.Limits.MaxBody = cmp.Or(o.Limits.MaxBody, 256<<10)
	o.Limits.MaxTimeout = cmp.Or(o.Limits.MaxTimeout, time.Minute)
	o.MaxBatchBytes = cmp.Or(o.MaxBatchBytes, 16<<20)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 10*time.Second)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 15*time.Second)
	return nil
}
