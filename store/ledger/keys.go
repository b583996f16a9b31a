package ledger

import (
	"context"
	"sync"

	"github.com/duehook/duehook/job"
)

// keyLocks lets one update at a time change a job, so that each finds its change in the store
// after the commit.
type keyLocks struct {
	mu   sync.Mutex
	held map[job.Key]chan struct{} // closed when the key is released
}

// lock takes a key. unlock releases it.
func (l *keyLocks) lock(ctx context.Context, key job.Key) (unlock func(), err error) {
	done := make(chan struct{})
	for {
		busy := l.tryLock(key, done)
		if busy == nil {
			return func() { l.unlock(key, done) }, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryLock takes a key, or returns a channel that is closed when it may be free.
func (l *keyLocks) tryLock(key job.Key, done chan struct{}) (busy <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held, ok := l.held[key]; ok {
		return held
	}
	if l.held == nil {
		l.held = map[job.Key]chan struct{}{}
	}
	l.held[key] = done
	return nil
}

func (l *keyLocks) unlock(key job.Key, done chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, key)
	close(done)
}
