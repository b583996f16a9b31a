package ledger

import (
	"context"
	"sync"

	"github.com/duehook/duehook/job"
)

// keyLocks keeps two calls from changing the same job at a time, so that the
// journal gets the changes of a job in the order in which the store made them.
type keyLocks struct {
	mu   sync.Mutex
	held map[job.Key]chan struct{} // closed when the key is given back
}

// lock takes all of keys at once, so that no two callers can wait for each
// other; keys may name one twice. unlock gives them back.
func (l *keyLocks) lock(ctx context.Context, keys []job.Key) (unlock func(), err error) {
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

// tryLock takes all of keys, or gives the channel of one that is held.
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
