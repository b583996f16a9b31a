package journal

import (
	"context"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Call is a call that changes jobs. It holds their keys and room in the journal for
// the rows that it will cause.
type Call struct {
	j      *Journal
	rows   int64  // reserved
	unlock func() // nil: no keys are held
	// applies: the call holds a part of Journal.applying.
	applies bool
}

// maxApplying is how many calls may apply changes at a time.
const maxApplying = 1 << 20

// Apply begins to change the store, until the change is queued or the call ends.
func (c *Call) Apply(ctx context.Context) error {
	err := c.j.applying.Acquire(ctx, 1)
	c.applies = err == nil
	return err
}

// applied ends Apply.
func (c *Call) applied() {
	if c.applies {
		c.j.applying.Release(1)
		c.applies = false
	}
}

// writeApplied waits until all changes of the store are committed.
func (j *Journal) writeApplied(ctx context.Context) error {
	if err := j.applying.Acquire(ctx, maxApplying); err != nil {
		return err
	}
	j.applying.Release(maxApplying)
	return j.Flush(ctx)
}

// Write is the changes of one caller.
type Write struct {
	Add   func(g *Group)
	Rows  int   // about how many rows it writes
	Bytes int64 // about what its bodies and logs take
	// Owed: the store has made the change already, so the journal retries it. Other changes
	// are dropped when a commit fails.
	Owed bool
}

// Begin begins a call that changes the jobs of keys and causes up to rows rows. It
// waits for room and for the keys. The caller must End it unless it got an error.
func (j *Journal) Begin(ctx context.Context, rows int, keys ...job.Key) (*Call, error) {
	return j.begin(ctx, true, rows, keys)
}

// begin is Begin. Without waits, a call for which there is no room gets none.
func (j *Journal) begin(ctx context.Context, waits bool, rows int, keys []job.Key) (*Call, error) {
	if err := j.Enter(); err != nil {
		return nil, err
	}
	c := &Call{j: j}
	err := c.reserve(ctx, waits, min(int64(rows), maxQueued))
	if err == nil {
		err = c.Hold(ctx, keys...)
	}
	if err != nil {
		c.End()
		return nil, err
	}
	return c, nil
}

// reserve takes room. With waits, it waits for room until ctx or the journal ends.
func (c *Call) reserve(ctx context.Context, waits bool, rows int64) error {
	room := c.j.committer.room
	if !room.TryAcquire(rows) {
		if !waits {
			return nil
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.j.closing, cancel)()
		if err := room.Acquire(ctx, rows); err != nil {
			return fmt.Errorf("%w: the journal is behind: %w", store.ErrUnavailable, err)
		}
	}
	c.rows = rows
	return nil
}

// Hold takes keys. A call holds keys only once at a time.
func (c *Call) Hold(ctx context.Context, keys ...job.Key) (err error) {
	if len(keys) > 0 {
		c.unlock, err = c.j.keys.lock(ctx, false, keys...)
	}
	return err
}

// Free releases the keys before the call ends. Changes must be queued before.
func (c *Call) Free() {
	c.applied()
	if c.unlock != nil {
		c.unlock()
		c.unlock = nil
	}
}

// End ends the call. Queued entries are still written.
func (c *Call) End() {
	c.Free()
	c.j.committer.room.Release(c.rows)
	c.j.Leave()
}

// Enqueue queues a write.
func (c *Call) Enqueue(w Write) { c.j.committer.enqueue(c.entry(w)) }

// Submit queues a write. The result arrives when it is committed; the commit does not
// depend on a receiver.
func (c *Call) Submit(w Write) (done <-chan error) {
	defer c.applied()
	return c.j.committer.submit(c.entry(w))
}

// Commit queues a write and waits for the commit.
func (c *Call) Commit(w Write) error { return <-c.Submit(w) }

// CommitWithin is Commit that does not wait longer than ctx. It may be written later.
func (c *Call) CommitWithin(ctx context.Context, w Write) error {
	select {
	case err := <-c.Submit(w):
		return err
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
}

// Flush waits until everything queued before is written, or ctx ends.
func (c *Call) Flush(ctx context.Context) error {
	return c.CommitWithin(ctx, Write{Add: func(*Group) {}})
}

// EnqueueBounded queues a write while commits fail. It reports false and drops the write
// if there is no room for its bytes.
func (c *Call) EnqueueBounded(w Write) bool {
	e := c.entry(w)
	missing := int64(w.Rows) - e.rows
	e.extra = min(w.Bytes/rowSize, maxQueued-missing)
	if !c.j.committer.room.TryAcquire(missing + e.extra) {
		c.j.committer.room.Release(e.rows)
		return false
	}
	e.rows += missing
	c.j.committer.enqueue(e)
	return true
}

// entry takes the room of a write from that of the call.
func (c *Call) entry(w Write) *entry {
	n := min(int64(w.Rows), c.rows)
	c.rows -= n
	return &entry{Write: w, rows: n}
}
