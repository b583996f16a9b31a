// Package batch gathers the calls of many goroutines into few. Items that arrive
// while a batch is handled form the next batch, so batches grow with the load
// and a single item never waits.
package batch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// Options bound the batches of a Batcher.
type Options[T any] struct {
	// Workers is how many batches are handled at a time: at least 1. One worker
	// handles items in the order of arrival.
	Workers int
	// Enough is the count that must wait before another worker starts beside one: few items wait for the
	// next batch instead.
	Enough int
	// MaxCount bounds the count of a batch, and MaxBytes its bytes; zero means no
	// bound. An item that alone exceeds a bound is a batch of its own.
	MaxCount, MaxBytes int
	// Cost returns what an item adds to the count and the bytes. Nil: 1 and 0.
	Cost func(item T) (count, bytes int)
	// MaxQueued is how many items may wait before Add blocks; zero means no bound.
	MaxQueued int
	// Linger returns how long a batch waits for more items when queued items are
	// waiting. Nil: never. It requires a Clock.
	Linger func(queued int) time.Duration
	Clock  job.Clock
}

// Batcher passes items to a handler in batches. Workers run only while items
// wait. Its methods are safe for concurrent use.
type Batcher[T any] struct {
	opts   Options[T]
	handle func(ctx context.Context, batch []T)

	mu      sync.Mutex
	changed sync.Cond // items were taken, or a worker ended
	queue   []entry[T]
	workers int
}

// entry is a queued item.
type entry[T any] struct {
	item T
	ctx  context.Context // of the waiting caller
	done chan struct{}   // closed when the item was handled; nil: nobody waits
}

// New makes a Batcher. The handler must not keep the batch after it returns. Its
// context carries the values of the first caller and ends at the latest deadline
// of all callers; a cancelled caller does not cancel the batch.
func New[T any](o Options[T], handle func(ctx context.Context, batch []T)) *Batcher[T] {
	if o.Cost == nil {
		o.Cost = func(T) (int, int) { return 1, 0 }
	}
	b := &Batcher[T]{opts: o, handle: handle}
	b.changed.L = &b.mu
	return b
}

// Do passes item to the handler and waits until the handler returns. If ctx ends
// first, Do returns its error: a waiting item is withdrawn, but an item of a batch
// in progress is still handled. If no worker runs, the caller handles the
// item itself instead, which saves a goroutine; it then stays until the handler
// returns.
func (b *Batcher[T]) Do(ctx context.Context, item T) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	if b.workers == 0 && b.opts.Linger == nil {
		b.workers++
		b.mu.Unlock()
		b.handleAlone(ctx, item)
		return nil
	}
	done := make(chan struct{})
	b.push(entry[T]{item: item, ctx: ctx, done: done})
	b.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		b.withdraw(done)
		return ctx.Err()
	}
}

// Add passes item to the handler without waiting for the result. It blocks while
// MaxQueued items wait.
func (b *Batcher[T]) Add(item T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.opts.MaxQueued > 0 && len(b.queue) >= b.opts.MaxQueued {
		b.changed.Wait()
	}
	b.push(entry[T]{item: item, ctx: context.Background()})
}

// Close waits until all items are handled and all workers have ended.
func (b *Batcher[T]) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.workers > 0 {
		b.changed.Wait()
	}
}

// handleAlone handles a batch of one item in the place of a worker. A worker
// continues with the items that arrived meanwhile.
func (b *Batcher[T]) handleAlone(ctx context.Context, item T) {
	lasting, cancel := contextOf([]entry[T]{{ctx: ctx}})
	defer b.leave()
	defer cancel()
	b.handle(lasting, []T{item})
}

// leave ends the caller's time as a worker.
func (b *Batcher[T]) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) > 0 {
		go b.work()
		return
	}
	b.workers--
	b.changed.Broadcast()
}

// push queues an entry and starts a worker for it if one may be started. b.mu is
// held.
func (b *Batcher[T]) push(e entry[T]) {
	b.queue = append(b.queue, e)
	if b.workers == 0 || b.workers < b.opts.Workers && b.waiting() >= b.opts.Enough {
		b.workers++
		go b.work()
	}
}

// waiting is the count that waits. b.mu is held.
func (b *Batcher[T]) waiting() (n int) {
	for i := range b.queue {
		count, _ := b.opts.Cost(b.queue[i].item)
		n += count
	}
	return n
}

func (b *Batcher[T]) withdraw(done chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = slices.DeleteFunc(b.queue, func(e entry[T]) bool { return e.done == done })
}

// work handles batches until no items wait.
func (b *Batcher[T]) work() {
	var entries []entry[T]
	var items []T
	for {
		b.linger()
		entries = b.take(entries[:0])
		if len(entries) == 0 {
			return
		}
		items = slices.Grow(items, len(entries))
		for i := range entries {
			items = append(items, entries[i].item)
		}
		ctx, cancel := contextOf(entries)
		b.handle(ctx, items)
		cancel()
		for i := range entries {
			if entries[i].done != nil {
				close(entries[i].done)
			}
		}
		clear(entries)
		clear(items)
		items = items[:0]
	}
}

// linger waits for more items if the options say so.
func (b *Batcher[T]) linger() {
	if b.opts.Linger == nil {
		return
	}
	b.mu.Lock()
	queued := len(b.queue)
	b.mu.Unlock()
	if queued == 0 {
		return
	}
	if d := b.opts.Linger(queued); d > 0 {
		_ = job.Sleep(context.Background(), b.opts.Clock, d) // no error without a deadline
	}
}

// take moves the next batch from the queue to entries. An empty batch ends the
// worker.
func (b *Batcher[T]) take(entries []entry[T]) []entry[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.next()
	entries = append(entries, b.queue[:n]...)
	b.queue = slices.Delete(b.queue, 0, n)
	if n == 0 {
		b.workers--
	}
	b.changed.Broadcast()
	return entries
}

// next is the length of the next batch. b.mu is held.
func (b *Batcher[T]) next() int {
	total, size := 0, 0
	for i := range b.queue {
		count, bytes := b.opts.Cost(b.queue[i].item)
		total, size = total+count, size+bytes
		if i > 0 && (over(total, b.opts.MaxCount) || over(size, b.opts.MaxBytes)) {
			return i
		}
	}
	return len(b.queue)
}

func over(n, limit int) bool { return limit > 0 && n > limit }

// contextOf makes the context of a batch.
func contextOf[T any](entries []entry[T]) (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(entries[0].ctx)
	var latest time.Time
	for i := range entries {
		until, ok := entries[i].ctx.Deadline()
		if !ok {
			return ctx, func() {}
		}
		if until.After(latest) {
			latest = until
		}
	}
	return context.WithDeadline(ctx, latest)
}
