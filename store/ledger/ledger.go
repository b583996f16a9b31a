// Package ledger makes any store durable: it wraps one and keeps a journal of
// its jobs in SQL, from which everything unfinished is put back after a crash.
//
// A registration is committed to the journal before the store hears of it, and
// answered after that; what happens to a job later is done by the store first
// and journalled then. So a crash can cause a delivery to be repeated, and
// never a job to be lost. Callers that wait for a commit share it.
//
// A journal belongs to one process, whose store is in memory, or to the nodes
// that share one.
package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Options configure a Store. URL and Store are required.
type Options struct {
	// URL is where the journal is: sqlite:path, a file that is made if it is not
	// there, with its directory, or postgres:// or mysql://user:password@host/database.
	URL string
	// Store is the store to wrap. Closing the ledger closes it; when Open fails,
	// it stays the caller's.
	Store store.Store
	// Namespace is whose jobs these are, DefaultNamespace if empty. A journal
	// belongs to one, the first that opens it.
	Namespace string
	// Shared: the wrapped store is one that other processes use and that outlives
	// this one, such as Redis. They write the same journal, and nothing is put
	// back at the start. Not set, the journal is this process's alone.
	Shared bool
	// AcceptWithout takes registrations and changes although the journal cannot be
	// written, which gets them later: until then they are in the store alone. For
	// a Shared store only.
	AcceptWithout bool
	// Metrics is where the metrics are registered; nowhere by default.
	Metrics prometheus.Registerer
	// Clock must be the wrapped store's; nil is the machine's.
	Clock job.Clock
	// Host names this machine in the flow of jobs; empty is its hostname.
	Host string
	// Logger gets what an operator should know; nil discards it.
	Logger *slog.Logger
	// StoreRetention is for how long the wrapped store keeps a job that was
	// delivered, cancelled or expired: that long, such jobs are put back into it.
	StoreRetention time.Duration
	// Retention is for how long the journal keeps them; less than StoreRetention
	// means StoreRetention. Dead letters and unfinished jobs are always kept. A
	// shared store that goes further back in time than that sends them again.
	Retention time.Duration
	// Sweep is the pace of Store.Sweep.
	Sweep SweepOptions
	// BeforeRestore is called before jobs are put back into a store that has lost
	// some, to give back first what else it lost; may be nil.
	BeforeRestore func(ctx context.Context) error
}

// MinStoreRetention is the least Options.StoreRetention of a shared store: how
// a job ended must be seen there until the journal surely knows it, or a job
// that has ended cannot be told from one that was lost.
const MinStoreRetention = 10 * time.Minute

// Store is a store.Store with a journal. Questions go to the wrapped store
// directly.
type Store struct {
	store.Reader
	inner store.Store

	o         Options
	pools     *pools
	read      *sql.DB
	st        *statements
	committer *committer
	metrics   *metrics
	keys      keyLocks
	compare   *comparer
	check     claimCheck
	sweepNow  chan struct{} // a run was asked for
	bad       unreadables   // what could not be put back at the start

	closing context.Context // ends when Close begins
	cancel  context.CancelFunc
	calls   sync.WaitGroup // that use the journal

	mu     sync.Mutex
	closed bool
	swept  time.Time          // when the last complete comparison by this process began
	unsure map[job.Key]string // the uids of registrations that may be committed, and of which the store gave no answer
}

var _ store.Store = (*Store)(nil)

// Open opens the journal, brings its tables up to date, puts back what the
// store lacks, and gives the two as one Store.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.URL == "" || o.Store == nil {
		return nil, errors.New("ledger: Options need a URL and a Store")
	}
	if o.AcceptWithout && !o.Shared {
		return nil, errors.New("ledger: without the journal, a store of this process alone would lose what it accepts")
	}
	o.setDefaults()
	s := &Store{Reader: o.Store, inner: o.Store, o: o, metrics: newMetrics(), unsure: map[job.Key]string{}, sweepNow: make(chan struct{}, 1)}
	s.closing, s.cancel = context.WithCancel(context.Background())
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("ledger: %w", err), s.shut())
	}
	return s, nil
}

func (o *Options) setDefaults() {
	if o.Clock == nil {
		o.Clock = job.SystemClock()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Host == "" {
		o.Host, _ = os.Hostname() // the flow is as good without
	}
	o.Namespace = cmp.Or(o.Namespace, DefaultNamespace)
	o.Retention = max(o.Retention, o.StoreRetention)
	o.Sweep.setDefaults()
}

func (s *Store) open(ctx context.Context) error {
	d, err := dialectFor(s.o.URL)
	if err != nil {
		return err
	}
	if s.pools, err = d.open(ctx); err != nil {
		return err
	}
	s.read = s.pools.read
	if file, is := d.(*sqlite); is {
		if err := file.convert(ctx, s.pools.write); err != nil {
			s.o.Logger.Warn("the journal could not be made over so that it can shrink; it works as it is", "error", err)
		}
	}
	if err := s.migrate(ctx, d); err != nil {
		return err
	}
	// Before the claim, which may take the journal from others.
	if err := checkNamespace(ctx, s.pools, d, s.o.Namespace); err != nil {
		return err
	}
	if err := d.claim(ctx, s.pools, s.o.Shared); err != nil {
		return err
	}
	if err := belong(ctx, s.pools, d, s.o.Namespace); err != nil {
		return err
	}
	if s.st, err = prepare(ctx, d, s.pools.write, s.o.Shared); err != nil {
		return err
	}
	if s.compare, err = newComparer(ctx, s.read, d, s.inner); err != nil {
		return err
	}
	next, err := s.nextSeq(ctx)
	if err != nil {
		return err
	}
	if err := s.metrics.register(s.o.Metrics); err != nil {
		return err
	}
	if !s.o.Shared {
		if err := s.restore(ctx); err != nil {
			return err
		}
	}
	s.committer = startCommitter(s.pools.write, s.st, next, &s.o, s.metrics)
	return nil
}

// nextSeq is the seq of the next message, or zero where the server counts.
func (s *Store) nextSeq(ctx context.Context) (int64, error) {
	if _, alone := s.st.dialect.(*sqlite); !alone {
		return 0, nil
	}
	var last int64
	if err := s.read.QueryRowContext(ctx, sqlLastSeq).Scan(&last); err != nil {
		return 0, fmt.Errorf("read the journal: %w", err)
	}
	return last + 1, nil
}

// migrate brings the tables up to date. Those of a newer version are refused.
func (s *Store) migrate(ctx context.Context, d dialect) error {
	dir, dialect := d.dir()
	files, err := fs.Sub(migrations, dir)
	if err != nil {
		return fmt.Errorf("migrate the journal: %w", err)
	}
	p, err := goose.NewProvider(dialect, s.pools.write, files)
	if err != nil {
		return fmt.Errorf("migrate the journal: %w", err)
	}
	return d.migrating(ctx, s.pools, func() error {
		has, knows, err := p.GetVersions(ctx)
		if err != nil {
			return fmt.Errorf("migrate the journal: %w", err)
		}
		if has > knows {
			return fmt.Errorf("the journal was written by a newer duehook (its tables have version %d, this one knows %d)", has, knows)
		}
		if _, err := p.Up(ctx); err != nil {
			return fmt.Errorf("migrate the journal: %w", err)
		}
		return nil
	})
}

// errClosed is what calls get after Close.
var errClosed = fmt.Errorf("%w: the ledger is closed", store.ErrUnavailable)

// enter begins a call that uses the journal; the caller must leave unless it
// got an error.
func (s *Store) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.calls.Add(1)
	return nil
}

func (s *Store) leave() { s.calls.Done() }

// Ping reports whether the store and the journal can serve. If the store can
// without, the error wraps store.ErrDegraded.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.inner.Ping(ctx); err != nil {
		return err
	}
	err := s.pingJournal(ctx)
	if s.doWithout(err) {
		return fmt.Errorf("%w: the ledger is down: %w", store.ErrDegraded, err)
	}
	return err
}

func (s *Store) pingJournal(ctx context.Context) error {
	if err := s.committer.owing(); err != nil {
		return err // it is tried again all the time
	}
	if s.committer.lastError() == nil {
		return nil
	}
	// The last commit failed, and there may be no other before somebody says
	// that the store can serve again.
	done := s.committer.submit(&entry{add: func(g *group) { g.probe = true }})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: the journal does not answer: %w", store.ErrUnavailable, ctx.Err())
	}
}

// doWithout reports whether err of the journal is one that clients need not
// hear of, for the store can do without. Somebody else's journal is not down.
func (s *Store) doWithout(err error) bool {
	return s.o.AcceptWithout && errors.Is(err, store.ErrUnavailable) && !errors.Is(err, errOvertaken)
}

// Close writes what waits to be journalled and closes the journal and the
// wrapped store.
func (s *Store) Close() error {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	if was {
		return nil
	}
	s.cancel()
	s.calls.Wait()
	err := s.committer.stop()
	return errors.Join(err, s.inner.Close(), s.shut())
}

// shut gives back what was opened.
func (s *Store) shut() error {
	s.cancel()
	var errs []error
	if s.compare != nil {
		errs = append(errs, s.compare.close())
	}
	if s.st != nil {
		errs = append(errs, s.st.close())
	}
	if s.pools != nil {
		errs = append(errs, s.pools.close())
	}
	return errors.Join(errs...)
}
