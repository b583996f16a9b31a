package dispatcher

import (
	"context"
	"fmt"
	"time"

	"github.com/duehook/duehook/internal/kit/outage"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// triedChannel tells the dispatchers of all nodes which endpoint is to be tried.
const triedChannel = "tried"

// triedPause is for the word to get round. Breakers that hear it too late give
// the jobs back, put off to the end of their own time.
const triedPause = 100 * time.Millisecond

// Try has a held endpoint tried now: a few of its jobs are carried, and what comes
// of the first of them decides whether it is held on. One that is not held is
// left alone.
func (d *Dispatcher) Try(ctx context.Context, endpoint string) error {
	d.breakers.try(endpoint)
	if err := d.opts.Store.Publish(ctx, triedChannel, []byte(endpoint)); err != nil {
		return fmt.Errorf("tell the dispatchers to try an endpoint: %w", err)
	}
	if err := job.Sleep(ctx, d.opts.Clock, triedPause); err != nil {
		return err
	}
	if err := d.opts.Store.OpenCircuit(ctx, endpoint, 0); err != nil {
		return fmt.Errorf("end a hold: %w", err)
	}
	return nil
}

// Test makes one attempt at a job that is stored nowhere: with the guard, the
// signature and the bounds of any other, but within limit, and past the
// endpoint's breaker, which learns nothing of it. The error wraps
// store.ErrUnavailable when no request could be made. c needs Job and Now.
func (d *Dispatcher) Test(ctx context.Context, c store.Claimed, limit time.Duration) (job.Attempt, error) {
	now := d.opts.Clock.Now()
	c.Job.Spec.Timeout = min(d.sender.timeoutOf(&c.Job), limit)
	o, _ := d.sender.send(ctx, &claim{Claimed: c, asked: now, got: now})
	if o.Attempt == nil {
		return job.Attempt{}, fmt.Errorf("%w: no request was made: %s", store.ErrUnavailable, o.Reason)
	}
	return *o.Attempt, nil
}

// trials hears which endpoints are to be tried.
type trials struct {
	store  Store
	try    func(endpoint string)
	outage *outage.Outage
}

func newTrials(o Options, try func(endpoint string)) *trials {
	return &trials{store: o.Store, try: try, outage: outage.New("hearing of endpoints to be tried", o.Clock, o.Logger, o.Random)}
}

// run hears until ctx ends.
func (t *trials) run(ctx context.Context) {
	store.Follow(ctx, t.store, triedChannel, func(message []byte) {
		t.outage.Worked()
		if message != nil {
			t.try(string(message))
		}
	}, func(ctx context.Context, err error) { t.outage.Rest(ctx, err) })
}
