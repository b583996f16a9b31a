// Package ledger makes durable a store that several nodes share, such as Redis. The nodes
// write one ledger: tables on a SQL server. They reconcile it with the store: they restore
// what the store lost, and keep an old copy of it from sending what has ended.
//
// The store makes every change first. Whichever node made the call writes it to the ledger then,
// and answers a registration or a change after the commit. So the rows of a job may come in any order, and those of
// several registrations of one key as well: the group sorts them out (places.go). Callers
// that wait for a commit share it (committer.go).
package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Options configure a Store. URL and Store are required.
type Options struct {
	// URL locates the ledger: postgres:// or mysql://user:password@host/database.
	URL string
	// Store is the store that Open wraps: one that other processes use and that outlives
	// this one. Closing the result closes it; if Open fails, it stays the caller's.
	Store store.Restorable
	// Namespace owns the jobs, DefaultNamespace if empty. A ledger belongs to the first
	// namespace that opens it.
	Namespace string
	// Metrics registers the metrics; nil: no metrics.
	Metrics prometheus.Registerer
	// Clock must be the store's; nil is the machine's.
	Clock job.Clock
	// Host names this machine in the flow of jobs; empty is its hostname.
	Host string
	// Logger; nil discards messages.
	Logger *slog.Logger
	// StoreRetention is how long the store keeps a job that was delivered, cancelled or
	// expired, at least MinStoreRetention.
	StoreRetention time.Duration
	// Retention is how long the ledger keeps such jobs, at least StoreRetention. A store that
	// goes further back in time sends ended jobs again. Dead letters and unfinished jobs are
	// always kept.
	Retention time.Duration
	Pace      Pace
	// BeforeRestore is called before jobs are restored to a store that has lost some, to
	// restore its other data first; may be nil.
	BeforeRestore func(ctx context.Context) error
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
	o.Pace.setDefaults()
}

// MinStoreRetention is the least Options.StoreRetention: the store must show how a job
// ended until the ledger surely knows it, or an ended job looks like a lost one.
const MinStoreRetention = 10 * time.Minute

// Store is a store.Store that shares a ledger with other nodes. Reads go to the wrapped
// store: it keeps what it reports by itself. Its methods are safe for concurrent use.
type Store struct {
	store.Reader
	passed
	comparer
	o         Options
	st        *statements
	committer *committer
	metrics   *metrics
	keys      keyLocks

	closing context.Context // ends when Close begins
	cancel  context.CancelFunc
	calls   sync.WaitGroup // that use the ledger

	dropping  atomic.Bool   // rows are dropped, and that was logged
	checkFrom atomic.Int64  // the instant until which claims go unchecked; zero: the ledger answers
	asked     chan struct{} // a run of the reconciler was asked for

	mu       sync.Mutex
	closed   bool
	compared time.Time // when the last full pass of this process began
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Restoring = (*Store)(nil)
)

// passed are the calls of the wrapped store that the ledger does not record. Each is written
// out, so that a new method of store.Store needs a decision.
type passed interface {
	Publish(ctx context.Context, channel string, message []byte) error
	Listen(ctx context.Context, channel string, receive func(message []byte)) error
	Locker(shard int) store.Locker
	Pop(ctx context.Context, shard, limit int, wait time.Duration) ([]store.Hint, error)
	SetCircuit(ctx context.Context, endpoint string, to store.CircuitState, d time.Duration) error
	SetLimits(ctx context.Context, topic string, l store.Limits) error // they follow from documents
}

// Open opens the ledger and returns it and the store as one Store. It restores nothing,
// because other nodes may be running: Run does.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Store == nil || o.URL == "" {
		return nil, errors.New("ledger: Options need a Store and a URL")
	}
	o.setDefaults()
	s := &Store{Reader: o.Store, passed: o.Store, o: o, metrics: newMetrics(), asked: make(chan struct{}, 1)}
	s.inner = o.Store
	s.closing, s.cancel = context.WithCancel(context.Background())
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("ledger: %w", errors.Join(err, s.shut()))
	}
	s.committer = startCommitter(s)
	return s, nil
}

// open migrates the tables and prepares the statements.
func (s *Store) open(ctx context.Context) error {
	p, err := openPools(ctx, s.o.URL)
	if err != nil {
		return err
	}
	s.reader = &reader{pools: p, clock: s.o.Clock}
	for _, step := range []func() error{
		func() error { return migrate(ctx, p) },
		func() error { return belong(ctx, p, s.o.Namespace) },
		func() error { return s.prepare(ctx) },
		func() (err error) { s.st, err = prepare(ctx, p); return err },
		func() error { return s.metrics.register(s.o.Metrics) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// errClosed is the error of calls after Close.
var errClosed = fmt.Errorf("%w: the ledger is closed", store.ErrUnavailable)

// enter begins a call that uses the ledger. The caller must leave unless it got an error.
func (s *Store) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.calls.Add(1)
	return nil
}

// leave ends a call.
func (s *Store) leave() { s.calls.Done() }

// Ping reports whether the store and the ledger can serve.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.inner.Ping(ctx); err != nil {
		return err
	}
	if err := s.owing(); err != nil {
		return err // the committer retries
	}
	if s.broken() == nil && s.committer.wroteSince(s.o.Clock.Now().Add(-provenFor)) {
		return nil
	}
	// Without a probe, the next commit may wait until this call reports success.
	return s.probe(ctx)
}

// Outlook returns the outlook of the wrapped store.
func (s *Store) Outlook(ctx context.Context, key job.Key) (store.Outlook, error) {
	o, err := s.inner.Outlook(ctx, key)
	o.AwaitsWhole = true
	return o, err
}

// Purge deletes ended jobs that are older than their retention, up to limit at a time, in
// the store if it may (see mayForget) and in the ledger. It returns how many jobs the store
// deleted.
func (s *Store) Purge(ctx context.Context, limit int) (n int, err error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	if s.mayForget() {
		if n, err = s.inner.Purge(ctx, limit); err != nil {
			return n, err
		}
	}
	p := &purge{until: job.InstantOf(s.o.Clock.Now()).Add(-s.o.Retention), limit: limit, deleted: limit}
	for limit > 0 && p.deleted == limit && ctx.Err() == nil && s.closing.Err() == nil {
		if err := s.commit(ctx, write{add: func(g *group) { g.purges = append(g.purges, p) }}); err != nil {
			return n, err
		}
	}
	return n, nil
}

// mayForget reports whether the store may delete jobs that ended longer ago than its
// retention: if a full pass began since. Otherwise the ledger could restore a job whose end
// only the store has, because another node has not written it yet. So the reconciling node
// purges the store.
func (s *Store) mayForget() bool {
	s.mu.Lock()
	compared := s.compared
	s.mu.Unlock()
	return !compared.IsZero() && s.o.Clock.Now().Sub(compared) < s.o.StoreRetention
}

// setCompared notes that all jobs were compared, and when that began.
func (s *Store) setCompared(began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compared = began
}

// Close writes pending changes, and closes the ledger and the wrapped store. A second call
// does nothing.
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

// shut closes everything that open opened.
func (s *Store) shut() error {
	s.cancel()
	if s.reader == nil {
		return nil
	}
	return s.reader.close()
}
