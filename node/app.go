package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/duehook/duehook/carrier"
	"github.com/duehook/duehook/dispatcher"
	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/internal/services/events"
	"github.com/duehook/duehook/internal/services/recent"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/node/config"
	"github.com/duehook/duehook/node/dashboard"
	"github.com/duehook/duehook/node/tracing"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/scheduler/operations"
	"github.com/duehook/duehook/scheduler/topics"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/ledger"
)

// Options of Run.
type Options struct {
	Config  *config.Config // required
	Logger  *slog.Logger   // required
	Version string
	// Ready is called once the API is served and the store answers, with the API's
	// address as a URL.
	Ready func(base string)
	// Waiting is called instead when the API is served and the store does not answer
	// yet: err tells why. Ready follows. Nil: Ready does not wait.
	Waiting func(base string, err error)

	// Clock replaces the machine's. Speed says how many times as fast it runs
	// (zero: as fast): what guards against slow machines and networks, such as
	// leases, is stretched by it so as to last as long as without.
	Clock job.Clock
	Speed float64
}

// node is a duehook that is being put together.
type node struct {
	Options
	id      string // names this process in the journal
	host    string
	metrics *prometheus.Registry
	policy  retrypolicy.Policy
	guard   *dispatcher.Guard
	cert    *certificate // nil: plain HTTP
	store   store.Store
	// reconciler compares the store with its journal; nil: there is no journal.
	reconciler *ledger.Reconciler
	events     *events.Hub
	counts     *alerts.Counts
	recent     *recent.Recorder
	topics     atomic.Pointer[topics.Manager]
	traces     *tracing.Provider // nil: nobody asks for traces
	by         *deadline
	away       error // why Redis did not answer at the start; nil: it did
}

// Run serves until ctx ends, and then stops in order: nothing more is carried or
// claimed, readiness ends, requests to the API and to receivers that are under
// way end, the store is closed. All of that has one deadline.
func Run(ctx context.Context, o Options) (err error) {
	n, err := newNode(o)
	if err != nil {
		return err
	}
	defer n.by.stop()
	// First of all, so that a port in use is told before a journal is touched.
	var listen net.ListenConfig
	ln, err := listen.Listen(ctx, "tcp", o.Config.Addr)
	if err != nil {
		return fmt.Errorf("listen for the API: %w; is another duehook running? --addr names another address", err)
	}
	// The name in --addr may stand for another address than it seems to.
	if err := access.RequireKeys(ln.Addr().String(), len(o.Config.APIKeys), o.Config.InsecureNoAPIKeys); err != nil {
		return errors.Join(err, ln.Close())
	}
	n.traces, err = tracing.Open(ctx, tracing.Options{Getenv: os.Getenv, Version: n.Version, ID: n.id, Clock: n.Clock, Logger: n.Logger})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	defer n.closeTraces(ctx)
	if n.store, err = n.openStore(ctx); err != nil {
		return errors.Join(err, ln.Close())
	}
	defer func() { err = errors.Join(err, n.closeStore()) }()
	parts, err := n.build(ctx, ln)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	parts = append(parts, n.tell(n.baseURL(ln.Addr())))
	err = runParts(ctx, o.Logger, n.by, parts...)
	if err == nil {
		o.Logger.Info("stopped")
	}
	return err
}

// leastStop is how long what does not stop by itself is waited for at least: with a
// shorter grace, parts stop in time, but a slow disk is no failure.
const leastStop = 5 * time.Second

// closing is the part of the grace that is left for the end: for the journal to
// be written and the store to be closed.
func closing(grace time.Duration) time.Duration { return min(grace/10, time.Second) }

// closeStore closes the store. What that has not written by the deadline is left
// to the end of the process.
func (n *node) closeStore() error {
	var err error
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		err = n.store.Close()
	}()
	if !n.by.wait(closed) {
		return fmt.Errorf("the store was not closed within %v of the signal to stop", n.by.limit)
	}
	return err
}

// closeTraces exports what is left, by the deadline. That it cannot be is no failure
// of the node.
func (n *node) closeTraces(ctx context.Context) {
	n.by.start()
	limited, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(n.by.ctx, cancel)()
	if err := n.traces.Close(limited); err != nil {
		n.Logger.Warn("traces were lost", "error", err)
	}
}

func newNode(o Options) (*node, error) {
	if o.Clock == nil {
		o.Clock = job.SystemClock()
	}
	if o.Speed == 0 {
		o.Speed = 1
	}
	n := &node{Options: o, metrics: prometheus.NewRegistry(), by: newDeadline(o.Config.DrainDelay + max(o.Config.Grace, leastStop))}
	n.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), n.buildInfo())
	var err error
	if n.host, err = os.Hostname(); err != nil {
		return nil, fmt.Errorf("host name: %w", err)
	}
	// Containers of one image share their process ids, and may share a name.
	n.id = fmt.Sprintf("%s-%d-%s", n.host, os.Getpid(), strings.ToLower(rand.Text()[:6]))
	n.policy = retrypolicy.Policy{Steps: o.Config.RetrySteps, Limit: len(o.Config.RetrySteps), Jitter: o.Config.RetryJitter}
	if n.guard, err = dispatcher.NewGuard(o.Config.AllowCIDRs); err != nil {
		return nil, err
	}
	if o.Config.TLSCert != "" {
		n.cert, err = openCertificate(o.Config.TLSCert, o.Config.TLSKey, o.Clock, o.Logger)
	}
	return n, err
}

func (n *node) buildInfo() prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "duehook_build_info", Help: "Always 1; its label tells the version.",
		ConstLabels: prometheus.Labels{"version": n.Version},
	})
	info.Set(1)
	return info
}

// build makes the parts, in the stages in which they are to be stopped: first what
// takes in and sends jobs or changes them, then what that needs.
func (n *node) build(ctx context.Context, ln net.Listener) ([][]part, error) {
	c := n.Config
	grace := c.Grace - closing(c.Grace)
	jobsOptions := scheduler.Options{
		Store: n.store, Clock: n.Clock, Metrics: n.metrics, Recent: n.recent,
		Limits: job.Limits{MaxBody: c.MaxBody, MaxTimeout: c.MaxTimeout},
		Policy: n.policy, CheckURL: n.guard.CheckURL,
		Carry: store.CarryOptions{
			Cap: c.ReadyCap, EndpointLimit: c.EndpointConcurrency, TopicLimits: c.TopicConcurrency, HalfOpenLimit: carrierProbes,
		},
	}
	apiOptions := httpapi.Options{
		Ready: n.store.Ping, Clock: n.Clock, Logger: n.Logger, Metrics: n.metrics, Events: n.events, Tracer: n.traces.Tracer(),
		DrainDelay: n.stretched(c.DrainDelay), DrainTimeout: grace,
	}
	keyring, keyringErr := n.newKeyring(ctx)
	if keyring != nil {
		apiOptions.Signing = keyring
	}
	if n.reconciler != nil {
		apiOptions.Restoring = n.reconciler
	}
	var pagesErr error
	if c.Dashboard {
		apiOptions.Dashboard, pagesErr = dashboard.New()
	}
	secured, accessErr := n.secure(&apiOptions, ln)
	topicManager, topicsErr := topics.New(topics.Options{
		Store: n.store, Clock: n.Clock, Logger: n.Logger, Metrics: n.metrics, Emit: n.events.Emit,
	})
	if topicsErr == nil {
		jobsOptions.Topics = topicManager
		n.topics.Store(topicManager)
	}
	carry, carryErr := carrier.New(carrier.Options{
		Store: n.store, Clock: n.Clock, Logger: n.Logger, Metrics: n.metrics, ID: n.id,
		Cap: c.ReadyCap, Visibility: n.stretched(c.Visibility), LongestLease: n.stretched(max(c.Lease, c.MaxTimeout+c.LeaseMargin())),
		EndpointLimit: c.EndpointConcurrency, TopicLimits: c.TopicConcurrency, HalfOpenLimit: carrierProbes,
		LockTTL: n.stretched(carrierLock), Poll: n.stretched(carrierPoll),
	})
	dispatchOptions := dispatcher.Options{
		Store: n.store, Clock: n.Clock, Logger: n.Logger, Metrics: n.metrics, ID: n.id, Version: n.Version,
		Workers: c.Workers, Timeout: c.Timeout, Lease: n.stretched(c.Lease), LeaseMargin: n.stretched(c.LeaseMargin()),
		Policy: n.policy, Grace: c.DrainDelay + grace, AllowCIDRs: c.AllowCIDRs,
		BreakerFailures: orOff(c.BreakerFailures), BreakerOpen: c.BreakerOpen,
		CatchUpRate: orOff(c.CatchUpRate), ConnectRetries: orOff(c.ConnectRetries), Tracer: n.traces.Tracer(),
	}
	if keyring != nil {
		dispatchOptions.Signer = keyring
	}
	dispatch, dispatchErr := dispatcher.New(dispatchOptions)
	if dispatchErr == nil {
		jobsOptions.Endpoints, apiOptions.Stuck = dispatch, dispatch.Stuck
	}
	jobs, jobsErr := scheduler.New(jobsOptions)
	if jobsErr != nil {
		return nil, jobsErr
	}
	apiOptions.Scheduler = jobs
	bulk, bulkErr := operations.New(operations.Options{
		Store: n.store, Jobs: jobs, ID: n.id, Limits: jobsOptions.Limits, Clock: n.Clock, Logger: n.Logger, Metrics: n.metrics,
	})
	if bulkErr == nil {
		apiOptions.Operations = bulk
	}
	var journal alerts.Journal // a store of the process's own loses nothing
	if n.reconciler != nil && !c.Embedded() {
		journal = n.reconciler
	}
	watch, watchErr := alerts.New(alerts.Options{
		Store: n.store, Jobs: jobs, Counts: n.counts, Topics: topicManager, Journal: journal, ID: n.id, Alone: c.Embedded(), Clock: n.Clock, Logger: n.Logger, Metrics: n.metrics,
		Every: n.stretched(alerts.DefaultEvery),
	})
	if watchErr == nil {
		apiOptions.Alerts = watch
	}
	api, apiErr := httpapi.New(apiOptions)
	if err := errors.Join(keyringErr, pagesErr, accessErr, topicsErr, bulkErr, watchErr, apiErr, carryErr, dispatchErr); err != nil {
		return nil, err
	}
	working := []part{{"carrier", func(ctx context.Context) error {
		if c.Embedded() { // Redis obeys limits already
			topicManager.Load(ctx)
		}
		return carry.Run(ctx)
	}}, {"dispatcher", func(ctx context.Context) error {
		if keyring != nil {
			if err := n.ensureSecret(ctx, keyring); err != nil {
				return err
			}
		}
		return dispatch.Run(ctx)
	}}, {"api", func(ctx context.Context) error { return api.Serve(ctx, ln) }}, {"operations", bulk.Run}, {"alerts", watch.Run}}
	if n.reconciler != nil {
		working = append(working, part{"reconciler", n.reconciler.Run})
	}
	serving := append(secured, part{"events", n.events.Run}, part{"topics", topicManager.Run}, part{"attempts", n.recent.Run})
	return [][]part{working, serving}, nil
}

// newRecorder counts attempts, together with the other nodes if there can be any.
func (n *node) newRecorder(s store.Store) *recent.Recorder {
	o := recent.Options{Clock: n.Clock, Logger: n.Logger}
	if !n.Config.Embedded() {
		o.Documents = s
	}
	return recent.New(o)
}

// secure decides who may call the API and how, and makes the parts for it.
func (n *node) secure(o *httpapi.Options, ln net.Listener) ([]part, error) {
	c := n.Config
	var parts []part
	if n.cert != nil {
		o.TLS = n.cert.config()
		parts = append(parts, part{"certificate", n.cert.run})
	}
	if c.Open() {
		o.LocalHosts = !c.InsecureNoAPIKeys && access.Loopback(ln.Addr().String())
		return parts, nil
	}
	keys, err := access.New(access.Options{
		Namespace: c.Namespace, Keys: c.APIKeys, Store: n.store, Clock: n.Clock, Logger: n.Logger, Rate: c.APIRate,
	})
	if err != nil {
		return nil, err
	}
	o.Access = keys
	return append(parts, part{"keys", keys.Run}), nil
}

// The carrier's own defaults, written down to be stretched and to be told others.
const (
	carrierLock   = 15 * time.Second
	carrierPoll   = time.Second
	carrierProbes = 3
)

// stretched is d on a clock that runs faster than the machine's.
func (n *node) stretched(d time.Duration) time.Duration {
	return time.Duration(float64(d) * n.Speed)
}

// orOff turns "0: off" of a setting into an option's form of it.
func orOff(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// baseURL is where the API is for a client on this machine.
func (n *node) baseURL(addr net.Addr) string {
	scheme := "http://"
	if n.cert != nil {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return scheme + addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + net.JoinHostPort(host, port)
}
