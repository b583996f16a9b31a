package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/internal/kit/metered"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/internal/services/events"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/redisstore"
)

// openStore opens the store of the settings: Redis, or by default a store in the data
// directory.
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

// openInner does not wait for Redis: until it answers, duehook is not ready. A Redis that
// is too old or has another layout is an error.
func (n *node) openInner(ctx context.Context) (store.Store, error) {
	n.restrictDataDir()
	if n.Config.Embedded() {
		s, err := diskstore.Open(diskstore.Options{Dir: n.Config.DataDir, Clock: n.clock, Retention: n.Config.Retention, Logger: n.Logger})
		if err == nil {
			n.disk, n.takes = s, s.Takes
		}
		return s, err
	}
	if err := n.checkStranded(); err != nil {
		return nil, err
	}
	s, err := redisstore.Open(ctx, redisstore.Options{
		URL: n.Config.RedisURL, Namespace: n.Config.Namespace, Shards: n.Config.Shards,
		MinReplicas: n.Config.RedisMinReplicas, ReplicaWait: n.Config.RedisReplicaWait,
		Retention: n.Config.Retention, Logger: n.Logger,
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
	n.takes = s.Takes
	return s, nil
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

// checkStranded refuses a node on Redis whose data directory has jobs that it would never deliver. A directory that
// another node has open is that one's concern.
func (n *node) checkStranded() error {
	r, err := n.openDiskReader()
	switch {
	case errors.Is(err, diskstore.ErrNothing), errors.Is(err, diskstore.ErrInUse):
		return nil
	case err != nil:
		return fmt.Errorf("the data directory may have jobs that a node on Redis would never deliver: %w", err)
	}
	return errors.Join(strandedJobs(n.Config.DataDir, r), r.Close())
}

// strandedJobs is an error if there are unfinished jobs. Both ways out keep the master key and the secrets.
func strandedJobs(dir string, r diskstore.Reader) error {
	has := r.Contents()
	if has.Unfinished == 0 {
		return nil
	}
	return fmt.Errorf("%s has %d unfinished jobs, which a node on Redis would never deliver: either start a node on it without --redis-url, move its jobs with duehook export and import, and then remove %s/jobs and %s/jobs.*; or name another directory with --data-dir, with copies of %s and %s",
		dir, has.Unfinished, dir, dir, masterKeyFile, signingSecretFile)
}

// redisLook is how long the start waits for Redis.
const redisLook = 2 * time.Second
