package loops

import (
	"context"
	"sync"
)

// Mailbox passes named values to one goroutine. It holds one value of each name: a later one replaces an earlier one. Its methods are
// safe for concurrent use.
type Mailbox[V any] struct {
	Wake Signal // there are values

	mu     sync.Mutex
	values map[string]V
	taken  bool          // the goroutine works on values
	idle   chan struct{} // closed when there is nothing to do; nil while nobody waits
}

// NewMailbox returns an empty Mailbox.
func NewMailbox[V any]() *Mailbox[V] {
	return &Mailbox[V]{Wake: NewSignal(), values: map[string]V{}}
}

// Put never blocks.
func (b *Mailbox[V]) Put(name string, v V) {
	b.mu.Lock()
	b.values[name] = v
	b.mu.Unlock()
	b.Wake.Set()
}

// Take empties the mailbox.
func (b *Mailbox[V]) Take() map[string]V {
	b.mu.Lock()
	defer b.mu.Unlock()
	values := b.values
	b.values = map[string]V{}
	b.taken = true
	return values
}

// Done says that the values taken so far have had their effect.
func (b *Mailbox[V]) Done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = false
	if len(b.values) == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}

// Settled waits until all values have had their effect, or ctx ends.
func (b *Mailbox[V]) Settled(ctx context.Context) error {
	b.mu.Lock()
	if len(b.values) == 0 && !b.taken {
		b.mu.Unlock()
		return nil
	}
	if b.idle == nil {
		b.idle = make(chan struct{})
	}
	idle := b.idle
	b.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Any reports whether there is a value.
func (b *Mailbox[V]) Any() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.values) > 0
}

// Has reports whether there is a value of a name.
func (b *Mailbox[V]) Has(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.values[name]
	return ok
}
