package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Options configure a journal. URL and Store are required.
type Options struct {
	// URL locates the journal: sqlite:path, or postgres:// or mysql://user:password@host/database.
	// A missing file is created with its directory.
	URL string
	// Store is the store that Open wraps. Closing the result closes it; if Open
	// fails, it stays the caller's.
	Store store.Restorable
	// Namespace owns the jobs, DefaultNamespace if empty. A journal belongs to the
	// first namespace that opens it.
	Namespace string
	// Metrics registers the metrics; nil: no metrics.
	Metrics prometheus.Registerer
	// Clock must be the store's; nil is the machine's.
	Clock job.Clock
	// Host names this machine in the flow of jobs; empty is its hostname.
	Host string
	// Logger; nil discards messages.
	Logger *slog.Logger
	// StoreRetention is how long the store keeps a job that was delivered, cancelled
	// or expired. Jobs that ended within that time are restored, too.
	StoreRetention time.Duration
	// Retention is how long the journal keeps such jobs, at least StoreRetention. Dead
	// letters and unfinished jobs are always kept.
	Retention time.Duration
	// Unsynced: a journal in SQLite does not wait for the disk. It survives the end of
	// the process, but no power failure. For tests.
	Unsynced bool
}

func (o *Options) setDefaults() {
	if o.Clock == nil {
		o.Clock = job.SystemClock()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Host == "" {
		o.Host, _ = os.Hostname() // the flow works without it
	}
	o.Namespace = cmp.Or(o.Namespace, DefaultNamespace)
	o.Retention = max(o.Retention, o.StoreRetention)
}

// Journal is the tables and the committer that writes them. Its methods are safe
// for concurrent use.
type Journal struct {
	*Reader
	o         Options
	rules     func(*Group) Rules // nil: one process writes
	st        *statements
	committer *committer
	metrics   *metrics
	keys      keyLocks
	applying  *semaphore.Weighted // of calls that have changed the store and queue the change next

	closing context.Context // ends when Close begins
	cancel  context.CancelFunc
	calls   sync.WaitGroup // that use the journal

	mu     sync.Mutex
	closed bool
}

// open migrates the tables and locks the journal, for this process or for the nodes that
// share it.
func (j *Journal) open(ctx context.Context) error {
	d, err := dialectFor(j.o.URL)
	if err != nil {
		return err
	}
	if file, is := d.(*sqlite); is {
		file.unsynced = j.o.Unsynced
	}
	p, err := d.open(ctx)
	if err != nil {
		return err
	}
	j.Reader = &Reader{pools: p, words: d.words(), clock: j.o.Clock}
	if err := migrate(ctx, p, d); err != nil {
		return err
	}
	// Before the claim, which may take the journal from others.
	if err := checkNamespace(ctx, p, d, j.o.Namespace); err != nil {
		return err
	}
	if err := d.claim(ctx, p, j.shared()); err != nil {
		return err
	}
	if err := belong(ctx, p, d, j.o.Namespace); err != nil {
		return err
	}
	if err := j.prepare(ctx); err != nil {
		return err
	}
	if j.st, err = prepare(ctx, d, p.write, j.shared()); err != nil {
		return err
	}
	return j.metrics.register(j.o.Metrics)
}

// Options returns the options of the journal, with their defaults.
func (j *Journal) Options() Options { return j.o }

func (j *Journal) shared() bool { return j.rules != nil }

// start begins to write.
func (j *Journal) start(ctx context.Context) error {
	next := int64(0) // the server counts
	if _, alone := j.st.dialect.(*sqlite); alone {
		if err := j.pools.read.QueryRowContext(ctx, sqlLastSeq).Scan(&next); err != nil {
			return fmt.Errorf("read the journal: %w", err)
		}
		next++
	}
	j.committer = startCommitter(j, next)
	return nil
}

// migrate migrates the tables. It refuses tables of a newer version.
func migrate(ctx context.Context, pools *pools, d dialect) error {
	p, err := provider(pools, d)
	if err != nil {
		return err
	}
	return d.migrating(ctx, pools, func() error {
		has, knows, err := p.GetVersions(ctx)
		if err != nil {
			return fmt.Errorf("migrate the journal: %w", err)
		}
		if has > knows {
			return fmt.Errorf("the journal was written by a newer duehook (its tables have version %d, this one knows %d)", has, knows)
		}
		if has == knows {
			return nil
		}
		return pools.silence.patiently(migrationLimit, func() error {
			if _, err := p.Up(ctx); err != nil {
				return fmt.Errorf("migrate the journal: %w", err)
			}
			return nil
		})
	})
}

func provider(pools *pools, d dialect) (*goose.Provider, error) {
	dir, name := d.dir()
	files, err := fs.Sub(migrations, dir)
	if err != nil {
		return nil, fmt.Errorf("migrate the journal: %w", err)
	}
	p, err := goose.NewProvider(name, pools.write, files)
	if err != nil {
		return nil, fmt.Errorf("migrate the journal: %w", err)
	}
	return p, nil
}

// errClosed is the error of calls after Close.
var errClosed = fmt.Errorf("%w: the ledger is closed", store.ErrUnavailable)

// Enter begins a call that uses the journal. The caller must Leave unless it got an
// error.
func (j *Journal) Enter() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return errClosed
	}
	j.calls.Add(1)
	return nil
}

// Leave ends a call.
func (j *Journal) Leave() { j.calls.Done() }

// Ping reports whether the journal can be written.
func (j *Journal) Ping(ctx context.Context) error {
	if err := j.Owing(); err != nil {
		return err // the committer retries
	}
	if j.Broken() == nil && j.committer.wroteSince(j.o.Clock.Now().Add(-provenFor)) {
		return nil
	}
	// Without a probe, the next commit may wait until this call reports success.
	return j.await(ctx, func(g *Group) { g.probe = true })
}

// Close writes pending changes, and closes the journal and then the store above it. A
// second call does nothing.
func (j *Journal) Close(above func() error) error {
	j.mu.Lock()
	was := j.closed
	j.closed = true
	j.mu.Unlock()
	if was {
		return nil
	}
	j.cancel()
	j.calls.Wait()
	err := j.committer.stop()
	return errors.Join(err, above(), j.shut())
}

// shut closes everything that open opened.
func (j *Journal) shut() error {
	j.cancel()
	if j.Reader == nil {
		return nil
	}
	return j.Reader.Close()
}
