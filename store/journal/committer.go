package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Bounds of the committer.
const (
	maxGroup     = 4_000                 // rows of one transaction, about
	maxGroupSize = 4 << 20               // bytes of their bodies and logs, about
	maxQueued    = 65_536                // queued and owed rows; beyond that, callers wait
	rowSize      = 1 << 10               // while the server is down, so many queued bytes count as a row
	firstPause   = 50 * time.Millisecond // between tries while commits fail
	longestPause = time.Second
	provenFor    = 3 * time.Second // how long a commit proves that the journal can be written
)

// entry is a Write in the queue.
type entry struct {
	Write
	rows, extra int64 // reserved for its rows and bytes
	// done receives the outcome of the first try; nil: no caller waits, and the commit need
	// not survive a power failure, only a crash of the process.
	done  chan error
	tried bool // an earlier commit failed, or its reply was lost
}

// committer writes entries in the order of their arrival. All waiting entries share a
// commit.
type committer struct {
	j *Journal

	room    *semaphore.Weighted // in rows
	wake    chan struct{}
	closing chan struct{}
	stopped chan struct{}

	mu     sync.Mutex
	queue  []*entry
	broken error     // of the last commit; nil if it succeeded
	wrote  time.Time // when the last commit succeeded
	owes   bool      // there are owed entries since a commit failed

	// Used by the goroutine only:
	known   map[job.Key]*Target
	nextSeq int64 // zero: the server counts
	durable bool  // the last setting of setDurable
	shrinks bool  // the journal may have free pages since the last call of shrink
}

func startCommitter(j *Journal, nextSeq int64) *committer {
	c := &committer{
		j: j, room: semaphore.NewWeighted(maxQueued),
		wake: make(chan struct{}, 1), closing: make(chan struct{}), stopped: make(chan struct{}),
		known: map[job.Key]*Target{}, nextSeq: nextSeq, durable: true, shrinks: true,
	}
	go c.run()
	return c
}

// enqueue queues an entry.
func (c *committer) enqueue(e *entry) {
	c.mu.Lock()
	c.queue = append(c.queue, e)
	if e.Owed {
		c.owes = c.owes || c.broken != nil
		c.j.metrics.waiting.Add(float64(e.rows))
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default: // it has a signal already
	}
}

// submit queues an entry whose caller waits for the commit. The commit does not depend on
// the caller.
func (c *committer) submit(e *entry) (done <-chan error) {
	e.done = make(chan error, 1)
	c.enqueue(e)
	return e.done
}

// Flush waits until everything queued before is written, or ctx ends.
func (j *Journal) Flush(ctx context.Context) error {
	return j.await(ctx, func(*Group) {})
}

// await commits an entry. It does not wait longer than ctx.
func (j *Journal) await(ctx context.Context, add func(*Group)) error {
	select {
	case err := <-j.committer.submit(&entry{Write: Write{Add: add}}):
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: the journal does not answer: %w", store.ErrUnavailable, ctx.Err())
	}
}

// Owing returns an error while the store is ahead of the journal because commits
// fail.
func (j *Journal) Owing() error {
	c := j.committer
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owes {
		return unavailable(c.broken)
	}
	return nil
}

// Broken is the error of the last commit, nil if it succeeded.
func (j *Journal) Broken() error {
	c := j.committer
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// wroteSince reports whether a commit has succeeded since then.
func (c *committer) wroteSince(then time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wrote.After(then)
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", store.ErrUnavailable, err) }

// stop writes queued entries and ends the goroutine. Nothing may be enqueued afterwards.
// The error reports entries that could not be written and are lost.
func (c *committer) stop() error {
	close(c.closing)
	<-c.stopped
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) > 0 {
		return fmt.Errorf("%d changes could not be written: %w", len(c.queue), c.broken)
	}
	return nil
}

func (c *committer) run() {
	defer close(c.stopped)
	pause := firstPause
	for {
		batch, last := c.next()
		if len(batch) == 0 {
			return
		}
		err := c.commitBatch(batch)
		if err == nil {
			c.succeeded(batch)
			pause = firstPause
			continue
		}
		owing := c.failed(batch, err)
		if last {
			return
		}
		if owing { // otherwise the next caller is the next try
			c.pause(pause, nil)
			pause = min(2*pause, longestPause)
		}
	}
}

// next waits for entries. It returns none after the last one. last reports that this is
// the last try.
func (c *committer) next() (batch []*entry, last bool) {
	for {
		select {
		case <-c.closing:
			return c.take(), true
		default:
		}
		if batch := c.take(); len(batch) > 0 {
			return batch, false
		}
		if c.shrink() {
			c.pause(shrinkPause, c.wake)
			continue
		}
		select {
		case <-c.wake:
		case <-c.closing:
		}
	}
}

// shrink returns free pages to the disk while the journal is idle. It reports whether
// there are more.
func (c *committer) shrink() (more bool) {
	s, can := c.j.st.dialect.(shrinker)
	if !can || !c.shrinks {
		return false
	}
	err := c.relax(context.Background(), false)
	if err == nil {
		more, err = s.shrink(context.Background(), c.j.pools.write)
	}
	if err != nil { // the next deletion is the next try
		c.j.o.Logger.Warn("the journal cannot be shrunk", "error", err)
	}
	c.shrinks = more
	return more
}

func (c *committer) take() []*entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	var rows, bytes int64
	n := 0
	for n < len(c.queue) && rows < maxGroup && bytes < maxGroupSize {
		rows += c.queue[n].rows
		bytes += c.queue[n].Bytes
		n++
	}
	batch := slices.Clone(c.queue[:n])
	c.queue = slices.Delete(c.queue, 0, n)
	return batch
}

// commitBatch writes the entries in one transaction.
func (c *committer) commitBatch(batch []*entry) error {
	ctx := context.Background()
	var rows, bytes int64
	for _, e := range batch {
		rows, bytes = rows+e.rows, bytes+e.Bytes
	}
	if c.nextSeq == 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, limitOf(rows, bytes))
		defer cancel()
	}
	g := newGroup(c.known, c.j.o.Host, c.j.rules)
	g.nextSeq, g.counted = c.nextSeq, c.nextSeq == 0
	durable := false
	for _, e := range batch {
		e.Add(g)
		durable, g.tried = durable || e.done != nil, g.tried || e.tried
	}
	if err := c.transact(ctx, g, durable); err != nil {
		clear(c.known) // it may have facts that were not written
		return c.j.pools.silence.why(err)
	}
	if !g.counted {
		c.nextSeq = g.nextSeq
	}
	g.committed()
	for _, p := range g.purges {
		c.shrinks = c.shrinks || p.deleted > 0
	}
	return nil
}

// relax sets whether the next commits must survive a power failure.
func (c *committer) relax(ctx context.Context, durable bool) error {
	if durable == c.durable {
		return nil
	}
	if err := c.j.st.setDurable(ctx, c.j.pools.write, durable); err != nil {
		return err
	}
	c.durable = durable
	return nil
}

func (c *committer) transact(ctx context.Context, g *Group, durable bool) error {
	if err := c.relax(ctx, durable); err != nil {
		return err
	}
	tx, err := c.j.pools.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	next, err := c.j.st.begin(ctx, tx, durable)
	if err == nil {
		if g.counted {
			g.nextSeq = next
		}
		err = g.write(ctx, tx, c.j.st)
	}
	if err != nil {
		_ = tx.Rollback() // the first error says more
		return err
	}
	if err := tx.Commit(); err != nil {
		_ = tx.Rollback()
		return &commitError{err}
	}
	return nil
}

// outcomeUnknown reports whether err comes from a commit that the server may have made.
func outcomeUnknown(err error) bool {
	var unknown *commitError
	return errors.As(err, &unknown)
}

// commitError is a failure of a commit that the server may have made.
type commitError struct{ cause error }

func (e *commitError) Error() string { return "commit: " + e.cause.Error() }

func (e *commitError) Unwrap() error { return e.cause }

func (c *committer) succeeded(batch []*entry) {
	c.mu.Lock()
	was := c.broken
	c.broken, c.owes, c.wrote = nil, false, c.j.o.Clock.Now()
	c.mu.Unlock()
	c.j.metrics.down.Set(0)
	if was != nil {
		c.j.o.Logger.Info("the journal can be written again")
	}
	for _, e := range batch {
		e.answer(nil)
		c.room.Release(e.rows + e.extra)
		if e.Owed {
			c.j.metrics.waiting.Sub(float64(e.rows))
		}
	}
}

// failed fails all waiting entries except owed ones, which return to the head of the
// queue. It reports whether there are any.
func (c *committer) failed(batch []*entry, err error) (owing bool) {
	c.mu.Lock()
	waiting := slices.Concat(batch, c.queue)
	c.queue = slices.DeleteFunc(slices.Clone(waiting), func(e *entry) bool { return !e.Owed })
	was := c.broken
	c.broken, c.owes = err, len(c.queue) > 0
	owed := len(c.queue)
	c.mu.Unlock()
	c.j.metrics.down.Set(1)
	if was == nil {
		c.j.o.Logger.Error("the journal cannot be written", "error", err, "changes_owed", owed)
	}
	untried := err
	if unknown := (*commitError)(nil); errors.As(err, &unknown) {
		untried = unknown.cause
	}
	for i, e := range waiting {
		if i == len(batch) {
			err = untried
		}
		e.tried = e.tried || i < len(batch)
		e.answer(unavailable(err))
		if !e.Owed {
			c.room.Release(e.rows + e.extra)
		}
	}
	return owed > 0
}

// answer answers the caller, who waits for the first answer only.
func (e *entry) answer(err error) {
	select {
	case e.done <- err:
	default:
	}
}

// pause waits for d, or until wake or the end.
func (c *committer) pause(d time.Duration, wake <-chan struct{}) {
	t := c.j.o.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
	case <-wake:
	case <-c.closing:
	}
}
