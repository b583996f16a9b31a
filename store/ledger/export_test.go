package ledger

import (
	"context"
	"testing"
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

// Pause stops the committer, so that what is handed over meanwhile is written
// in one transaction.
func (s *Store) Pause() (resume func()) {
	c := make(chan struct{})
	s.committer.enqueue(&entry{add: func(*group) { <-c }})
	return func() { close(c) }
}
