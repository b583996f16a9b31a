package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/duehook/duehook/httpapi/camellia"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/internal/kit/metered"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/internal/services/events"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/node/config"
	"github.com/duehook/duehook/scheduler/schedules"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/ledger"
	"github.com/duehook/duehook/store/redisstore"
)

// openStore opens the store of the settings: Redis, with a ledger if there is one, or by
// default a store in the data directory.
func (n *node) openStore(ctx context.Context) (store.Store, error) {
	inner, err := n.openInner(ctx)
	if err != nil {
		return nil, err
	}
	s := store.Store(inner)
	if n.Config.LedgerURL != "" {
		durable, err := n.openLedger(ctx, inner)
		if err != nil {
			return nil, errors.Join(err, inner.Close())
		}
		s = durable
	}
	n.events = events.New(events.Options{Bus: s, Clock: n.clock, Logger: n.Logger})
	n.counts = alerts.NewCounts(s, n.clock, n.Logger)
	n.recent = n.newRecorder(s)
	n.runs = schedules.NewRunLog(s, n.clock, n.Logger)
	callbacks, err := metered.Callbacks(n.metrics)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	subscribers := []feed.Subscriber{n.events.Subscriber(), n.counts.Subscriber(), n.recent.Subscriber(), n.runs.Subscriber(), callbacks}
	if slices.Contains(n.Config.Dialects, camellia.Name) {
		n.monitor = camellia.NewMonitor(n.clock)
		subscribers = append(subscribers, n.monitor.Subscriber())
	}
	observed, err := metered.Store(feed.Observe(s, subscribers...), n.metrics)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	failing, err := withFailpoints(observed)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if n.Dev != nil {
		return n.Dev.Watch(failing), nil
	}
	return failing, nil
}

// openLedger makes the store of nodes on Redis durable.
func (n *node) openLedger(ctx context.Context, inner store.Restorable) (store.Store, error) {
	c := n.Config
	s, err := ledger.Open(ctx, ledger.Options{
		URL: c.LedgerURL, Namespace: c.Namespace, Store: inner,
		Clock: n.clock, Host: n.host, Logger: n.Logger, Metrics: n.metrics,
		StoreRetention: storeRetention(c), Retention: max(c.LedgerRetention, job.KeepOccurrence),
		BeforeRestore: n.restoreLimits,
	})
	if err != nil {
		return nil, err
	}
	n.ledger, n.restore = s, s
	return s, nil
}

// restoreLimits sets the limits of topics again in a store that lost data, before the
// store gets its jobs back.
func (n *node) restoreLimits(ctx context.Context) error {
	if m := n.topics.Load(); m != nil {
		return m.Reconcile(ctx)
	}
	return nil
}

// storeRetention is how long the store keeps a finished job.
func storeRetention(c *config.Config) time.Duration {
	if c.LedgerURL == "" {
		return c.Retention
	}
	return max(c.Retention, ledger.MinStoreRetention)
}

// openInner does not wait for Redis: until it answers, duehook is not ready. A Redis that
// is too old or has another layout is an error.
func (n *node) openInner(ctx context.Context) (store.Restorable, error) {
	if n.Config.Embedded() {
		s, err := diskstore.Open(diskstore.Options{Dir: n.Config.DataDir, Clock: n.clock, Retention: n.Config.Retention, Logger: n.Logger})
		n.disk = s
		return s, err
	}
	s, err := redisstore.Open(ctx, redisstore.Options{
		URL: n.Config.RedisURL, Namespace: n.Config.Namespace, Shards: n.Config.Shards,
		MinReplicas: n.Config.RedisMinReplicas, ReplicaWait: n.Config.RedisReplicaWait,
		Retention: storeRetention(n.Config), Logger: n.Logger,
	})
	if err != nil {
		return nil, err
	}
	ping, cancel := context.WithTimeout(ctx, redisLook)
	defer cancel()
	var tooOld *redisstore.VersionError
	var otherwise *redisstore.LayoutError
	n.away = s.Ping(ping)
	switch {
	case errors.As(n.away, &tooOld):
		return nil, errors.Join(tooOld, s.Close())
	case errors.As(n.away, &otherwise):
		return nil, errors.Join(otherwise, s.Close())
	}
	return s, nil
}

// redisLook is how long the start waits for Redis.
const redisLook = 2 * time.Second
