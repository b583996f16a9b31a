package documents

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/duehook/duehook/store"
)

const (
	// countFor is how long a count of a collection is trusted.
	countFor = 30 * time.Second
	// fullFor is how long a full collection is taken to be full: other nodes may make room.
	fullFor = time.Second
	// spareShare is the share of the free room, as a divisor, that a node fills by one
	// count. Up to that many nodes that fill it at once stay within the bounds.
	spareShare = 4
	// countPage is how many documents a count reads at once.
	countPage = 1000
)

// amount is a number of documents, and the bytes of their contents.
type amount struct{ documents, bytes int }

func (a amount) plus(b amount) amount { return amount{a.documents + b.documents, a.bytes + b.bytes} }

func (a amount) minus(b amount) amount { return amount{a.documents - b.documents, a.bytes - b.bytes} }

// above is by how much an amount is larger than another one.
func (a amount) above(b amount) amount {
	return amount{max(a.documents-b.documents, 0), max(a.bytes-b.bytes, 0)}
}

// fits reports whether there is room for more; for nothing more there always is.
func (a amount) fits(room amount) bool {
	return (a.documents == 0 || a.documents <= room.documents) && (a.bytes == 0 || a.bytes <= room.bytes)
}

// room is what a node knows of the room in a collection.
type room struct {
	counting chan struct{} // held by the call that counts: the others wait for what it finds

	mu      sync.Mutex
	counted time.Time
	free    amount // by the last count, less what this node has added since
	spare   amount // what this node may add before the next count
}

// take takes room for more: of all that is free, if the caller has just counted. Without known,
// only a count can tell whether there is any.
func (r *room) take(now time.Time, more amount, counted bool) (ok, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	age := now.Sub(r.counted)
	if r.counted.IsZero() || age > countFor {
		return false, false
	}
	if more.fits(r.free) && (counted || more.fits(r.spare)) {
		r.free, r.spare = r.free.minus(more), r.spare.minus(more)
		return true, true
	}
	return false, age < fullFor && !more.fits(r.free)
}

// gain notes room that this node made.
func (r *room) gain(less amount) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free, r.spare = r.free.plus(less), r.spare.plus(less)
}

func (r *room) found(now time.Time, free amount) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counted, r.free, r.spare = now, free, amount{free.documents / spareShare, free.bytes / spareShare}
}

// Reserve makes room for a number of further documents and bytes of content, which Update
// does itself. It counts the collection only now and then, and before the documents are
// written. So calls and nodes that fill the collection at the same time may pass the bounds,
// by what they add at once. The bounds keep collections small; nothing depends on the last
// document. Errors: ErrFull with Options.Full, and the store's.
func (c *core) Reserve(ctx context.Context, documents, bytes int) error {
	var more amount
	if c.bounds.documents > 0 {
		more.documents = max(documents, 0)
	}
	if c.bounds.bytes > 0 {
		more.bytes = max(bytes, 0)
	}
	if more == (amount{}) {
		return nil
	}
	if ok, known := c.room.take(c.clock.Now(), more, false); known {
		return c.fullUnless(ok)
	}
	select {
	case c.room.counting <- struct{}{}:
		defer func() { <-c.room.counting }()
	case <-ctx.Done():
		return fmt.Errorf("count the documents %s: %w: %w", c.kind, store.ErrUnavailable, ctx.Err())
	}
	now := c.clock.Now()
	if ok, known := c.room.take(now, more, false); known { // another call has counted
		return c.fullUnless(ok)
	}
	taken, err := c.count(ctx)
	if err != nil {
		return err
	}
	c.room.found(now, c.bounds.minus(taken))
	ok, _ := c.room.take(now, more, true)
	return c.fullUnless(ok)
}

func (c *core) fullUnless(ok bool) error {
	switch {
	case ok:
		return nil
	case c.full == nil:
		return ErrFull
	}
	return fmt.Errorf("%w: %w", c.full, ErrFull)
}

// takes is the room that a document takes with its content.
func (c *core) takes(d document, plain []byte) amount {
	switch {
	case c.exists != nil && !c.exists(d.value()):
		return amount{}
	case c.size == nil || len(plain) == 0:
		return amount{1, len(plain)}
	}
	return amount{1, c.size(d.value())}
}

// count returns the room that documents take.
func (c *core) count(ctx context.Context) (taken amount, err error) {
	d := c.empty()
	for raw, err := range c.From(ctx, "", countPage) {
		if err != nil {
			return taken, err
		}
		if c.exists != nil && bytes.Contains(raw.Data, c.tombstone) {
			if c.decode(raw, d); d.head().Err == nil && !c.stands(d) {
				continue
			}
		}
		taken = taken.plus(amount{1, len(raw.Data)})
	}
	return taken, nil
}
