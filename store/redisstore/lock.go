package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/store"
)

// Locker returns this process's handle of a shard's carrier lock.
func (s *Store) Locker(shard int) store.Locker {
	return &locker{store: s, name: s.shards[shard].lock}
}

// locker is a lock of redsync, whose scripts compare the holder before they extend
// or release.
type locker struct {
	store *Store
	name  string

	mu    sync.Mutex
	mutex *redsync.Mutex // nil: not held, as far as is known
}

// TryLock takes the lock if it is free.
func (l *locker) TryLock(ctx context.Context, ttl time.Duration) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.store.locks.NewMutex(l.name, redsync.WithExpiry(ttl), redsync.WithTries(1),
		redsync.WithTimeoutFactor(1)) // the caller's context bounds the call
	if err := m.TryLockContext(ctx); err != nil {
		if taken(err) {
			return false, nil
		}
		return false, l.store.wrap(err)
	}
	l.mutex = m
	return true, nil
}

// Extend extends the lock if it is still held. After an error the lock may be held, so the
// next call tries again.
func (l *locker) Extend(ctx context.Context) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(); err != nil || l.mutex == nil {
		return false, err
	}
	held, err := l.mutex.ExtendContext(ctx)
	switch {
	case held:
		return true, nil
	case taken(err):
		l.mutex = nil
		return false, nil
	}
	return false, l.store.wrap(err)
}

// Unlock releases the lock if it is held.
func (l *locker) Unlock(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(); err != nil || l.mutex == nil {
		return err
	}
	m := l.mutex
	l.mutex = nil
	_, err := m.UnlockContext(ctx)
	if err == nil || taken(err) || errors.Is(err, redsync.ErrLockAlreadyExpired) {
		return nil
	}
	return l.store.wrap(err)
}

// check reports a closed store.
func (l *locker) check() error {
	if l.store.closed.Load() {
		return l.store.wrap(redis.ErrClosed)
	}
	return nil
}

// taken distinguishes a lock of another holder from a failed call.
func taken(err error) bool {
	var all *redsync.ErrTaken
	var one *redsync.ErrNodeTaken
	return errors.As(err, &all) || errors.As(err, &one) || errors.Is(err, redsync.ErrFailed)
}
