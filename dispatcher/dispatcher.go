package dispatcher

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// settleTimeOf returns the part of a grace for settling after requests are aborted.
func settleTimeOf(grace time.Duration) time.Duration { return min(grace/5, 2*time.Second) }

// Dispatcher delivers due jobs.
type Dispatcher struct {
	opts      Options
	transport http.RoundTripper // the network
	sender    *sender
	circuits  *circuits
	reports   *reports
	catchUp   *catchUp
	suspects  suspects
	pipelines []*pipeline // one for each shard
	metrics   *metrics
}

// New checks the options and returns a Dispatcher. Run starts it.
func New(o Options) (*Dispatcher, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if o.Transport != nil {
		return newDispatcher(o, o.Transport)
	}
	guard, err := NewGuard(o.AllowCIDRs)
	if err != nil {
		return nil, err
	}
	if o.Resolver != nil {
		guard.resolver = o.Resolver
	}
	if err := guard.register(o.Metrics); err != nil {
		return nil, err
	}
	return newDispatcher(o, newTransport(guard, o.Workers))
}

// newDispatcher takes checked options with their defaults.
func newDispatcher(o Options, transport http.RoundTripper) (*Dispatcher, error) {
	d := &Dispatcher{opts: o, transport: transport, sender: newSender(o, transport)}
	d.suspects.clock = o.Clock
	d.reports = newReports(o)
	d.circuits = newCircuits(o, d.reports.changes.Put, func(endpoint string, since time.Time) { d.catchUp.recovered(endpoint, since) })
	d.sender.steady = d.circuits.steady
	var err error
	if d.metrics, err = newMetrics(o.Metrics, d.circuits.count); err != nil {
		return nil, err
	}
	d.catchUp = newCatchUp(o, d.circuits.fails, d.metrics.broughtForward)
	shards := o.Store.Shards()
	for shard := range shards {
		d.pipelines = append(d.pipelines, newPipeline(d, shard, share(o.Workers, shards)))
	}
	return d, nil
}

// ShowWaiting shows the due jobs of topics in the metrics by topic; nil: they are unknown.
func (d *Dispatcher) ShowWaiting(b *store.Backlogs) { d.metrics.topics.Waiting(b) }

// Run delivers jobs until ctx ends. Then it takes no more jobs, releases the ones without a
// request, waits for requests in flight, aborts the rest in time, and settles all, within
// Grace. Released and aborted jobs use no attempt. It returns nil.
func (d *Dispatcher) Run(ctx context.Context) error {
	lasting := context.WithoutCancel(ctx)
	work, breakOff := context.WithCancel(lasting)
	settle, giveUp := context.WithCancel(lasting)
	defer giveUp()
	d.metrics.workers.Set(float64(d.opts.Workers))
	defer d.metrics.workers.Set(0)

	var aides, pipelines sync.WaitGroup
	drained := make(chan struct{})
	aides.Go(func() { d.limitDrain(ctx, drained, breakOff, giveUp) })
	aides.Go(func() { d.reports.run(work) })
	aides.Go(func() { d.catchUp.run(ctx) })
	aides.Go(func() { d.hearTries(ctx) })
	for _, p := range d.pipelines {
		pipelines.Go(func() { p.run(phases{take: ctx, work: work, settle: settle}) })
	}
	pipelines.Wait()
	close(drained)
	breakOff()
	aides.Wait()
	if t, ok := d.transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
	return nil
}

// Settled waits until the circuits that opened or closed are reported to the store, and the
// retries that a recovery advances are advanced.
func (d *Dispatcher) Settled(ctx context.Context) error {
	if err := d.reports.changes.Settled(ctx); err != nil {
		return err
	}
	return d.catchUp.fresh.Settled(ctx)
}

// stuckAfter is how long taking jobs fails before Stuck reports it.
const stuckAfter = 10 * time.Second

// Stuck names the call that has failed for more than 10 s without a success, on any shard.
// It is empty if jobs can be taken, or if there are none.
func (d *Dispatcher) Stuck() string {
	for _, p := range d.pipelines {
		if p.takes.Lasts(stuckAfter) {
			return p.takes.What()
		}
	}
	return ""
}

// share divides n over parts, rounding up.
func share(n, parts int) int { return (n + parts - 1) / parts }

// limitDrain limits a shutdown: after the end of ctx, it aborts requests shortly before the
// end of Grace, and gives up settling at its end.
func (d *Dispatcher) limitDrain(ctx context.Context, drained <-chan struct{}, breakOff, giveUp func()) {
	select {
	case <-ctx.Done():
	case <-drained:
		return
	}
	settle := settleTimeOf(d.opts.Grace)
	if waitFor(drained, d.opts.Grace-settle) {
		return
	}
	d.opts.Logger.Warn("requests in flight are cut off; no attempt is used", "grace", d.opts.Grace)
	breakOff()
	if !waitFor(drained, settle) {
		giveUp()
	}
}

// waitFor reports whether done was closed within limit. It counts real time, as a process
// manager does.
func waitFor(done <-chan struct{}, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// logAttempt logs an attempt at debug level.
func (d *Dispatcher) logAttempt(ctx context.Context, c *claim, o job.Outcome) {
	if !d.opts.Logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	d.opts.Logger.Debug("attempt", "topic", c.Job.Topic, "id", c.Job.ID, "attempt", o.Attempt.Number,
		"endpoint", c.endpoint, "outcome", outcomeNames[o.Kind],
		"status", o.Attempt.Status, "error", o.Attempt.Error, "duration", o.Attempt.Duration,
		"connect_retries", o.Attempt.ConnectRetries, "resent", o.Attempt.Resent)
}
