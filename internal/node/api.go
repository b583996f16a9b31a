package node

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/rpc"
	v1 "github.com/duehook/duehook/httpapi/v1"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/memory"
	"github.com/duehook/duehook/internal/node/dashboard"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/store"
)

// newAPI returns the server, and the parts for its keys and certificate.
func (n *node) newAPI(ln net.Listener, s *services) (*httpapi.Server, []part, error) {
	calls := v1.Options{
		App: s.jobs, Nodes: s.nodes, Operations: s.operations, Schedules: s.schedules, Groups: s.groups, Pulls: s.pulls, Alerts: s.alerts, Inboxes: s.inboxes, Events: n.events,
	}
	if s.secrets != nil {
		calls.Signing = s.secrets
	}
	o := httpapi.Options{
		Wrap: rpc.New, Ready: n.takesJobs, Stuck: s.dispatcher.Stuck, Clock: n.clock, Logger: n.Logger, Metrics: n.metrics, Tracer: n.traces.Tracer(),
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
	o.Dialects = append(n.fronts(s), own)
	if n.Dev != nil {
		o.Dialects = append(o.Dialects, n.Dev.Dialect())
		o.Wrap = func(api http.Handler, known func(*http.Request) (*http.Request, error)) http.Handler {
			return n.Dev.Dated(rpc.New(api, known))
		}
	}
	api, err := httpapi.New(o)
	return api, secured, err
}

// takesJobs is why a registration would be refused for the store's sake, or nil.
func (n *node) takesJobs(ctx context.Context) error {
	err := n.store.Ping(ctx)
	switch {
	case err == nil:
		err = n.takes(ctx)
	case !errors.Is(err, store.ErrFull):
		return err
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	return &httpapi.Error{Code: httpapi.CodeStoreUnavailable, Detail: "The store answers, but takes no jobs: " + strings.TrimSuffix(err.Error(), ".") + "."}
}

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
	o.Ready, n.keys = readyWith(keys, o.Ready), keys
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
