package carrier

import (
	"context"
	"errors"
	"time"

	"github.com/duehook/duehook/internal/kit/outage"
)

// settled is how long a subscription must have lasted to count as having
// worked, when nothing came over it.
const settled = time.Minute

var errSourceEnded = errors.New("the source of wake-ups ended")

// listen passes the store's wake-ups on to the loops. They are hints: while
// none can be had, the loops poll.
func (c *Carrier) listen(ctx context.Context, loops []*loop) {
	health := outage.New("listening for wake-ups", c.clock, c.log, c.opts.Random)
	wake := func(shard int) {
		health.Worked()
		if shard >= 0 && shard < len(loops) {
			loops[shard].wake()
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
		// Wake-ups may have been lost meanwhile.
		for _, l := range loops {
			l.wake()
		}
	}
}
