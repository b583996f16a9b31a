package dispatcher

import (
	"sync"
	"time"

	"github.com/duehook/duehook/internal/kit/signal"
)

// mailbox passes times of endpoints to one goroutine. A later time of an endpoint
// replaces an earlier one.
type mailbox struct {
	wake signal.Signal // there are times

	mu    sync.Mutex
	times map[string]time.Time
}

func newMailbox() *mailbox {
	return &mailbox{wake: signal.New(), times: map[string]time.Time{}}
}

// put never blocks.
func (b *mailbox) put(endpoint string, at time.Time) {
	b.mu.Lock()
	b.times[endpoint] = at
	b.mu.Unlock()
	b.wake.Set()
}

// take empties the mailbox.
func (b *mailbox) take() map[string]time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	times := b.times
	b.times = map[string]time.Time{}
	return times
}

// has reports whether there is a time of an endpoint.
func (b *mailbox) has(endpoint string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.times[endpoint]
	return ok
}
