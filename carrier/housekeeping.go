package carrier

import (
	"context"

	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/store/listing"
)

const (
	// purgeBatch is the most jobs of one call of Purge: the size of the
	// batches in which duehook writes to a store.
	purgeBatch = 500
	// purgeBatches bounds one run to half a million jobs.
	purgeBatches = 1000
)

// keepHouse does a chore at the interval of Options.Housekeeping, until ctx ends.
func (c *Carrier) keepHouse(ctx context.Context, what string, chore func(ctx context.Context) error) {
	loops.NewOutage(what, c.clock, c.log, c.opts.Random).Repeat(ctx, loops.Task{Every: c.opts.Housekeeping, Do: chore})
}

// purge deletes ended jobs past their retention.
func (c *Carrier) purge(ctx context.Context) error {
	if c.opts.MayPurge != nil && !c.opts.MayPurge() {
		return nil
	}
	for range purgeBatches {
		n, err := c.store.Purge(ctx, purgeBatch)
		if err != nil {
			return err
		}
		c.metrics.purged.Add(float64(n))
		if n == 0 {
			return nil
		}
	}
	return nil
}

func (c *Carrier) sampleDepth(ctx context.Context) error {
	d, err := listing.Depth(ctx, c.store)
	if err != nil {
		c.metrics.depth.last.Store(nil)
		return err
	}
	c.metrics.depth.last.Store(&d)
	return nil
}

func (c *Carrier) sampleWaiting(ctx context.Context) error {
	b, err := listing.Backlogs(ctx, c.store)
	if err != nil {
		c.opts.Waiting(nil)
		return err
	}
	c.opts.Waiting(&b)
	return nil
}
