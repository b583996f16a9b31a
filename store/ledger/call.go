package ledger

import (
	"context"
	"fmt"

	"github.com/duehook/duehook/store"
)

// call is a call that changes jobs. It holds room in the ledger for the rows that it will
// cause.
type call struct {
	s    *Store
	rows int64 // reserved
}

// write is the changes of one caller.
type write struct {
	add   func(g *group)
	rows  int   // about how many rows it writes
	bytes int64 // about what its bodies and logs take
	// owed: the store has made the change already, so the ledger retries it. Other changes
	// are dropped when a commit fails.
	owed bool
}

// begin begins a call that causes up to rows rows. It waits for room if waits or while the
// ledger can be written: claims and settlements do not depend on it. The caller must end it
// unless it got an error.
func (s *Store) begin(ctx context.Context, waits bool, rows int) (*call, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	c := &call{s: s}
	if err := c.reserve(ctx, waits || s.owing() == nil, min(int64(rows), maxQueued)); err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// reserve takes room. With waits, it waits for room until ctx or the ledger ends.
func (c *call) reserve(ctx context.Context, waits bool, rows int64) error {
	room := c.s.committer.room
	if !room.TryAcquire(rows) {
		if !waits {
			return nil
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.s.closing, cancel)()
		if err := room.Acquire(ctx, rows); err != nil {
			return fmt.Errorf("%w: it is behind: %w", store.ErrLedgerDown, err)
		}
	}
	c.rows = rows
	return nil
}

// end ends the call. Queued entries are still written.
func (c *call) end() {
	c.s.committer.room.Release(c.rows)
	c.s.leave()
}

// submit queues a write. The result arrives when it is committed; the commit does not
// depend on a receiver.
func (c *call) submit(w write) (done <-chan error) { return c.s.committer.submit(c.entry(w)) }

// commit queues a write and waits for the commit.
func (c *call) commit(w write) error { return <-c.submit(w) }

// owe queues a change that the store has made. While commits fail no caller waits, so the
// room alone bounds the queue: without room the change is dropped, and the next pass writes
// it.
func (c *call) owe(w write) {
	s, e := c.s, c.entry(w)
	if s.broken() == nil {
		s.dropping.Store(false)
		s.committer.enqueue(e)
		return
	}
	if c.charge(e) {
		s.committer.enqueue(e)
		return
	}
	s.committer.room.Release(e.rows)
	s.metrics.dropped.Add(float64(w.rows))
	if !s.dropping.Swap(true) {
		s.o.Logger.Error("the ledger is too far behind: changes are not written until it catches up")
	}
}

// charge takes room for what an entry keeps in memory; false: there is not enough.
func (c *call) charge(e *queued) bool {
	missing := int64(e.write.rows) - e.rows
	extra := min(e.bytes/rowSize, maxQueued-missing)
	if !c.s.committer.room.TryAcquire(missing + extra) {
		return false
	}
	e.rows, e.extra = e.rows+missing, extra
	return true
}

// entry takes the room of a write from that of the call.
func (c *call) entry(w write) *queued {
	n := min(int64(w.rows), c.rows)
	c.rows -= n
	return &queued{write: w, rows: n}
}
