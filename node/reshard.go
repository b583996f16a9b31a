package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/node/config"
	"github.com/duehook/duehook/store/redisstore"
)

// errNoShards is the error of Reshard for the embedded store.
var errNoShards = errors.New("only jobs on Redis have shards: set --redis-url")

// Reshard moves the jobs of the settings' namespace on Redis to --shards, and reports
// it on w.
func Reshard(ctx context.Context, c *config.Config, w io.Writer) error {
	if c.Embedded() {
		return errNoShards
	}
	clock := job.SystemClock()
	began := clock.Now()
	r, err := redisstore.Reshard(ctx, redisstore.ReshardOptions{
		Options: redisstore.Options{
			URL: c.RedisURL, Namespace: c.Namespace, Shards: c.Shards,
			MinReplicas: c.RedisMinReplicas, ReplicaWait: c.RedisReplicaWait, Logger: slog.New(slog.DiscardHandler),
		},
		Report: func(r redisstore.Resharding) {
			_, _ = fmt.Fprintf(w, "%d of %d jobs looked at, %d moved, %d checked\n", r.Walked, r.Before.Jobs(), r.Moved, r.Checked)
		},
	})
	if err != nil {
		return fmt.Errorf("reshard: %w", err)
	}
	if r.Before.Jobs() == 0 && r.Moved == 0 && r.From == r.To {
		_, err = fmt.Fprintf(w, "the namespace %s has %d shards already\n", c.Namespace, r.To)
		return err
	}
	for _, line := range []struct {
		what          string
		before, after int64
	}{
		{"unfinished", r.Before.Unfinished, r.After.Unfinished},
		{"dead", r.Before.Dead, r.After.Dead},
		{"delivered", r.Before.Delivered, r.After.Delivered},
		{"cancelled", r.Before.Cancelled, r.After.Cancelled},
		{"expired", r.Before.Expired, r.After.Expired},
	} {
		_, failed := fmt.Fprintf(w, "%-10s  before %d, after %d\n", line.what, line.before, line.after)
		err = errors.Join(err, failed)
	}
	_, failed := fmt.Fprintf(w, "from %d to %d shards: %d jobs moved, %d found where they belong, %d that cannot be read; took %v\nstart all nodes with --shards %d\n",
		r.From, r.To, r.Moved, r.Checked, r.Unreadable, clock.Now().Sub(began).Round(1e8), r.To)
	return errors.Join(err, failed)
}
