// Package ledger makes durable a store that several nodes share, such as Redis. The
// nodes write one journal (package journal), and reconcile it with the store: they
// restore what the store lost, and keep an old copy of it from sending what has ended.
//
// A registration is committed to the journal before the store gets it. Every later
// change is made by the store first and journaled then, by whichever node made the
// call. So the rows of a job may come in any order, and those of several registrations
// of one key as well: the group sorts them out (rivals.go).
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
)

// Options configure a Store. URL and Store are required.
type Options struct {
	// URL, Namespace, Metrics, Clock, Host, Logger and Retention are those of
	// journal.Options. A store that goes further back in time than Retention sends
	// ended jobs again.
	URL       string
	Namespace string
	Metrics   prometheus.Registerer
	Clock     job.Clock
	Host      string
	Logger    *slog.Logger
	Retention time.Duration
	// Store is the store to wrap: one that other processes use and that outlives this
	// one. Closing the ledger closes it; if Open fails, it stays the caller's.
	Store store.Store
	// StoreRetention is how long Store keeps a job that was delivered, cancelled or
	// expired. For that long, such jobs are restored.
	StoreRetention time.Duration
	// AcceptWithout takes registrations and changes while the journal cannot be
	// written. The journal gets them later: until then only the store has them.
	AcceptWithout bool
	// Pace of the reconciler.
	Pace Pace
	// BeforeRestore is called before jobs are restored to a store that has lost some,
	// to restore first what else it lost; may be nil.
	BeforeRestore func(ctx context.Context) error
	// Unsynced is that of journal.Options.
	Unsynced bool
}

// MinStoreRetention is the least Options.StoreRetention: the store must show how a job
// ended until the journal surely knows it, or an ended job looks like a lost one.
const MinStoreRetention = 10 * time.Minute

// Store is a store.Store that shares a journal with other nodes. Reads go to the wrapped
// store: it keeps what it reports by itself.
type Store struct {
	journal.Passed
	*journal.Journal
	*Reconciler

	o        Options
	counts   *counts
	inDoubt  journal.InDoubt
	check    claimCheck
	dropping atomic.Bool // rows are dropped, and that was logged
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Restoring = (*Store)(nil)
)

// Open opens the journal and returns it and the store as one Store.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Store == nil {
		return nil, errors.New("ledger: Options need a Store")
	}
	if o.Clock == nil {
		o.Clock = job.SystemClock()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	j, err := journal.OpenShared(ctx, journal.Options{
		URL: o.URL, Namespace: o.Namespace, Metrics: o.Metrics, Clock: o.Clock, Host: o.Host, Logger: o.Logger,
		StoreRetention: o.StoreRetention, Retention: o.Retention, Unsynced: o.Unsynced,
	}, newGroup)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	s := &Store{Passed: journal.Passed{Reader: o.Store, Inner: o.Store}, Journal: j, o: o, counts: newCounts()}
	s.Reconciler, err = newReconciler(j, o.Store, ReconcilerOptions{
		Metrics: o.Metrics, Clock: o.Clock, Logger: o.Logger, StoreRetention: o.StoreRetention,
		Pace: o.Pace, BeforeRestore: o.BeforeRestore,
	}, rewriteShared)
	if err == nil {
		s.shared = true
		err = s.counts.register(o.Metrics)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ledger: %w", err), j.Close(func() error { return nil }))
	}
	return s, nil
}

// Ping reports whether the store and the journal can serve. If the store can serve
// without the journal, the error wraps store.ErrDegraded.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.Enter(); err != nil {
		return err
	}
	defer s.Leave()
	if err := s.Inner.Ping(ctx); err != nil {
		return err
	}
	err := s.Journal.Ping(ctx)
	if s.doWithout(err) {
		return fmt.Errorf("%w: the ledger is down: %w", store.ErrDegraded, err)
	}
	return err
}

// doWithout reports whether the store may go on without the journal, which failed with
// err. A journal that another process has taken over is not down.
func (s *Store) doWithout(err error) bool {
	return s.o.AcceptWithout && errors.Is(err, store.ErrUnavailable) && !errors.Is(err, journal.ErrOvertaken)
}

// Close writes what waits to be journaled and closes the journal and the wrapped
// store.
func (s *Store) Close() error { return s.Journal.Close(s.Inner.Close) }

// Restore puts jobs back into the journal and the store.
func (s *Store) Restore(ctx context.Context, jobs []store.RestoredJob) (int, error) {
	return s.PutBack(ctx, s.Inner, jobs)
}

// Purge lets the store delete ended jobs if it may (see mayForget), and deletes from the
// journal what is older than its retention. It returns how many jobs the store deleted.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	if err := s.Enter(); err != nil {
		return 0, err
	}
	defer s.Leave()
	n := 0
	if s.mayForget() {
		var err error
		if n, err = s.Inner.Purge(ctx, limit); err != nil {
			return n, err
		}
	}
	return n, s.PurgeAged(ctx, limit)
}

// beginAccepting begins a call for what clients want.
func (s *Store) beginAccepting(ctx context.Context, rows int, keys ...job.Key) (*journal.Call, error) {
	if s.o.AcceptWithout {
		return s.beginDelivering(ctx, rows, keys...)
	}
	return s.Begin(ctx, rows, keys...)
}

// beginDelivering begins a call for what goes on while the journal cannot be written: the
// store does not depend on it.
func (s *Store) beginDelivering(ctx context.Context, rows int, keys ...job.Key) (*journal.Call, error) {
	if s.Owing() == nil {
		return s.Begin(ctx, rows, keys...)
	}
	return s.BeginAnyway(ctx, rows, keys...)
}

// owe hands over what the store has done. While commits fail nobody waits, so nothing
// else bounds what is held: without room it is dropped, and the next comparison writes
// it.
func (s *Store) owe(c *journal.Call, w journal.Write) {
	w.Owed = true
	if s.Broken() == nil {
		s.dropping.Store(false)
		c.Enqueue(w)
		return
	}
	if c.EnqueueBounded(w) {
		return
	}
	s.counts.dropped.Add(float64(w.Rows))
	if !s.dropping.Swap(true) {
		s.o.Logger.Error("the journal is too far behind: what happens to jobs is not written to it any more until it is back")
	}
}
