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
	"sync/atomic"
	"time"

	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
)

// Options configure a Store.
type Options struct {
	// Options are those of the journal. Store is one that other processes use and that
	// outlives this one. StoreRetention must be at least MinStoreRetention. A store that
	// goes further back in time than Retention sends ended jobs again.
	journal.Options
	// AcceptWithout takes registrations and changes while the journal cannot be
	// written. The journal gets them later: until then only the store has them.
	AcceptWithout bool
	Reconciling
}

// MinStoreRetention is the least Options.StoreRetention: the store must show how a job
// ended until the journal surely knows it, or an ended job looks like a lost one.
const MinStoreRetention = 10 * time.Minute

// Store is a store.Store that shares a journal with other nodes. Reads go to the wrapped
// store: it keeps what it reports by itself.
type Store struct {
	*journal.Store
	*Reconciler

	o        Options
	counts   *counts
	dropping atomic.Bool // rows are dropped, and that was logged
	// checkFrom is the instant until which claims go unchecked; zero: the journal answers.
	checkFrom atomic.Int64
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Restoring = (*Store)(nil)
)

// Open opens the journal and returns it and the store as one Store.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{o: o, counts: newCounts()}
	var err error
	if s.Store, err = journal.OpenShared(ctx, o.Options, newGroup, s); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	s.o.Options = s.Options()
	s.Reconciler, err = newReconciler(s.Store, o.Reconciling, true)
	if err == nil {
		err = s.counts.register(s.o.Metrics)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ledger: %w", err), s.Journal.Close(func() error { return nil }))
	}
	return s, nil
}

// Purge deletes ended jobs in the store if it may (see mayForget), and in the journal after
// its retention. It returns how many jobs the store deleted.
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
