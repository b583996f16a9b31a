// Package carrier moves due jobs from their buckets to the ready lists, and
// keeps house: it purges ended jobs and samples how much the store holds.
//
// Each shard has one loop. It asks the store for due jobs, learns when the
// next one is due, and sleeps until then, until a wake-up tells of an earlier
// one, or until the poll interval has passed. Of all the nodes on a store, one
// holds a shard's lock and carries as soon as a job is due; the others stay a
// little behind it, so they find work only when it is not doing its own.
// Nothing but the number of calls depends on the lock.
package carrier

import (
	"context"
	"log/slog"
	"sync"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Store is what the carrier needs of a store.
type Store interface {
	store.Carrying
	store.Keeping
	Depth(ctx context.Context) (store.Depth, error)
}

// Carrier carries the due jobs of every shard of one store.
type Carrier struct {
	store   Store
	clock   job.Clock
	log     *slog.Logger
	opts    Options
	terms   store.CarryOptions
	chores  []chore
	metrics *metrics
}

// New checks the options and prepares a Carrier; Run starts it.
func New(o Options) (*Carrier, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	c := &Carrier{
		store: o.Store,
		clock: o.Clock,
		log:   o.Logger,
		opts:  o,
		terms: store.CarryOptions{
			Cap: o.Cap, Visibility: o.Visibility, EndpointLimit: max(o.EndpointLimit, 0), TopicLimits: o.TopicLimits,
			HalfOpenLimit: o.HalfOpenLimit, By: o.ID,
		},
		metrics: newMetrics(),
	}
	if o.LongestLease > 0 {
		c.terms.Longest = max(o.LongestLease, o.Visibility)
	}
	var err error
	if c.chores, err = c.newChores(); err != nil {
		return nil, err
	}
	if err := c.metrics.register(o.Metrics); err != nil {
		return nil, err
	}
	return c, nil
}

// Run carries until ctx ends, whatever the store does meanwhile. It returns
// nil when everything that it started has ended and the locks are given back.
// It must not run twice at the same time.
func (c *Carrier) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	loops := make([]*loop, c.store.Shards())
	for shard := range loops {
		loops[shard] = c.newLoop(shard)
	}
	for _, l := range loops {
		wg.Go(func() { l.lock.run(ctx) })
		wg.Go(func() { l.run(ctx) })
	}
	wg.Go(func() { c.listen(ctx, loops) })
	wg.Go(func() { c.keepHouse(ctx) })
	wg.Wait()
	return nil
}
