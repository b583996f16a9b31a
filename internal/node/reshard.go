package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/node/config"
	"github.com/duehook/duehook/store/redisstore"
)

// errNoShards is the error of Reshard for the embedded store.
var errNoShards = errors.New("only jobs on Redis have shards: set --redis-url")

// Resharded is what Reshard did, in the JSON of duehook reshard.
type Resharded struct {
	Namespace  string            `json:"namespace"`
	From       int               `json:"from"`
	To         int               `json:"to"`
	Before     redisstore.Census `json:"before"` // jobs by state
	After      redisstore.Census `json:"after"`
	Moved      int64             `json:"moved"`
	Unreadable int64             `json:"unreadable"`
	Took       time.Duration     `json:"-"`
}

func (r Resharded) String() string {
	if r.Before.Jobs() == 0 && r.Moved == 0 && r.From == r.To {
		return fmt.Sprintf("the namespace %s has %d shards already", r.Namespace, r.To)
	}
	var b strings.Builder
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
		_, _ = fmt.Fprintf(&b, "%-10s  before %d, after %d\n", line.what, line.before, line.after)
	}
	_, _ = fmt.Fprintf(&b, "from %d to %d shards: %d jobs moved, %d that cannot be read; took %v\nstart all nodes with --shards %d",
		r.From, r.To, r.Moved, r.Unreadable, r.Took.Round(1e8), r.To)
	return b.String()
}

// Reshard moves the jobs of the settings' namespace on Redis to --shards, and reports
// its progress on w.
func Reshard(ctx context.Context, c *config.Config, w io.Writer) (Resharded, error) {
	if c.Embedded() {
		return Resharded{}, errNoShards
	}
	clock := job.SystemClock()
	began := clock.Now()
	r, err := redisstore.Reshard(ctx, redisstore.ReshardOptions{
		Options: redisstore.Options{
			URL: c.RedisURL, Namespace: c.Namespace, Shards: c.Shards,
			MinReplicas: c.RedisMinReplicas, ReplicaWait: c.RedisReplicaWait, Logger: slog.New(slog.DiscardHandler),
		},
		Report: func(r redisstore.Resharding) {
			_, _ = fmt.Fprintf(w, "%d of %d jobs moved\n", r.Moved, r.Before.Jobs())
		},
	})
	if err != nil {
		return Resharded{}, fmt.Errorf("reshard: %w", err)
	}
	return Resharded{
		Namespace: c.Namespace, From: r.From, To: r.To, Before: r.Before, After: r.After,
		Moved: r.Moved, Unreadable: r.Unreadable, Took: clock.Now().Sub(began),
	}, nil
}
