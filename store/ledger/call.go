package ledger

import (
	"context"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// call is one call that changes jobs: it holds their keys, and room in the
// journal for the rows that it will cause.
type call struct {
	s      *Store
	rows   int64  // zero: there was no room, and the store goes on without the journal
	unlock func() // nil: no keys are held
}

// begin begins a call that changes the jobs of keys and causes up to rows rows.
// The caller must end it unless it got an error.
func (s *Store) begin(ctx context.Context, rows int, keys ...job.Key) (*call, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	n, err := s.reserve(ctx, rows)
	if err != nil {
		s.leave()
		return nil, err
	}
	return s.beginWith(ctx, &call{s: s, rows: n}, keys)
}

// beginAccepting is begin for what clients want.
func (s *Store) beginAccepting(ctx context.Context, rows int, keys ...job.Key) (*call, error) {
	if s.o.AcceptWithout {
		return s.beginDelivering(ctx, rows, keys...)
	}
	return s.begin(ctx, rows, keys...)
}

// beginDelivering is begin for what must go on although the journal cannot be
// written: a shared store does not depend on it.
func (s *Store) beginDelivering(ctx context.Context, rows int, keys ...job.Key) (*call, error) {
	if !s.o.Shared || s.committer.owing() == nil {
		return s.begin(ctx, rows, keys...)
	}
	if err := s.enter(); err != nil {
		return nil, err
	}
	c := &call{s: s, rows: min(int64(rows), maxQueued)}
	if !s.committer.room.TryAcquire(c.rows) {
		c.rows = 0
	}
	return s.beginWith(ctx, c, keys)
}

func (s *Store) beginWith(ctx context.Context, c *call, keys []job.Key) (*call, error) {
	if err := c.hold(ctx, keys...); err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// reserve waits for room in the journal until ctx or the ledger ends.
func (s *Store) reserve(ctx context.Context, rows int) (int64, error) {
	n := min(int64(rows), maxQueued)
	if s.committer.room.TryAcquire(n) {
		return n, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	if err := s.committer.room.Acquire(ctx, n); err != nil {
		return 0, fmt.Errorf("%w: the journal is behind: %w", store.ErrUnavailable, err)
	}
	return n, nil
}

// hold takes keys. A call holds keys only once at a time.
func (c *call) hold(ctx context.Context, keys ...job.Key) (err error) {
	if len(keys) > 0 {
		c.unlock, err = c.s.keys.lock(ctx, keys)
	}
	return err
}

// take splits off room for an entry of rows rows.
func (c *call) take(rows int) int64 {
	n := min(int64(rows), c.rows)
	c.rows -= n
	return n
}

// journal hands over what the store has done, an entry of so many rows that
// holds so many bytes. If there is no room, it is given up.
func (c *call) journal(rows, bytes int, add func(g *group)) {
	e := &entry{rows: c.take(rows), owed: true, add: add}
	if c.s.o.Shared && c.s.committer.lastError() != nil {
		// Nobody waits for it, so nothing else bounds what it holds.
		e.bytes = int64(bytes)
		missing := int64(rows) - e.rows
		e.extra = min(e.bytes/rowSize, maxQueued-missing)
		if !c.s.committer.room.TryAcquire(missing + e.extra) {
			c.s.committer.release(e.rows)
			c.s.committer.lose(rows)
			return
		}
		e.rows += missing
	}
	c.s.committer.enqueue(e)
}

// free gives the keys back before the call ends.
func (c *call) free() {
	if c.unlock != nil {
		c.unlock()
		c.unlock = nil
	}
}

func (c *call) end() {
	c.free()
	c.s.committer.release(c.rows)
	c.s.leave()
}
