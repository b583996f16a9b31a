package ledger

import (
	"context"
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/store"
)

// Flush waits until everything handed over before is written. Close has done
// so too.
func (s *Store) Flush() error {
	if err := s.enter(); err != nil {
		return nil
	}
	defer s.leave()
	return s.committer.flush()
}

// Exec runs SQL on the writer's connection.
func (s *Store) Exec(ctx context.Context, text string, args ...any) error {
	_, err := s.pools.write.ExecContext(ctx, text, args...)
	return err
}

// HeadStart is how late a job may be after a crash in the wrong moment.
const HeadStart = headStart

// Fill takes all room for rows that wait.
func (s *Store) Fill() (release func()) {
	s.committer.room.TryAcquire(maxQueued)
	return func() { s.committer.release(maxQueued) }
}

// Pragma asks the writer's connection.
func (s *Store) Pragma(t testing.TB, name string) string {
	t.Helper()
	var value string
	if err := s.pools.write.QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// Unsynced lets a journal in SQLite do without waiting for the disk: it survives
// this process, as the tests have it, but no power failure.
func (s *Store) Unsynced(t testing.TB) {
	t.Helper()
	d, is := s.st.dialect.(*sqlite)
	if !is {
		return
	}
	if err := s.Exec(t.Context(), "PRAGMA synchronous = OFF"); err != nil {
		t.Fatal(err)
	}
	// The committer may be shrinking the journal.
	if err := s.committer.commit(&entry{add: func(*group) { s.st.dialect = unsynced{d} }}); err != nil {
		t.Fatal(err)
	}
}

type unsynced struct{ *sqlite }

func (unsynced) setDurable(context.Context, execer, bool) error { return nil }

// Pause stops the committer, so that what is handed over meanwhile is written
// in one transaction.
func (s *Store) Pause() (resume func()) {
	c := make(chan struct{})
	s.committer.enqueue(&entry{add: func(*group) { <-c }})
	return func() { close(c) }
}

// SweepOnce compares all jobs once, without pauses.
func (s *Store) SweepOnce(ctx context.Context) (store.RestoreReport, error) {
	p := s.startPass(ctx, passOptions{urgent: true})
	<-p.done
	if p.err == nil {
		p.log()
		s.setSwept(p.began)
	}
	return p.report(), p.err
}

// Restored is how many jobs this node put back.
func (s *Store) Restored(t testing.TB) float64 {
	t.Helper()
	return testutil.ToFloat64(s.metrics.restored)
}

// Unchecked lets claims go unchecked from now on.
func (s *Store) Unchecked() { s.check.notBefore.Store(math.MaxInt64) }

// MayForget reports whether the store may forget what has ended.
func (s *Store) MayForget() bool { return s.mayForget() }
