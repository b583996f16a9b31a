package journal

import (
	"context"
	"sync"

	"github.com/duehook/duehook/job"
)

// keyLocks lets one call at a time change a job, so that the journal gets the changes of
// a job in the store's order.
type keyLocks struct {
	mu   sync.Mutex
	held map[job.Key]chan struct{} // closed when the key is released
	owed map[job.Key]*owed
}

// owed are uncommitted changes of a job whose key was released.
type owed struct {
	changes   int
	committed chan struct{} // closed when there are none left
}

// lock takes all keys at once, so that no two callers wait for each other. keys may
// contain duplicates. With written, it waits until all changes of the keys are committed.
// unlock releases them.
func (l *keyLocks) lock(ctx context.Context, written bool, keys ...job.Key) (unlock func(), err error) {
	done := make(chan struct{})
	for {
		busy := l.tryLock(keys, done, written)
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
// free. With written, keys with uncommitted changes are busy too.
func (l *keyLocks) tryLock(keys []job.Key, done chan struct{}, written bool) (busy <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		if held, ok := l.held[k]; ok {
			return held
		}
		if o, ok := l.owed[k]; ok && written {
			return o.committed
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

// unwritten records that changes of locked keys stay uncommitted after the unlock. The
// caller calls the returned function when they are committed or dropped.
func (l *keyLocks) unwritten(keys []job.Key) (written func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owed == nil {
		l.owed = map[job.Key]*owed{}
	}
	for _, k := range keys {
		if l.owed[k] == nil {
			l.owed[k] = &owed{committed: make(chan struct{})}
		}
		l.owed[k].changes++
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, k := range keys {
			if l.owed[k].changes--; l.owed[k].changes == 0 {
				close(l.owed[k].committed)
				delete(l.owed, k)
			}
		}
	}
}
