package carrier

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/store"
)

// unlockTimeout bounds the release of a lock at shutdown, by the machine's clock.
const unlockTimeout = 2 * time.Second

// keeper tries to hold the lock of one shard. It runs beside the shard's loop, so an
// unreachable lock never delays a job.
type keeper struct {
	lock  store.Locker
	ttl   time.Duration
	clock job.Clock
	log   *slog.Logger
	// moved is called when the loop need no longer lag.
	moved  func()
	health *loops.Outage
	gauge  prometheus.Gauge

	mine   bool        // this node may hold the lock; used by run only
	behind atomic.Bool // see standby
}

func (c *Carrier) newKeeper(shard int, log *slog.Logger, moved func()) *keeper {
	k := &keeper{
		lock:   c.opts.Lists.Locker(shard),
		ttl:    c.opts.LockTTL,
		clock:  c.clock,
		log:    log,
		moved:  moved,
		health: loops.NewOutage("taking the carrier's lock", c.clock, log, c.opts.Random),
		gauge:  c.metrics.lockHeld(shard),
	}
	k.behind.Store(true) // until the first answer
	return k
}

// standby reports whether another carrier holds the lock, as far as this node knows.
// While the lock service is down, none does.
func (k *keeper) standby() bool { return k.behind.Load() }

// run takes the lock, holds it until ctx ends, and releases it.
func (k *keeper) run(ctx context.Context) {
	defer k.release(ctx)
	for ctx.Err() == nil {
		k.try(ctx)
		_ = job.Sleep(ctx, k.clock, k.ttl/3)
	}
}

func (k *keeper) try(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, k.ttl/3)
	defer cancel()
	held, err := k.extendOrTake(call)
	if err != nil {
		k.health.Note(ctx, err)
	} else {
		k.health.Worked()
	}
	k.gauge.Set(0)
	if held {
		k.gauge.Set(1)
	}
	ahead := held || err != nil
	if k.behind.Swap(!ahead) && ahead {
		k.moved()
	}
}

// extendOrTake extends a lock that this node may hold, or takes it. After a failed
// extension the next call extends again: the lock may still be held, and taking it
// would fail.
func (k *keeper) extendOrTake(ctx context.Context) (bool, error) {
	if k.mine {
		held, err := k.lock.Extend(ctx)
		if held || err != nil {
			return held, err
		}
	}
	held, err := k.lock.TryLock(ctx, k.ttl)
	k.mine = held && err == nil
	return k.mine, err
}

// release releases the lock, so that another node takes it at once and not after its
// TTL.
func (k *keeper) release(ctx context.Context) {
	k.gauge.Set(0)
	if !k.mine {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()
	if err := k.lock.Unlock(ctx); err != nil {
		k.log.Warn("cannot release the carrier's lock; it expires", "ttl", k.ttl, "error", err)
	}
}
