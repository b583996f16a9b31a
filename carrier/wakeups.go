package carrier

import (
	"context"
	"errors"
	"time"
)

// settled is how long a subscription must have lasted to count as having
// worked, when nothing came over it.
const settled = time.Minute

var errSourceEnded = errors.New("the source of wake-ups ended")

// listen passes the store's wake-ups on to the loops. They are hints: while
// none can be had, the loops poll.
func (c *Carrier) listen(ctx context.Context, loops []*loop) {
	health := newOutage(c.log, "listening for wake-ups")
	wake := func(shard int) {
		health.worked()
		if shard >= 0 && shard < len(loops) {
			loops[shard].wake()
		}
	}
	backoff := newBackoff()
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
			health.worked()
			backoff = newBackoff()
		}
		health.failed(ctx, err)
		c.rest(ctx, backoff)
		// Wake-ups may have been lost meanwhile.
		for _, l := range loops {
			l.wake()
		}
	}
}
