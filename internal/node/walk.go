package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/app/operations"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/node/config"
	"github.com/duehook/duehook/internal/services/leader"
	"github.com/duehook/duehook/internal/services/nodes"
	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/redisstore"
	"github.com/duehook/duehook/store/sqlstore"
	"github.com/duehook/duehook/store/walk"
)

// bare is a store without what a node puts around it.
type bare interface {
	store.Store
	store.Restoring
}

// openBare opens the store of the settings, on which no node needs to run. It forgets no ended job.
func openBare(ctx context.Context, c *config.Config, clock job.Clock) (bare, error) {
	log := slog.New(slog.DiscardHandler)
	retention := max(c.Retention, time.Hour)
	var s store.Store
	var err error
	switch c.Store() {
	case config.StoreRedis:
		o := redisOptions(c, log)
		o.Retention = retention
		s, err = redisstore.Open(ctx, o)
	case config.StorePostgres:
		o := postgresOptions(c, log)
		o.Retention = retention
		s, err = sqlstore.Open(ctx, o)
	default:
		s, err = diskstore.Open(diskstore.Options{Dir: c.DataDir, Clock: clock, Retention: retention, Logger: log})
	}
	if err != nil {
		return nil, err
	}
	return s.(bare), nil
}

// Walked is what ExportAll or ImportAll moved, in the JSON of duehook export --all and import --all.
type Walked struct {
	walk.Counts
	did string
}

func (w Walked) String() string {
	text := fmt.Sprintf("%s: %s\nleft behind: %s, and circuits, which begin closed", w.did, w.Counts.String(), w.LeftOut())
	if w.Documents[signing.Kind] > 0 {
		text += fmt.Sprintf("\nsigning secrets are sealed with the master key: copy %s and %s of the old data directory to the new one, or keep --master-key", masterKeyFile, signingSecretFile)
	}
	return text
}

// ExportAll writes all that the store of the settings has. No node may run on it. It reports its progress on w.
func ExportAll(ctx context.Context, c *config.Config, version string, to, w io.Writer) (Walked, error) {
	did := Walked{did: "exported"}
	clock := job.SystemClock()
	if err := hasJobs(c); err != nil {
		return did, err
	}
	s, err := openBare(ctx, c, clock)
	if err != nil {
		return did, err
	}
	if err = stopped(ctx, s, c); err == nil {
		did.Counts, err = walk.Export(ctx, s, to, walk.ExportOptions{
			Head:     walk.Head{ID: ulid.MustNew(ulid.Timestamp(clock.Now()), rand.Reader).String(), Version: version, Store: c.Store(), Namespace: c.Namespace},
			Document: carries, Report: progress(clock, w), Last: func(ctx context.Context) error { return stopped(ctx, s, c) },
		})
	}
	if err = errors.Join(err, s.Close()); err != nil {
		err = fmt.Errorf("export: %w", err)
	}
	return did, err
}

// ImportAll fills the store of the settings with what ExportAll wrote. No node may run on it. It reports its progress on w.
func ImportAll(ctx context.Context, c *config.Config, from io.Reader, w io.Writer) (Walked, error) {
	did := Walked{did: "imported"}
	clock := job.SystemClock()
	s, err := openBare(ctx, c, clock)
	if err != nil {
		return did, err
	}
	if err = stopped(ctx, s, c); err == nil {
		did.Counts, err = walk.Import(ctx, s, from, walk.ImportOptions{
			Passing: passes, Report: progress(clock, w),
			Check: func(h *walk.Head) error {
				if h.Namespace != c.Namespace {
					return fmt.Errorf("its API keys are of the namespace %s: use --namespace %s", h.Namespace, h.Namespace)
				}
				return nil
			},
		})
	}
	if err = errors.Join(err, s.Close()); err != nil {
		err = fmt.Errorf("import: %w", err)
	}
	return did, err
}

// stopped refuses a store on which a node runs. The embedded one is locked by its node.
func stopped(ctx context.Context, s bare, c *config.Config) error {
	if c.Embedded() {
		return nil
	}
	running, err := nodes.Running(ctx, nodes.Options{Store: s})
	if err == nil && len(running) > 0 {
		err = fmt.Errorf("nodes are running on the store: stop %s first; one that was killed counts for 90 seconds", strings.Join(running, ", "))
	}
	return err
}

// passes reports whether documents of a kind are about running nodes only. They stay behind.
func passes(kind string) bool { return kind == nodes.Kind || kind == leader.Kind }

// carries makes a document one for another store. It returns false if it stays behind.
func carries(d *store.Document) bool {
	operations.Restart(d)
	return !passes(d.Kind)
}

// progress reports the number of jobs every few seconds.
func progress(clock job.Clock, w io.Writer) func(*walk.Counts) {
	const every = 5 * time.Second
	last := clock.Now()
	return func(c *walk.Counts) {
		if now := clock.Now(); now.Sub(last) >= every {
			last = now
			_, _ = fmt.Fprintf(w, "%d jobs\n", c.All()) // progress is for people
		}
	}
}
