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

// Locker is the carrier's lock for a shard, one process's part of it.
func (s *Store) Locker(shard int) store.Locker {
	return &locker{store: s, name: s.shards[shard].lock}
}

type locker struct {
	store *Store
	name  string

	mu    sync.Mutex
	mutex *redsync.Mutex
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

// Extend prolongs the lock if it is still ours. That takes one command, where
// redsync's script counts as three: an idle node does it all the time. Should the
// lock be another's by now, it is prolonged once for that one, who does it anyway.
func (l *locker) Extend(ctx context.Context, ttl time.Duration) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store.closed.Load() {
		return false, l.store.wrap(redis.ErrClosed)
	}
	if l.mutex == nil {
		return false, nil
	}
	holder, err := l.store.db.GetEx(ctx, l.name, ttl).Result()
	if err != nil && !isNil(err) {
		return false, l.store.wrap(err)
	}
	if holder != l.mutex.Value() {
		l.mutex = nil
		return false, nil
	}
	return true, nil
}

// Unlock gives the lock back.
func (l *locker) Unlock(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store.closed.Load() {
		return l.store.wrap(redis.ErrClosed)
	}
	if l.mutex == nil {
		return nil
	}
	m := l.mutex
	l.mutex = nil
	_, err := m.UnlockContext(ctx)
	if err == nil || taken(err) || errors.Is(err, redsync.ErrLockAlreadyExpired) {
		return nil
	}
	return l.store.wrap(err)
}

// taken tells "somebody else has it" from "Redis cannot say".
func taken(err error) bool {
	var all *redsync.ErrTaken
	var one *redsync.ErrNodeTaken
	return errors.As(err, &all) || errors.As(err, &one) || errors.Is(err, redsync.ErrFailed)
}
