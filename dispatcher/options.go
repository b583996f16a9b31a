package dispatcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/job/contract"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
)

// Defaults of Options.
const (
	DefaultWorkers         = 512
	DefaultTimeout         = 15 * time.Second // Standard Webhooks advises 15 to 30 seconds
	DefaultLeaseMargin     = 10 * time.Second
	DefaultGrace           = 15 * time.Second
	DefaultBreakerFailures = 20
	DefaultBreakerOpen     = 10 * time.Second
	DefaultBreakerProbes   = 3
	DefaultCatchUpRate     = 100
	DefaultConnectRetries  = MaxConnectRetries
	// DefaultCallbackResponse is in bytes.
	DefaultCallbackResponse = 4 << 10
)

// The parts of a lease that are not the request itself.
const (
	// startAllowance is how long after the claim a request may start.
	startAllowance = 2 * time.Second
	// settleReserve is the time for settling after the request's deadline.
	settleReserve = 3 * time.Second
	// MinLeaseMargin is the least by which a lease must outlast the request.
	MinLeaseMargin = startAllowance + settleReserve
)

// ErrLease reports a lease that could expire before its request is settled: a second worker
// would send the same job.
var ErrLease = errors.New("lease too short")

// Store is the part of a store that the dispatcher needs. The interfaces of package store
// document the methods.
type Store interface {
	store.Reader
	Take(ctx context.Context, shard int, o store.TakeOptions) (store.Taken, error)
	Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error)
	SetCircuit(ctx context.Context, endpoint string, to store.CircuitState, d time.Duration) error
	Update(ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error) (job.Job, error)
	Publish(ctx context.Context, channel string, message []byte) error
	Listen(ctx context.Context, channel string, receive func(message []byte)) error
}

// Signer returns the webhook-signature header of an attempt.
type Signer interface {
	// Sign signs the body sent for topic with the webhook-id id at the time at.
	// After an error the job is released for later; it uses no attempt.
	Sign(ctx context.Context, topic, id string, at time.Time, body []byte) (string, error)
}

// Layer lies between deliveries and the network. The dev server has one, because its clock does
// not run like that of receivers.
type Layer interface {
	// RoundTrip answers a request, or passes it on.
	RoundTrip(req *http.Request, network http.RoundTripper) (*http.Response, error)
	// Bound limits an attempt to d, in place of context.WithTimeout.
	Bound(ctx context.Context, endpoint string, d time.Duration) (context.Context, context.CancelFunc)
	// Stamp is the webhook-timestamp of an attempt that starts at a time.
	Stamp(at job.Instant) job.Instant
}

// Options of a Dispatcher. Only Store has no default.
type Options struct {
	Store   Store
	Clock   job.Clock             // nil: the machine's
	Logger  *slog.Logger          // nil: none
	Metrics prometheus.Registerer // nil: metrics are not registered
	ID      string                // names the worker in store.Outlook and job.Attempt
	Version string                // sent to receivers in User-Agent; empty: "dev"

	// Limits are those of jobs in flight in the whole store. A HalfOpenLimit of zero is BreakerProbes.
	Limits store.FlightLimits
	// Workers is the most requests in flight, spread evenly over the store's shards,
	// at least one each. Zero: DefaultWorkers.
	Workers int
	// Timeout bounds one attempt of a job without a timeout of its own, from
	// dialling to the last byte read. Zero: DefaultTimeout.
	Timeout time.Duration
	// LeaseMargin is how much longer than its own timeout the lease of a job is. Zero:
	// DefaultLeaseMargin.
	LeaseMargin time.Duration
	// Lease is the lease of the other jobs. Zero: Timeout plus LeaseMargin.
	Lease time.Duration
	// Policy is the retry policy of jobs without one of their own. Without
	// steps: retrypolicy.Default.
	Policy retrypolicy.Policy
	// Grace is how long Run may take to end after its context. It aborts requests a
	// fifth of it before the end, 2 s at most, so that all can be settled. Zero:
	// DefaultGrace.
	Grace time.Duration

	// ConnectRetries is how often an attempt connects again at once if its request
	// was surely not sent, MaxConnectRetries at most. Zero: DefaultConnectRetries;
	// negative: never.
	ConnectRetries int

	// Transport replaces the network and the guard, for simulations. Nil: the network.
	Transport http.RoundTripper
	// Layer lies between deliveries and the network; nil: there is none.
	Layer Layer
	// Random returns numbers from 0 up to 1 that spread pauses and retries. It is safe
	// for concurrent use. Nil: math/rand/v2.
	Random func() float64
	// AllowCIDRs opens ranges that the guard refuses by default.
	AllowCIDRs []netip.Prefix
	// Resolver resolves names; nil: Go's own, with the machine's configuration.
	Resolver *net.Resolver
	// Tracer creates spans of attempts; nil: there are none.
	Tracer oteltrace.Tracer
	// RenderCallback makes the body of a callback from its report, in its form. Nil: callbacks fail.
	RenderCallback func(callback *job.Job) ([]byte, error)
	// CallbackResponse is how much of an answer callbacks contain, in bytes. Zero:
	// DefaultCallbackResponse; negative: nothing.
	CallbackResponse int
	// TopicTimeout returns the timeout that the jobs of a topic get without one of their own; zero:
	// Timeout. A shorter one of a job that passes is no evidence against its endpoint. Nil: topics
	// have none.
	TopicTimeout func(topic string) time.Duration
	// Weight returns the weight of a topic. Nil: all have the same.
	Weight func(topic string) int
	// Contracts are those of the dialects of the API, by their names.
	Contracts map[string]*contract.Dialect
	// Signer signs requests; nil: requests are not signed.
	Signer Signer

	// BreakerFailures is the number of failures in a row that opens an endpoint's
	// circuit. Zero: DefaultBreakerFailures; negative: there are no circuits.
	BreakerFailures int
	// BreakerOpen is how long a circuit stays open. Zero: DefaultBreakerOpen.
	BreakerOpen time.Duration
	// BreakerProbes is how many requests a half-open circuit allows, and how many
	// must succeed before it closes. Zero: DefaultBreakerProbes.
	BreakerProbes int

	// CatchUpRate is how many retries per second and endpoint are advanced after an
	// outage of the endpoint that outlasted their first step. Zero: DefaultCatchUpRate;
	// negative: none.
	CatchUpRate int
}

// Validate reports invalid options. For a short lease the error wraps ErrLease.
func (o Options) Validate() error {
	o = o.withDefaults()
	switch {
	case o.Store == nil:
		return errors.New("dispatcher: no store")
	case o.Workers < 0, o.Timeout < 0, o.Grace < 0, o.BreakerOpen < 0, o.BreakerProbes < 0:
		return errors.New("dispatcher: workers, timeout, grace and breaker settings cannot be negative")
	case o.LeaseMargin < MinLeaseMargin:
		return fmt.Errorf("%w: the margin of %v must be at least %v, for starting and settling",
			ErrLease, o.LeaseMargin, MinLeaseMargin)
	case o.Lease < o.Timeout+MinLeaseMargin:
		return fmt.Errorf("%w: with a request timeout of %v it must be at least %v, not %v",
			ErrLease, o.Timeout, o.Timeout+MinLeaseMargin, o.Lease)
	}
	if err := o.Policy.Validate(); err != nil {
		return fmt.Errorf("dispatcher: %w", err)
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.Clock = cmp.Or(o.Clock, job.SystemClock())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Random == nil {
		o.Random = rand.Float64
	}
	o.Version = cmp.Or(o.Version, "dev")
	o.Workers = cmp.Or(o.Workers, DefaultWorkers)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.LeaseMargin = cmp.Or(o.LeaseMargin, DefaultLeaseMargin)
	o.Lease = cmp.Or(o.Lease, o.Timeout+o.LeaseMargin)
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	if o.Policy.Steps == nil {
		o.Policy = retrypolicy.Default()
	}
	o.BreakerFailures = cmp.Or(o.BreakerFailures, DefaultBreakerFailures)
	o.BreakerOpen = cmp.Or(o.BreakerOpen, DefaultBreakerOpen)
	o.BreakerProbes = cmp.Or(o.BreakerProbes, DefaultBreakerProbes)
	o.Limits.HalfOpenLimit = cmp.Or(o.Limits.HalfOpenLimit, o.BreakerProbes)
	o.CatchUpRate = cmp.Or(o.CatchUpRate, DefaultCatchUpRate)
	if o.TopicTimeout == nil {
		o.TopicTimeout = func(string) time.Duration { return 0 }
	}
	if o.Weight == nil {
		o.Weight = func(string) int { return store.DefaultWeight }
	}
	o.CallbackResponse = cmp.Or(o.CallbackResponse, DefaultCallbackResponse)
	o.ConnectRetries = cmp.Or(o.ConnectRetries, DefaultConnectRetries)
	return o
}
