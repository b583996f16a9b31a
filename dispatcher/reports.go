package dispatcher

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/store"
)

// triedChannel carries the endpoints of Try to the dispatchers of all nodes.
const triedChannel = "tried"

// triedPause is the time for a message to arrive. A node that hears it later delays
// the jobs by its own open circuit.
const triedPause = 100 * time.Millisecond

// Try ends the opening of an endpoint's circuit before its time. The carrier then
// moves a few of its jobs, and the first request decides whether the circuit opens
// again. A circuit that is not open stays as it is.
func (d *Dispatcher) Try(ctx context.Context, endpoint string) error {
	d.circuits.try(endpoint)
	if err := d.opts.Store.Publish(ctx, triedChannel, []byte(endpoint)); err != nil {
		return fmt.Errorf("publish an endpoint to try: %w", err)
	}
	if err := job.Sleep(ctx, d.opts.Clock, triedPause); err != nil {
		return err
	}
	if err := d.opts.Store.SetCircuit(ctx, endpoint, store.CircuitHalfOpen, 0); err != nil {
		return fmt.Errorf("half-open a circuit: %w", err)
	}
	return nil
}

// hearTries passes the endpoints of Try, from all nodes, to the circuits until ctx
// ends.
func (d *Dispatcher) hearTries(ctx context.Context) {
	feed.Follow(ctx, d.opts.Store, triedChannel, d.opts.Clock, d.opts.Logger, func(message []byte) {
		if message != nil {
			d.circuits.try(string(message))
		}
	})
}

// reports reports to the store which circuits are open, with one goroutine.
type reports struct {
	store   Store
	clock   job.Clock
	log     *slog.Logger
	outage  *loops.Outage
	changes *loops.Mailbox[time.Time] // the end of an opening; zero: closed
}

func newReports(o Options) *reports {
	return &reports{
		store: o.Store, clock: o.Clock, log: o.Logger, changes: loops.NewMailbox[time.Time](),
		outage: loops.NewOutage("reporting circuits", o.Clock, o.Logger, o.Random),
	}
}

// run reports changes until ctx ends.
func (r *reports) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.changes.Wake:
		}
		for endpoint, until := range r.changes.Take() {
			if until.IsZero() {
				r.log.Info("the circuit of an endpoint closed", "endpoint", endpoint)
			} else {
				r.log.Warn("the circuit of an endpoint opened", "endpoint", endpoint, "until", until)
			}
			r.report(ctx, endpoint, until)
		}
		r.changes.Done()
	}
}

// report reports one change. It repeats the call until it succeeds or a later
// change replaces this one.
func (r *reports) report(ctx context.Context, endpoint string, until time.Time) {
	for !r.changes.Has(endpoint) {
		err := r.send(ctx, endpoint, until)
		if err == nil {
			r.outage.Worked()
			return
		}
		if !r.outage.Rest(ctx, err) {
			return
		}
	}
}

func (r *reports) send(ctx context.Context, endpoint string, until time.Time) error {
	if until.IsZero() {
		return r.store.SetCircuit(ctx, endpoint, store.CircuitClosed, 0)
	}
	if left := until.Sub(r.clock.Now()); left > 0 {
		return r.store.SetCircuit(ctx, endpoint, store.CircuitOpen, left)
	}
	return nil // the outage of the store outlasted the opening
}
