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

// writeApplied waits until all that the store has is committed.
func (j *Journal) writeApplied(ctx context.Context) error {
	if err := j.applying.Acquire(ctx, maxApplying); err != nil {
		return err
	}
	j.applying.Release(maxApplying)
	return j.Flush()
}

// Write is what one caller wants to have written.
type Write struct {
	Add   func(g *Group)
	Rows  int   // about how many rows it writes
	Bytes int64 // about what its bodies and logs take
	// Owed: the store has made the change already, so it is written sooner or later.
	// Other entries are given up when a commit fails.
	Owed bool
}

// Begin begins a call that changes the jobs of keys and causes up to rows rows. It
// waits for room and for the keys. The caller must End it unless it got an error.
func (j *Journal) Begin(ctx context.Context, rows int, keys ...job.Key) (*Call, error) {
	if err := j.Enter(); err != nil {
		return nil, err
	}
	n, err := j.reserve(ctx, rows)
	if err != nil {
		j.Leave()
		return nil, err
	}
	return j.begun(ctx, n, keys)
}

// BeginAnyway is Begin without waiting for room.
func (j *Journal) BeginAnyway(ctx context.Context, rows int, keys ...job.Key) (*Call, error) {
	if err := j.Enter(); err != nil {
		return nil, err
	}
	n := min(int64(rows), maxQueued)
	if !j.committer.room.TryAcquire(n) {
		n = 0
	}
	return j.begun(ctx, n, keys)
}

func (j *Journal) begun(ctx context.Context, rows int64, keys []job.Key) (*Call, error) {
	c := &Call{j: j, rows: rows}
	if err := c.Hold(ctx, keys...); err != nil {
		c.End()
		return nil, err
	}
	return c, nil
}

// reserve waits for room until ctx or the journal ends.
func (j *Journal) reserve(ctx context.Context, rows int) (int64, error) {
	n := min(int64(rows), maxQueued)
	if j.committer.room.TryAcquire(n) {
		return n, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(j.closing, cancel)()
	if err := j.committer.room.Acquire(ctx, n); err != nil {
		return 0, fmt.Errorf("%w: the journal is behind: %w", store.ErrUnavailable, err)
	}
	return n, nil
}

// Hold takes keys. A call holds keys only once at a time.
func (c *Call) Hold(ctx context.Context, keys ...job.Key) (err error) {
	if len(keys) > 0 {
		c.unlock, err = c.j.keys.lock(ctx, keys)
	}
	return err
}

// Free gives the keys back before the call ends. Changes must be queued before.
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
	c.j.committer.release(c.rows)
	c.j.Leave()
}

// Enqueue queues an entry.
func (c *Call) Enqueue(e Write) { c.j.committer.enqueue(c.entry(e)) }

// Submit queues an entry. The result arrives when it is committed; the commit does not
// depend on a receiver.
func (c *Call) Submit(e Write) (done <-chan error) {
	defer c.applied()
	return c.j.committer.submit(c.entry(e))
}

// Commit queues an entry and waits for the commit.
func (c *Call) Commit(e Write) error { return <-c.Submit(e) }

// CommitWithin is Commit that does not wait longer than ctx. The entry may be written later.
func (c *Call) CommitWithin(ctx context.Context, e Write) error {
	select {
	case err := <-c.Submit(e):
		return err
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
}

// Flush waits until everything handed over before is written, or ctx ends.
func (c *Call) Flush(ctx context.Context) error {
	return c.CommitWithin(ctx, Write{Add: func(*Group) {}})
}

// EnqueueBounded queues an entry while commits fail. It reports false and drops the entry
// if there is no room for its bytes.
func (c *Call) EnqueueBounded(e Write) bool {
	n := c.entry(e)
	missing := int64(e.Rows) - n.rows
	n.extra = min(n.bytes/rowSize, maxQueued-missing)
	if !c.j.committer.room.TryAcquire(missing + n.extra) {
		c.j.committer.release(n.rows)
		return false
	}
	n.rows += missing
	c.j.committer.enqueue(n)
	return true
}

// entry takes the room of an entry from that of the call.
func (c *Call) entry(e Write) *entry {
	n := min(int64(e.Rows), c.rows)
	c.rows -= n
	return &entry{add: e.Add, rows: n, bytes: e.Bytes, owed: e.Owed}
}

// Flush waits until everything handed over before is written.
func (j *Journal) Flush() error { return j.committer.flush() }

// Owing returns an error while the store is ahead of the journal because commits
// fail.
func (j *Journal) Owing() error { return j.committer.owing() }

// Broken is the error of the last commit, nil if it succeeded.
func (j *Journal) Broken() error { return j.committer.lastError() }
