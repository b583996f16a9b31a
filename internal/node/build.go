package node

import (
	"context"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/duehook/duehook/carrier"
	"github.com/duehook/duehook/dispatcher"
	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/camellia"
	"github.com/duehook/duehook/httpapi/mykit"
	"github.com/duehook/duehook/httpapi/qstash"
	"github.com/duehook/duehook/httpapi/rpc"
	v1 "github.com/duehook/duehook/httpapi/v1"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/app/operations"
	"github.com/duehook/duehook/internal/app/pulls"
	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/app/topics"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/jobjson"
	"github.com/duehook/duehook/internal/kit/memory"
	"github.com/duehook/duehook/internal/kit/storetime"
	"github.com/duehook/duehook/internal/node/dashboard"
	"github.com/duehook/duehook/internal/node/dev"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/internal/services/nodes"
	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/store"
)

// build returns the parts, in the stages in which they stop: first the ones that accept,
// send or change jobs, then the ones that those need.
func (n *node) build(ctx context.Context, ln net.Listener) (stages [][]part, err error) {
	c := n.Config
	n.time = storetime.New(n.store, n.clock)
	secrets, err := n.newSecrets()
	if err != nil {
		return nil, err
	}
	topicSettings, err := topics.New(topics.Options{Store: n.store, Clock: n.clock, Logger: n.Logger, Metrics: n.metrics, Emit: n.events.Emit})
	if err != nil {
		return nil, err
	}
	keys, kept := n.newKeys(ln)
	dispatch, err := n.newDispatcher(secrets, keys, topicSettings)
	if err != nil {
		return nil, err
	}
	guard := app.Guard(n.guard.CheckURL)
	members := groups.New(n.store, guard.Check, nil)
	jobBounds := job.Bounds{MaxBody: c.MaxBody, MaxTimeout: c.MaxTimeout}
	jobs, err := app.New(app.Options{
		Store: n.store, Clock: n.clock, Pace: job.SystemClock(), Metrics: n.metrics, Recent: n.recent, Topics: topicSettings, Groups: members, Endpoints: dispatch,
		Bounds: jobBounds, Policy: n.policy, Guard: guard,
		Carry: n.carrying(),
	})
	if err != nil {
		return nil, err
	}
	n.jobs = jobs
	recurring, err := n.newSchedules(jobs)
	if err != nil {
		return nil, err
	}
	bulk, err := operations.New(operations.Options{
		Store: n.store, Jobs: jobs, ID: n.id, Bounds: jobBounds, Clock: n.clock, Time: n.time, Logger: n.Logger, Metrics: n.metrics,
	})
	if err != nil {
		return nil, err
	}
	carry, err := n.newCarrier(recurring.MayPurge, dispatch.ShowWaiting)
	if err != nil {
		return nil, err
	}
	if n.Dev != nil {
		parts := dev.Parts{Store: n.store, Carrying: n.carrying(), InFlight: n.disk.InFlight, Schedules: recurring, Deliveries: dispatch}
		if secrets != nil {
			parts.Signer = secrets
		}
		n.Dev.Attach(parts)
	}
	registry := n.newRegistry()
	watch, err := n.newAlerts(jobs, registry)
	if err != nil {
		return nil, err
	}
	fetch, err := pulls.New(pulls.Options{
		Store: n.store, ID: n.id, Idle: !c.Deliver, Policy: n.policy, TopicLimits: c.TopicConcurrency, Clock: n.clock, Time: n.time, Logger: n.Logger, Metrics: n.metrics,
	})
	if err != nil {
		return nil, err
	}
	calls := v1.Options{App: jobs, Nodes: registry, Operations: bulk, Schedules: recurring, Groups: members, Pulls: fetch, Alerts: watch, Events: n.events}
	if secrets == nil {
		close(n.signs)
	} else {
		calls.Signing = secrets
		if err := n.sign(ctx, secrets); err != nil {
			return nil, err
		}
	}
	dialects := n.dialects(map[string]httpapi.Dialect{
		camellia.Name: camellia.New(camellia.Options{App: jobs, Pulls: fetch, Monitor: n.monitor, Clock: n.time}),
		mykit.Name:    mykit.New(mykit.Options{App: jobs, Operations: bulk, Clock: n.time}),
		qstash.Name: qstash.New(qstash.Options{
			App: jobs, Schedules: recurring, Groups: members, Topics: topicSettings, Keys: keys, Clock: n.time,
		}),
	})
	api, secured, err := n.newAPI(ln, calls, dialects, dispatch.Stuck)
	if err != nil {
		return nil, err
	}
	working := []part{{"carrier", n.delivering(func(ctx context.Context) error {
		if c.Embedded() { // Redis has the limits
			topicSettings.Load(ctx)
		}
		return carry.Run(ctx)
	})}, {"dispatcher", func(ctx context.Context) error {
		if secrets != nil {
			if err := n.ensureSecret(ctx, secrets); err != nil {
				return err
			}
		}
		return n.delivering(dispatch.Run)(ctx)
	}}, {"api", func(ctx context.Context) error {
		loads, cancel := context.WithTimeout(ctx, topicsWithin)
		topicSettings.Load(loads) // a job that is registered before would not have the url and the defaults of its topic
		cancel()
		return api.Serve(ctx, ln)
	}}, {"operations", bulk.Run}, {"schedules", n.delivering(recurring.Run)}, {"alerts", n.delivering(watch.Run)}}
	if n.disk != nil {
		working = append(working, part{"store", n.watchDisk})
		if ln := n.listenControl(ctx); ln != nil {
			working = append(working, part{"control", func(ctx context.Context) error { return n.control(ctx, ln) }})
		}
	}
	operating, err := n.forOperators(ctx)
	if err != nil {
		return nil, err
	}
	working = append(working, operating...)
	needed := append(append(secured, kept...), part{"time", n.time.Run}, part{"events", n.events.Run}, part{"topics", topicSettings.Run}, part{"pulls", fetch.Run}, part{"attempts", n.recent.Run}, part{"runs", n.runs.Run}, part{"nodes", registry.Run})
	if secrets != nil {
		needed = append(needed, part{"secrets", secrets.Run})
	}
	return [][]part{working, needed}, nil
}

// delivering is a part that is idle with --deliver=false.
func (n *node) delivering(run func(context.Context) error) func(context.Context) error {
	if n.Config.Deliver {
		return run
	}
	return func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}
}

// forOperators are the parts that only operators need.
func (n *node) forOperators(ctx context.Context) ([]part, error) {
	systemd := newSupervisor(os.Getenv, os.Getpid())
	parts := []part{{"systemd", func(ctx context.Context) error { return n.supervise(ctx, systemd) }}}
	debug, err := n.listenDebug(ctx)
	if debug != nil {
		parts = append(parts, part{"profiles", func(ctx context.Context) error { return n.debug(ctx, debug) }})
	}
	return parts, err
}

// topicsWithin is how long a node that starts reads its topics before it serves: without a store, it answers 503.
const topicsWithin = 2 * time.Second

// takesJobs is why a registration would be refused for the store's sake, or nil.
func (n *node) takesJobs(ctx context.Context) error {
	if err := n.store.Ping(ctx); err != nil {
		return err
	}
	err := n.takes(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return &httpapi.Error{Code: httpapi.CodeStoreUnavailable, Detail: "The store answers, but takes no jobs: " + strings.TrimSuffix(err.Error(), ".") + "."}
}

// watchDisk ends the node when the embedded store fails: it must be opened anew.
func (n *node) watchDisk(ctx context.Context) error {
	select {
	case <-n.disk.Failed():
		return n.disk.Failure()
	case <-ctx.Done():
		return nil
	}
}

// carrying are the terms of all carriers.
func (n *node) carrying() store.CarryOptions {
	c := n.Config
	return store.CarryOptions{
		Cap: c.ReadyCap, Visibility: c.Visibility, Longest: max(c.Visibility, c.Lease, c.MaxTimeout+c.LeaseMargin()),
		EndpointLimit: c.EndpointConcurrency, TopicLimits: c.TopicConcurrency, HalfOpenLimit: dispatcher.DefaultBreakerProbes,
	}
}

func (n *node) newCarrier(mayPurge func() bool, waiting func(*store.Backlogs)) (*carrier.Carrier, error) {
	return carrier.New(carrier.Options{
		Store: n.store, Clock: n.clock, Logger: n.Logger, Metrics: n.metrics, CarryOptions: n.carrying(),
		LockTTL: carrierLock, Poll: carrierPoll, Housekeeping: carrierHousekeeping,
		MayPurge: mayPurge, Waiting: waiting,
	})
}

// newDispatcher returns the dispatcher; nil secrets sign nothing.
func (n *node) newDispatcher(secrets *signing.Secrets, keys qstash.Keys, of *topics.Manager) (*dispatcher.Dispatcher, error) {
	c := n.Config
	o := dispatcher.Options{
		Store: n.store, Clock: n.clock, Logger: n.Logger, Metrics: n.metrics, ID: n.id, Version: n.Version,
		Workers: c.Workers, Weight: of.Weight, TopicTimeout: of.Timeout, Timeout: c.Timeout, Lease: c.Lease, LeaseMargin: c.LeaseMargin(),
		Policy: n.policy, Grace: c.DrainDelay + n.drainTime(), AllowCIDRs: c.AllowCIDRs,
		BreakerFailures: orOff(c.BreakerFailures), BreakerOpen: c.BreakerOpen,
		CatchUpRate: orOff(c.CatchUpRate), ConnectRetries: orOff(c.ConnectRetries), Tracer: n.traces.Tracer(),
		RenderCallback: jobjson.CallbackBody(n.policy), CallbackResponse: orOff(c.CallbackResponse),
		// Also without --dialects: other nodes may have registered their jobs.
		Contracts: map[string]*dispatcher.Contract{qstash.Name: {
			Headers: qstash.Headers(keys), Judge: qstash.Judge, RenderCallback: qstash.RenderCallback,
			CallbackResponse: qstash.MinCallbackResponse, Exact: true,
		}},
	}
	if secrets != nil {
		o.Signer = secrets
	}
	if n.Dev != nil {
		o.Layer = n.Dev
	}
	return dispatcher.New(o)
}

func (n *node) newSchedules(jobs *app.App) (*schedules.Manager, error) {
	return schedules.New(schedules.Options{
		Store: n.store, Jobs: jobs, RunLog: n.runs, ID: n.id, MaxRate: n.Config.ScheduleRate, Alone: n.Config.Embedded(), Clock: n.clock, Logger: n.Logger, Metrics: n.metrics, Emit: n.events.Emit,
	})
}

func (n *node) newAlerts(jobs *app.App, registry *nodes.Registry) (*alerts.Manager, error) {
	return alerts.New(alerts.Options{
		Store: n.store, Jobs: jobs, Counts: n.counts, ID: n.id, Alone: n.Config.Embedded(),
		Silent: registry.Silent, Clock: n.clock, Logger: n.Logger, Metrics: n.metrics,
	})
}

// newAPI returns the server, and the parts for its keys and certificate.
func (n *node) newAPI(ln net.Listener, calls v1.Options, dialects []httpapi.Dialect, stuck func() string) (*httpapi.Server, []part, error) {
	o := httpapi.Options{
		Wrap: rpc.New, Ready: n.takesJobs, Stuck: stuck, Clock: n.clock, Logger: n.Logger, Metrics: n.metrics, Tracer: n.traces.Tracer(),
		DrainDelay: n.Config.DrainDelay, DrainTimeout: n.drainTime(),
		Memory: memory.New(int64(n.Config.MemoryBudget), job.SystemClock()), Connections: n.maxConnections(),
	}
	var err error
	if n.Config.Dashboard {
		if o.Dashboard, err = dashboard.New(); err != nil {
			return nil, nil, err
		}
	}
	secured, err := n.secure(&o, &calls, ln)
	if err != nil {
		return nil, nil, err
	}
	own, err := v1.New(calls)
	if err != nil {
		return nil, nil, err
	}
	o.Dialects = append(dialects, own)
	if n.Dev != nil {
		o.Dialects = append(o.Dialects, n.Dev.Dialect())
		o.Wrap = func(api http.Handler, known func(*http.Request) (*http.Request, error)) http.Handler {
			return n.Dev.Dated(rpc.New(api, known))
		}
	}
	api, err := httpapi.New(o)
	return api, secured, err
}

// dialects are those of --dialects.
func (n *node) dialects(known map[string]httpapi.Dialect) (all []httpapi.Dialect) {
	for name, d := range known {
		if slices.Contains(n.Config.Dialects, name) {
			all = append(all, d)
		}
	}
	return all
}

// newKeys returns the keys that sign the deliveries of the QStash dialect, and their part; nil: nothing signs. A
// server for development has the public keys, which its SDKs look for.
func (n *node) newKeys(ln net.Listener) (qstash.Keys, []part) {
	switch {
	case n.seal == nil:
		return nil, nil
	case n.Config.Open() && access.Loopback(ln.Addr().String()):
		return qstash.DevKeys{}, nil
	}
	keys := qstash.NewKeys(n.store, n.seal, job.SystemClock(), n.Logger)
	return keys, []part{{"qstash keys", keys.Run}}
}

// drainTime is the part of the grace for requests in flight.
func (n *node) drainTime() time.Duration { return n.Config.Grace - closing(n.Config.Grace) }

// secure sets up API keys and HTTPS, and makes their parts.
func (n *node) secure(o *httpapi.Options, calls *v1.Options, ln net.Listener) ([]part, error) {
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
		Namespace: c.Namespace, Keys: c.APIKeys, Store: n.store, Clock: n.clock, Now: n.time.Instant, Logger: n.Logger, Rate: c.APIRate,
	})
	if err != nil {
		return nil, err
	}
	o.Access, calls.Access = keys, keys
	o.Ready = readyWith(keys, n.store.Ping)
	return append(parts, part{"keys", keys.Run}), nil
}

// readyWith is the readiness of a server with keys: before it knows the stored ones, it refuses their holders.
func readyWith(keys *access.Keys, store func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := keys.Ready(); err != nil {
			return err
		}
		return store(ctx)
	}
}

// Defaults of the carrier.
const (
	carrierLock         = 15 * time.Second
	carrierPoll         = time.Second
	carrierHousekeeping = 30 * time.Second
)

// orOff turns "0: off" of a setting into an option's form of it.
func orOff(n int) int {
	if n == 0 {
		return -1
	}
	return n
}
