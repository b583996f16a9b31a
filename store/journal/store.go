// Package journal makes a store in memory durable: it wraps one and keeps a journal
// of its jobs in SQL. At the start, unfinished jobs are restored from the journal.
//
// A registration is committed to the journal before the store gets it, and answered
// after that. Every later change is made by the store first and journaled then. So a
// crash may repeat a delivery, but loses no job. A job that follows from the end of
// another is claimed after that end is committed: a crash repeats no delivery of which the
// next in order, or a callback, was sent. Callers that wait for a commit share it.
//
// Package ledger builds on the tables and the committer for stores that several nodes
// share.
package journal

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/semaphore"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Store is a store.Store with a journal of its own. The journal belongs to this
// process.
type Store struct {
	Passed
	*Journal
	sharing Sharing
	inDoubt inDoubt
}

var _ store.Store = (*Store)(nil)

// Open opens the journal, restores the jobs that the store in Options lacks, and returns
// both as one Store.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := open(ctx, o, nil, alone{})
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return s, nil
}

// OpenShared opens a journal that several nodes write, each by these rules. It restores
// nothing, because other nodes may be running.
func OpenShared(ctx context.Context, o Options, rules func(*Group) Rules, sharing Sharing) (*Store, error) {
	return open(ctx, o, rules, sharing)
}

func open(ctx context.Context, o Options, rules func(*Group) Rules, sharing Sharing) (*Store, error) {
	if o.Store == nil || o.URL == "" {
		return nil, errors.New("Options need a Store and a URL")
	}
	o.setDefaults()
	s := &Store{Passed: Passed{o.Store, o.Store, o.Store}, Journal: &Journal{o: o, rules: rules, metrics: newMetrics(), applying: semaphore.NewWeighted(maxApplying)}, sharing: sharing}
	s.closing, s.cancel = context.WithCancel(context.Background())
	err := s.Journal.open(ctx)
	if err == nil && !s.shared() {
		err = s.restore(ctx)
	}
	if err == nil {
		err = s.start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.shut())
	}
	return s, nil
}

// restore restores the jobs that the store lacks.
func (s *Store) restore(ctx context.Context) error {
	began := s.o.Clock.Now()
	n, bad, err := s.RestoreAll(ctx, s.Inner, s.o.StoreRetention)
	if err != nil {
		return err
	}
	s.ReportUnreadable(bad)
	s.SetUnreadable(len(bad))
	if n > 0 {
		s.o.Logger.Info("jobs restored from the journal", "jobs", n, "took", s.o.Clock.Now().Sub(began))
	}
	return nil
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
	if s.sharing.Without(err) {
		return fmt.Errorf("%w: the ledger is down: %w", store.ErrDegraded, err)
	}
	return err
}

// begin begins a call. accepting: a client made it.
func (s *Store) begin(ctx context.Context, accepting bool, rows int, keys ...job.Key) (*Call, error) {
	return s.Journal.begin(ctx, s.sharing.Waits(accepting), rows, keys)
}

// Close writes pending changes, and closes the journal and the wrapped store.
func (s *Store) Close() error { return s.Journal.Close(s.Inner.Close) }

// Purge deletes ended jobs that are older than their retention, up to limit at a
// time, from the store and from the journal. It returns how many the store deleted.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	if err := s.Enter(); err != nil {
		return 0, err
	}
	defer s.Leave()
	n, err := s.Inner.Purge(ctx, limit)
	if err != nil {
		return n, err
	}
	return n, s.PurgeAged(ctx, limit)
}

// A store in memory has a change before it is committed, and a crash loses uncommitted
// changes. So reads of one job wait until its changes are committed: a client that saw its
// job cancelled must not find it delivered after a crash. Listings do not wait.

// Get returns the committed job of the wrapped store.
func (s *Store) Get(ctx context.Context, key job.Key) (job.Job, error) {
	return committed(ctx, s, key, s.Inner.Get)
}

// Attempts returns the committed log of the wrapped store.
func (s *Store) Attempts(ctx context.Context, key job.Key) ([]job.Attempt, error) {
	return committed(ctx, s, key, s.Inner.Attempts)
}

// Outlook returns the outlook of the wrapped store on the committed job.
func (s *Store) Outlook(ctx context.Context, key job.Key) (store.Outlook, error) {
	o, err := committed(ctx, s, key, s.Inner.Outlook)
	o.AwaitsWhole = s.shared()
	return o, err
}

// committed reads while no change of the job is in progress. A shared store survives this
// process, and is read at once.
func committed[T any](ctx context.Context, s *Store, key job.Key, read func(context.Context, job.Key) (T, error)) (T, error) {
	if s.shared() {
		return read(ctx, key)
	}
	unlock, err := s.keys.lock(ctx, true, key)
	if err != nil {
		var none T
		return none, err
	}
	defer unlock()
	return read(ctx, key)
}
