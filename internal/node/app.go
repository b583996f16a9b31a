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
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/duehook/duehook/dispatcher"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/storetime"
	"github.com/duehook/duehook/internal/node/config"
	"github.com/duehook/duehook/internal/node/dev"
	"github.com/duehook/duehook/internal/node/tracing"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/internal/services/events"
	"github.com/duehook/duehook/internal/services/hold"
	"github.com/duehook/duehook/internal/services/leader"
	"github.com/duehook/duehook/internal/services/nodes"
	"github.com/duehook/duehook/internal/services/recent"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
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
	// yet: err is the reason. Ready follows. Nil: Ready does not wait.
	Waiting func(base string, err error)

	// Dev has the node run by its clock and serve its calls; nil in production.
	Dev *dev.Dev
}

// connectionCost is about what an idle connection of a client takes in memory, in bytes.
const connectionCost = 16 << 10

// maxConnections is how many connections clients may have: as many as the memory for them allows, and half of the files that
// the process may open. Deliveries and the store need the others.
func (n *node) maxConnections() int {
	most := uint64(n.Config.MemoryBudget / connectionCost)
	if files, known := openFiles(); known {
		most = min(most, files/2)
	}
	return int(most)
}

// node is a duehook that is being put together.
type node struct {
	Options
	clock    job.Clock
	time     *storetime.Clock // the store's time
	id       string           // names this process among the nodes
	host     string
	metrics  *prometheus.Registry
	policy   retrypolicy.Policy
	guard    *dispatcher.Guard
	cert     *certificate // nil: plain HTTP
	store    store.Store
	lists    store.ReadyList                 // of the store; nil: it has no ready lists
	disk     diskstore.Embedded              // the embedded store; nil on a server
	takes    func(ctx context.Context) error // of the store: why it would not take a job
	watch    *serverWatch                    // of PostgreSQL; nil: another store
	seal     *documents.Seal                 // of secrets in the store; nil: nothing is signed
	keys     *access.Keys                    // of the API; nil: it needs none
	jobs     *app.App
	events   *events.Hub
	counts   *alerts.Counts
	leader   *leader.Leader // nil: there are no other nodes
	recent   *recent.Recorder
	hold     *hold.Hold // of deliveries; nil in the dev server
	runs     *schedules.RunLog
	dialects dialects
	traces   *tracing.Provider // nil: nobody asks for traces
	by       *deadline
	away     error         // why the store did not answer at the start; nil: it did
	signs    chan struct{} // closed when deliveries can be signed
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
	if o.Dev != nil {
		defer context.AfterFunc(ctx, o.Dev.Close)()
	}
	// First, so that a port in use is reported before the store is opened.
	var listen net.ListenConfig
	ln, err := listen.Listen(ctx, "tcp", o.Config.Addr)
	if err != nil {
		return fmt.Errorf("listen for the API: %w; is another duehook running? --addr names another address", err)
	}
	// The name in --addr may resolve to another address than expected.
	if err := access.RequireKeys(ln.Addr().String(), len(o.Config.APIKeys), o.Config.InsecureNoAPIKeys); err != nil {
		return errors.Join(err, ln.Close())
	}
	n.traces, err = tracing.Open(ctx, tracing.Options{Getenv: os.Getenv, Version: n.Version, ID: n.id, Clock: n.clock, Logger: n.Logger})
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

// leastStop is the least time to wait for parts to stop. With a shorter grace, a slow
// disk would count as a failure.
const leastStop = 5 * time.Second

// closing is the part of the grace reserved for closing the store.
func closing(grace time.Duration) time.Duration { return min(grace/10, time.Second) }

// closeStore closes the store. It stops waiting at the deadline; the process then ends.
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

// closeTraces exports the remaining traces until the deadline. A failed export is not a
// failure of the node.
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
	n := &node{Options: o, clock: job.SystemClock(), metrics: prometheus.NewRegistry(), by: newDeadline(o.Config.DrainDelay + max(o.Config.Grace, leastStop)), signs: make(chan struct{})}
	n.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), n.buildInfo())
	if o.Dev != nil {
		n.clock = o.Dev.Clock
	}
	zones, err := readZones(o.Config.TZData)
	if err != nil {
		return nil, err
	}
	if zones != nil {
		schedule.UseZones(zones)
		o.Logger.Info("time zones are those of a file", "file", o.Config.TZData, "release", zones.Release)
	}
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
		n.cert, err = openCertificate(o.Config.TLSCert, o.Config.TLSKey, n.clock, o.Logger)
	}
	return n, err
}

func (n *node) buildInfo() prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "duehook_build_info", Help: "Always 1; the label has the version.",
		ConstLabels: prometheus.Labels{"version": n.Version},
	})
	info.Set(1)
	return info
}

// newRecorder counts attempts, together with the other nodes if there can be any.
func (n *node) newRecorder(s store.Store) *recent.Recorder {
	o := recent.Options{Documents: s, Clock: n.clock, Logger: n.Logger}
	if n.Dev != nil { // its store is gone when it ends, and turning its clock would wait for each publication
		o.Documents = nil
	}
	return recent.New(o)
}

// newRegistry lists the nodes.
func (n *node) newRegistry() *nodes.Registry {
	facts := nodes.Facts{ID: n.id, Host: n.host, Version: n.Version, Store: n.Config.Store()}
	return nodes.New(nodes.Options{Facts: facts, Store: n.store, Alone: n.Config.Embedded(), Clock: n.clock, Logger: n.Logger})
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
