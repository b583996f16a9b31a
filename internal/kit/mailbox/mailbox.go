// Package mailbox passes named values to one goroutine.
package mailbox

import (
	"sync"

	"github.com/duehook/duehook/internal/kit/signal"
)

// Mailbox holds one value of each name: a later one replaces an earlier one. Its methods are
// safe for concurrent use.
type Mailbox[V any] struct {
	Wake signal.Signal // there are values

	mu     sync.Mutex
	values map[string]V
}

// New returns an empty Mailbox.
func New[V any]() *Mailbox[V] {
	return &Mailbox[V]{Wake: signal.New(), values: map[string]V{}}
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
	return values
}

// Has reports whether there is a value of a name.
func (b *Mailbox[V]) Has(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.values[name]
	return ok
}
