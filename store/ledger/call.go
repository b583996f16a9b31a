package ledger

import (
	"context"
	"fmt"

	"github.com/duehook/duehook/store"
)

// write is the changes of one caller.
type write struct {
	add   func(g *group)
	rows  int   // about how many rows it writes
	bytes int64 // about what its bodies and logs take
	// owed: the store has made the change already, so the ledger retries it. Other changes
	// are dropped when a commit fails.
	owed bool
}

// cost is what a write takes of the queue, in rows.
func (w *write) cost() int64 { return int64(w.rows) + w.bytes/rowSize }

// begin begins a call that changes jobs. It waits until the queue has room if waits or while the ledger
// can be written: claims and settlements do not depend on it. The caller must leave unless it got
// an error.
func (s *Store) begin(ctx context.Context, waits bool) error {
	if err := s.enter(); err != nil {
		return err
	}
	for waits || s.owing() == nil {
		committed := s.committer.full()
		if committed == nil {
			break
		}
		select {
		case <-committed:
		case <-ctx.Done():
			s.leave()
			return fmt.Errorf("%w: it is behind: %w", store.ErrLedgerDown, ctx.Err())
		case <-s.closing.Done():
			s.leave()
			return errClosed
		}
	}
	return nil
}

// submit queues a write. The result arrives when it is committed; the commit does not
// depend on a receiver.
func (s *Store) submit(w write) (done <-chan error) {
	e := &queued{write: w, done: make(chan error, 1)}
	s.committer.enqueue(e)
	return e.done
}

// commit queues a write and waits for the commit, but not longer than ctx.
func (s *Store) commit(ctx context.Context, w write) error { return within(ctx, s.submit(w)) }

// owe queues a change that the store has made. While commits fail no caller waits, so without room
// the change is dropped, and the next pass writes it.
func (s *Store) owe(w write) {
	if s.broken() == nil || s.committer.full() == nil {
		s.dropping.Store(false)
		s.committer.enqueue(&queued{write: w})
		return
	}
	s.metrics.dropped.Add(float64(w.rows))
	if !s.dropping.Swap(true) {
		s.o.Logger.Error("the ledger is too far behind: changes are not written until it catches up")
	}
}

// flush waits until everything queued before is written, or ctx ends.
func (s *Store) flush(ctx context.Context) error {
	return s.commit(ctx, write{add: func(*group) {}})
}

// probe tries a commit.
func (s *Store) probe(ctx context.Context) error {
	return s.commit(ctx, write{add: func(g *group) { g.probe = true }})
}

// within waits for a commit, but not longer than ctx. It may succeed later.
func within(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: it does not answer: %w", store.ErrLedgerDown, ctx.Err())
	}
}

// owing returns an error while the store is ahead of the ledger because commits
// fail.
func (s *Store) owing() error {
	c := s.committer
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owes {
		return unavailable(c.broken)
	}
	return nil
}

// writable returns an error while commits fail. If the last one failed, it tries another.
func (s *Store) writable(ctx context.Context) error {
	if err := s.owing(); err != nil || s.broken() == nil {
		return err
	}
	return s.probe(ctx)
}

// broken is the error of the last commit, nil if it succeeded.
func (s *Store) broken() error {
	c := s.committer
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", store.ErrLedgerDown, err) }
