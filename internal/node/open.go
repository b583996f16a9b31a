package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/internal/kit/metered"
	"github.com/duehook/duehook/internal/node/config"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/internal/services/events"
	"github.com/duehook/duehook/internal/services/hold"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/redisstore"
	"github.com/duehook/duehook/store/sqlstore"
)

// openStore opens the store of the settings: Redis, PostgreSQL, or by default a store in the
// data directory.
func (n *node) openStore(ctx context.Context) (store.Store, error) {
	s, err := n.openInner(ctx)
	if err != nil {
		return nil, err
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
	subscribers = append(subscribers, n.dialectSubscribers()...)
	observed, lists, err := metered.Store(feed.Observe(s, subscribers...), n.lists, n.metrics)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	failing, lists, err := withFailpoints(observed, lists)
	n.lists = lists
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if n.Dev != nil {
		return n.Dev.Watch(failing), nil
	}
	n.hold = hold.New(hold.Options{
		Store: s, Pause: n.Config.StartPaused, Now: func(ctx context.Context) (job.Instant, error) { return store.Now(ctx, s) },
		Clock: n.clock, Logger: n.Logger,
	})
	failing, n.lists = n.hold.Over(failing, n.lists)
	return failing, nil
}

// openInner does not wait for a server: until it answers, duehook is not ready. A server that
// is too old or has another layout is an error.
func (n *node) openInner(ctx context.Context) (store.Store, error) {
	n.restrictDataDir()
	if n.Config.Store() == config.StoreEmbedded {
		clock := n.clock
		if n.Dev != nil {
			clock = n.Dev.Clock.Exact()
		}
		s, err := diskstore.Open(diskstore.Options{Dir: n.Config.DataDir, Clock: clock, Retention: n.Config.Retention, Logger: n.Logger})
		if err == nil {
			n.disk, n.takes = s, s.Takes
		}
		return s, err
	}
	if err := n.checkStranded(ctx); err != nil {
		return nil, err
	}
	if n.Config.Store() == config.StorePostgres {
		return n.openPostgres(ctx)
	}
	return n.openRedis(ctx)
}

func (n *node) openRedis(ctx context.Context) (store.Store, error) {
	s, err := redisstore.Open(ctx, redisOptions(n.Config, n.Logger))
	if err != nil {
		return nil, err
	}
	ping, cancel := context.WithTimeout(ctx, firstLook)
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
	n.lists, n.takes = s, s.Takes
	return s, nil
}

func (n *node) openPostgres(ctx context.Context) (store.Store, error) {
	s, err := sqlstore.Open(ctx, postgresOptions(n.Config, n.Logger))
	if err != nil {
		return nil, err
	}
	look, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	if n.away = s.Ping(look); errors.Is(n.away, store.ErrOtherLayout) {
		return nil, errors.Join(n.away, s.Close())
	}
	n.takes, n.watch = s.Takes, &serverWatch{facts: s.Facts, log: n.Logger}
	if err := metered.Register(n.metrics, "PostgreSQL", n.watch); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func redisOptions(c *config.Config, log *slog.Logger) redisstore.Options {
	return redisstore.Options{
		URL: c.RedisURL, Namespace: c.Namespace, Shards: c.Shards,
		MinReplicas: c.RedisMinReplicas, ReplicaWait: c.RedisReplicaWait, Retention: c.Retention, Logger: log,
	}
}

func postgresOptions(c *config.Config, log *slog.Logger) sqlstore.Options {
	return sqlstore.Options{
		URL: c.PostgresURL, DirectURL: c.PostgresDirectURL, Schema: c.PostgresSchema, MaxConns: c.PostgresConnections,
		Retention: c.Retention, Logger: log,
	}
}

// restrictDataDir closes a data directory to other users: it may be a copy that was made with other modes.
func (n *node) restrictDataDir() {
	if n.Config.DataDir == "" {
		return
	}
	err := diskstore.Restrict(n.Config.DataDir, masterKeyFile, signingSecretFile, controlSocket)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.Logger.Warn("other users can read the data directory: change its owner or its modes", "error", err)
	}
}

// openDiskReader opens the jobs in the data directory for reading.
func (n *node) openDiskReader() (diskstore.Reader, error) {
	if n.Config.DataDir == "" {
		return nil, diskstore.ErrNothing
	}
	return diskstore.OpenReader(diskstore.Options{Dir: n.Config.DataDir, Clock: n.clock, Logger: n.Logger})
}

// checkStranded refuses a node on a server whose data directory has what it would never see. A directory that
// another node has open is that one's concern.
func (n *node) checkStranded(ctx context.Context) error {
	r, err := n.openDiskReader()
	switch {
	case errors.Is(err, diskstore.ErrNothing), errors.Is(err, diskstore.ErrInUse):
		return nil
	case err != nil:
		return fmt.Errorf("the data directory may have jobs that a node on %s would never see: %w", serverOf(n.Config), err)
	}
	return errors.Join(stranded(ctx, n.Config, r), r.Close())
}

// stranded is an error if there are unfinished jobs, dead letters or schedules. Both ways out keep the master key and the secrets.
func stranded(ctx context.Context, c *config.Config, r diskstore.Reader) error {
	has, dir := r.Contents(), c.DataDir
	var what []string
	if has.Unfinished > 0 {
		what = append(what, fmt.Sprintf("%d unfinished jobs", has.Unfinished))
	}
	if has.Dead > 0 {
		what = append(what, fmt.Sprintf("%d dead letters", has.Dead))
	}
	some, err := schedules.Any(ctx, r)
	if err != nil {
		return err
	}
	if some {
		what = append(what, "schedules")
	}
	if len(what) == 0 {
		return nil
	}
	return fmt.Errorf("%s has %s, which a node on %s would never see: either move all with duehook export --all and import --all, and then remove %s/jobs and %s/jobs.*; or name another directory with --data-dir, with copies of %s and %s",
		dir, strings.Join(what, " and "), serverOf(c), dir, dir, masterKeyFile, signingSecretFile)
}

// serverOf is the server of the settings' store, for messages.
func serverOf(c *config.Config) string {
	if c.Store() == config.StorePostgres {
		return "PostgreSQL"
	}
	return "Redis"
}

// firstLook is how long the start waits for the server of the store.
const firstLook = 2 * time.Second
