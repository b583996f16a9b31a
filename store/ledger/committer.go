package ledger

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Bounds of the committer.
const (
	maxGroup     = 4_000                 // rows of one transaction, about
	maxGroupSize = 4 << 20               // bytes of their bodies and logs, about
	maxQueued    = 65_536                // queued and owed rows; beyond that, callers wait
	rowSize      = 1 << 10               // so many queued bytes count as a row
	firstPause   = 50 * time.Millisecond // between tries while commits fail
	longestPause = time.Second
	provenFor    = 3 * time.Second // how long a commit proves that the ledger can be written
)

// queued is a write in the queue.
type queued struct {
	write
	// done receives the outcome of the first try; nil: no caller waits, and the commit need
	// not survive a failure of the server.
	done chan error
}

// committer writes entries in the order of their arrival. All waiting entries share a
// commit.
type committer struct {
	s *Store

	wake    chan struct{}
	closing chan struct{}
	stopped chan struct{}

	mu     sync.Mutex
	queue  []*queued
	load   int64         // what the queue and the commit in progress cost
	tried  chan struct{} // closed after the commit in progress
	broken error         // of the last commit; nil if it succeeded
	wrote  time.Time     // when the last commit succeeded
	owes   bool          // there are owed entries since a commit failed

	// Used by the goroutine only:
	workers map[string]string // see group
}

func startCommitter(s *Store) *committer {
	c := &committer{
		s: s, wake: make(chan struct{}, 1), closing: make(chan struct{}), stopped: make(chan struct{}),
		tried: make(chan struct{}), workers: map[string]string{},
	}
	go c.run()
	return c
}

// enqueue queues a write.
func (c *committer) enqueue(e *queued) {
	c.mu.Lock()
	c.queue, c.load = append(c.queue, e), c.load+e.cost()
	if e.owed {
		c.owes = c.owes || c.broken != nil
		c.s.metrics.waiting.Add(float64(e.cost()))
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default: // it has a signal already
	}
}

// full returns nil if the queue has room. Otherwise the channel is closed after the next commit.
func (c *committer) full() (tried <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.load < maxQueued {
		return nil
	}
	return c.tried
}

// ended notes the end of a commit, after which entries left the queue. The caller holds the lock.
func (c *committer) ended(left []*queued) {
	for _, e := range left {
		c.load -= e.cost()
	}
	close(c.tried)
	c.tried = make(chan struct{})
}

// wroteSince reports whether a commit has succeeded since then.
func (c *committer) wroteSince(then time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wrote.After(then)
}

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
			c.pause(pause)
			pause = min(2*pause, longestPause)
		}
	}
}

// next waits for entries. It returns none after the last one. last reports that this is
// the last try.
func (c *committer) next() (batch []*queued, last bool) {
	for {
		select {
		case <-c.closing:
			return c.take(), true
		default:
		}
		if batch := c.take(); len(batch) > 0 {
			return batch, false
		}
		select {
		case <-c.wake:
		case <-c.closing:
		}
	}
}

func (c *committer) take() []*queued {
	c.mu.Lock()
	defer c.mu.Unlock()
	var rows, bytes int64
	n := 0
	for n < len(c.queue) && rows < maxGroup && bytes < maxGroupSize {
		rows += int64(c.queue[n].rows)
		bytes += c.queue[n].bytes
		n++
	}
	batch := slices.Clone(c.queue[:n])
	c.queue = slices.Delete(c.queue, 0, n)
	return batch
}

// commitBatch writes the entries in one transaction.
func (c *committer) commitBatch(batch []*queued) error {
	var rows, bytes int64
	for _, e := range batch {
		rows, bytes = rows+int64(e.rows), bytes+e.bytes
	}
	ctx, cancel := context.WithTimeout(context.Background(), limitOf(rows, bytes))
	defer cancel()
	g := newGroup(c.workers, c.s.o.Host)
	durable := false
	for _, e := range batch {
		e.add(g)
		durable = durable || e.done != nil
	}
	if err := c.transact(ctx, g, durable); err != nil {
		return c.s.pools.silence.why(err)
	}
	return nil
}

func (c *committer) transact(ctx context.Context, g *group, durable bool) error {
	tx, err := c.s.pools.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if g.nextSeq, err = c.s.st.begin(ctx, tx, durable); err == nil {
		err = g.write(ctx, tx, c.s.st)
	}
	if err != nil {
		_ = tx.Rollback() // the first error says more
		return err
	}
	if err := tx.Commit(); err != nil {
		_ = tx.Rollback()
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func (c *committer) succeeded(batch []*queued) {
	c.mu.Lock()
	was := c.broken
	c.broken, c.owes, c.wrote = nil, false, c.s.o.Clock.Now()
	c.ended(batch)
	c.mu.Unlock()
	c.s.metrics.down.Set(0)
	if was != nil {
		c.s.o.Logger.Info("the ledger can be written again")
	}
	for _, e := range batch {
		e.answer(nil)
		if e.owed {
			c.s.metrics.waiting.Sub(float64(e.cost()))
		}
	}
}

// failed fails all waiting entries except owed ones, which return to the head of the
// queue. It reports whether there are any.
func (c *committer) failed(batch []*queued, err error) (owing bool) {
	c.mu.Lock()
	waiting := slices.Concat(batch, c.queue)
	c.queue = slices.DeleteFunc(slices.Clone(waiting), func(e *queued) bool { return !e.owed })
	c.ended(slices.DeleteFunc(slices.Clone(waiting), func(e *queued) bool { return e.owed }))
	was := c.broken
	c.broken, c.owes = err, len(c.queue) > 0
	owed := len(c.queue)
	c.mu.Unlock()
	c.s.metrics.down.Set(1)
	if was == nil {
		c.s.o.Logger.Error("the ledger cannot be written", "error", err, "changes_owed", owed)
	}
	for _, e := range waiting {
		e.answer(unavailable(err))
	}
	return owed > 0
}

// answer answers the caller, who waits for the first answer only.
func (e *queued) answer(err error) {
	select {
	case e.done <- err:
	default:
	}
}

// pause waits for d, or until the end.
func (c *committer) pause(d time.Duration) {
	t := c.s.o.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
	case <-c.closing:
	}
}
