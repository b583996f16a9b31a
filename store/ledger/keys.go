package ledger

import (
	"context"
	"sync"

	"github.com/duehook/duehook/job"
)

// keyLocks lets one call at a time change a job, so that the ledger gets the changes of
// a job in the store's order.
type keyLocks struct {
	mu   sync.Mutex
	held map[job.Key]chan struct{} // closed when the key is released
}

// lock takes all keys at once, so that no two callers wait for each other. keys may
// contain duplicates. unlock releases them.
func (l *keyLocks) lock(ctx context.Context, keys ...job.Key) (unlock func(), err error) {
	done := make(chan struct{})
	for {
		busy := l.tryLock(keys, done)
		if busy == nil {
			return func() { l.unlock(keys, done) }, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryLock takes all keys, or returns a channel that is closed when a busy one may be
// free.
func (l *keyLocks) tryLock(keys []job.Key, done chan struct{}) (busy <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		if held, ok := l.held[k]; ok {
			return held
		}
	}
	if l.held == nil {
		l.held = map[job.Key]chan struct{}{}
	}
	for _, k := range keys {
		l.held[k] = done
	}
	return nil
}

func (l *keyLocks) unlock(keys []job.Key, done chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		delete(l.held, k)
	}
	close(done)
}
