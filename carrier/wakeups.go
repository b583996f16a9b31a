package carrier

import (
	"context"
	"errors"
	"time"

	"github.com/duehook/duehook/internal/kit/outage"
)

// settled is the duration after which a silent subscription counts as working.
const settled = time.Minute

var errSourceEnded = errors.New("the source of wake-ups ended")

// listen passes the store's wake-ups to the loops. They are hints: without them the
// loops poll.
func (c *Carrier) listen(ctx context.Context, loops []*loop) {
	health := outage.New("listening for wake-ups", c.clock, c.log, c.opts.Random)
	wake := func(shard int) {
		health.Worked()
		if shard >= 0 && shard < len(loops) {
			loops[shard].woken.Set()
		}
	}
	for {
		began := c.clock.Now()
		err := c.store.Wakeups(ctx, wake)
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
		// Wake-ups may be lost.
		for _, l := range loops {
			l.woken.Set()
		}
	}
}
