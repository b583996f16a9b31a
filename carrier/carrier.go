// Package carrier moves due jobs from their buckets to the ready lists, if the store has some. It also
// purges ended jobs and samples the store's depth.
//
// Each shard with a ready list has one loop. It asks the store for due jobs and for the time of the
// next one. Then it sleeps until that time, until a wake-up announces an earlier job,
// or for the poll interval. One node holds the lock of a shard and carries as soon
// as a job is due. The other nodes lag a little, so they find work only if the lock
// holder stands still. The lock only saves calls; correctness does not depend on it.
package carrier

import (
	"context"
	"log/slog"
	"sync"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Store is the part of a store.Store that the carrier needs.
type Store interface {
	store.Keeping
	store.Reader
	store.Listener
}

// Carrier carries the due jobs of every shard of one store, and keeps its house.
type Carrier struct {
	store   Store
	clock   job.Clock
	log     *slog.Logger
	opts    Options
	metrics *metrics
}

// New checks the options and prepares a Carrier; Run starts it.
func New(o Options) (*Carrier, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	c := &Carrier{
		store:   o.Store,
		clock:   o.Clock,
		log:     o.Logger,
		opts:    o,
		metrics: newMetrics(),
	}
	if err := c.metrics.register(o.Metrics, o.Lists != nil); err != nil {
		return nil, err
	}
	return c, nil
}

// Run carries until ctx ends, also through outages of the store. It returns nil after
// all its goroutines have ended and the locks are released. It must not run twice at
// the same time.
func (c *Carrier) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	if c.opts.Lists != nil {
		wg.Go(func() { c.carry(ctx) })
	}
	wg.Go(func() { c.keepHouse(ctx, "sampling the store's depth", c.sampleDepth) })
	if c.opts.Waiting != nil {
		wg.Go(func() { c.keepHouse(ctx, "sampling the due jobs of topics", c.sampleWaiting) })
	}
	wg.Go(func() { c.keepHouse(ctx, "purging ended jobs", c.purge) })
	wg.Wait()
	return nil
}

// carry runs a loop for each shard.
func (c *Carrier) carry(ctx context.Context) {
	var wg sync.WaitGroup
	shards := make([]*loop, c.opts.Lists.Shards())
	for shard := range shards {
		shards[shard] = c.newLoop(shard)
	}
	for _, l := range shards {
		wg.Go(func() { l.lock.run(ctx) })
		wg.Go(func() { l.run(ctx) })
	}
	wg.Go(func() { c.listen(ctx, shards) })
	wg.Wait()
}
