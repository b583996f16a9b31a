package carrier

import (
	"context"
	"errors"
	"time"

	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/store"
)

// settled is the duration after which a silent subscription counts as working.
const settled = time.Minute

var errSourceEnded = errors.New("the source of wake-ups ended")

// listen passes the store's wake-ups to the loops of the shards. They are hints: without them the
// loops poll.
func (c *Carrier) listen(ctx context.Context, shards []*loop) {
	health := loops.NewOutage("listening for wake-ups", c.clock, c.log, c.opts.Random)
	wake := func(shard int) {
		health.Worked()
		for i, l := range shards {
			if i == shard || shard == store.AnyShard {
				l.woken.Set()
			}
		}
	}
	for {
		began := c.clock.Now()
		err := store.Wakeups(ctx, c.store, wake)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errSourceEnded
		}
		if c.clock.Now().Sub(began) >= settled {
			health.Worked()
		}
		health.Rest(ctx, err)
		for _, l := range shards {
			l.woken.Set()
		}
	}
}
