package documents

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// countFor is how long a count of a collection is trusted.
	countFor = 30 * time.Second
	// spareShare is the share of the free room, as a divisor, that a node fills by one
	// count. Up to that many nodes that fill it at once stay within the bounds.
	spareShare = 4
	// countPage is how many documents a count reads at once.
	countPage = 1000
)

// room is how much a node may add to a collection before it counts the collection again.
type room struct {
	mu               sync.Mutex
	counted          time.Time
	documents, bytes int
}

// take takes room, if the last count is recent and leaves enough.
func (r *room) take(now time.Time, documents, bytes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counted.IsZero() || now.Sub(r.counted) > countFor || documents > r.documents || bytes > r.bytes {
		return false
	}
	r.documents -= documents
	r.bytes -= max(bytes, 0)
	return true
}

// Reserve makes room for a number of further documents and bytes of content, which Update
// does itself. It counts the collection only now and then, and before the documents are
// written. So calls and nodes that fill the collection at the same time may pass the bounds,
// by what they add at once. The bounds keep collections small; nothing depends on the last
// document. Errors: ErrFull with Options.Full, and the store's.
func (c *Collection[T]) Reserve(ctx context.Context, documents, bytes int) error {
	bounded := c.o.Max > 0 && documents > 0 || c.o.MaxBytes > 0 && bytes > 0
	now := c.o.Clock.Now()
	if !bounded || c.room.take(now, documents, bytes) {
		return nil
	}
	number, size, err := c.count(ctx)
	if err != nil {
		return err
	}
	number, size = number+documents, size+bytes
	if c.o.Max > 0 && documents > 0 && number > c.o.Max || c.o.MaxBytes > 0 && bytes > 0 && size > c.o.MaxBytes {
		return c.full()
	}
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	c.room.counted = now
	c.room.documents, c.room.bytes = spare(c.o.Max, number), spare(c.o.MaxBytes, size)
	return nil
}

func (c *Collection[T]) full() error {
	if c.o.Full == nil {
		return ErrFull
	}
	return fmt.Errorf("%w: %w", c.o.Full, ErrFull)
}

// spare is how much may be added to taken before the next count. Without a bound it is
// large.
func spare(most, taken int) int {
	if most == 0 {
		return 1 << 30
	}
	return max(most-taken, 0) / spareShare
}

// count returns the number of documents that count, and the bytes of their contents.
func (c *Collection[T]) count(ctx context.Context) (documents, bytes int, err error) {
	for raw, err := range c.From(ctx, "", countPage) {
		if err != nil {
			return 0, 0, err
		}
		if c.o.Exists != nil {
			if d := c.Decode(raw); d.Err == nil && !c.exists(&d) {
				continue
			}
		}
		documents, bytes = documents+1, bytes+len(raw.Data)
	}
	return documents, bytes, nil
}
