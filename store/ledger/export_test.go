package ledger

import (
	"context"
	"database/sql"
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// EmptyLedger returns the URL of an empty ledger for tests of this package itself.
var EmptyLedger func(t testing.TB) string

// CompareOnce compares all jobs once, without pauses.
func (s *Store) CompareOnce(ctx context.Context) (store.RestoreReport, error) {
	p := s.startPass(ctx, passOptions{urgent: true})
	<-p.done
	if p.err == nil {
		p.log()
		s.setCompared(p.began)
	}
	return p.report(), p.err
}

// Restored is how many jobs this node put back.
func (s *Store) Restored(t testing.TB) float64 {
	t.Helper()
	return testutil.ToFloat64(s.metrics.restored)
}

// Unchecked lets claims go unchecked from now on.
func (s *Store) Unchecked() { s.checkFrom.Store(math.MaxInt64) }

// MayForget reports whether the store may forget what has ended.
func (s *Store) MayForget() bool { return s.mayForget() }

// FlushAll waits until all changes are written. A closed ledger has written them.
func (s *Store) FlushAll(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return nil
	}
	defer s.leave()
	return s.flush(ctx)
}

// Writer is the connection of the committer.
func (s *Store) Writer() *sql.DB { return s.pools.write }

// Readers are the connections for reading. Calls that follow one another use the same.
func (s *Store) Readers() *sql.DB { return s.pools.read }

// Fill reserves all room for waiting rows but for some.
func (s *Store) Fill(but int64) (release func()) {
	filler := &queued{write: write{bytes: (maxQueued - but) * rowSize}}
	s.committer.mu.Lock()
	s.committer.load += filler.cost()
	s.committer.mu.Unlock()
	return func() {
		s.committer.mu.Lock()
		defer s.committer.mu.Unlock()
		s.committer.ended([]*queued{filler})
	}
}

// Pause stops the committer. All changes until resume share a transaction.
func (s *Store) Pause() (resume func()) {
	wait := make(chan struct{})
	s.committer.enqueue(&queued{write: write{add: func(*group) { <-wait }}})
	return func() { close(wait) }
}

// LastOf returns the last registration of a job in the ledger.
func (s *Store) LastOf(ctx context.Context, key job.Key) (found store.RestoredJob, err error) {
	rows, err := s.entries(ctx, []job.Key{key}, make([]store.Standing, 1))
	if err != nil {
		return found, err
	}
	e := pickOwn(rows[0], "")
	if e == nil {
		return found, store.ErrNotFound
	}
	return found, s.messages(ctx, []int64{e.seq}, func(messages []stored, _ []*entry) error {
		found = messages[0].RestoredJob
		return nil
	})
}
