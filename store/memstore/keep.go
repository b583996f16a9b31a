package memstore

import (
	"context"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Purge deletes ended jobs whose retention has passed, and circuits that have closed.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer s.leave()
	for e := range s.notClosed {
		s.forgetIdle(e, now)
	}
	var old []*record
	var topics []*topic
	s.endings.Scan(func(t *topic) bool {
		if len(old) == limit || t.ending.Add(s.retention) >= now {
			return false
		}
		topics, old = append(topics, t), append(old, s.oldJobs(t, now, limit-len(old))...)
		return true
	})
	for _, rec := range old {
		s.forgetLast(rec)
		s.remove(rec, now)
	}
	for _, t := range topics {
		s.noteEnding(t)
	}
	return len(old), nil
}

// oldJobs returns up to limit jobs of a topic to delete.
func (s *Store) oldJobs(t *topic, now job.Instant, limit int) (old []*record) {
	t.ended.Scan(func(e entry) bool {
		if len(old) == limit || e.score.at().Add(s.retention) >= now {
			return false
		}
		if !e.rec.keepsEnd || e.score.at().Add(job.KeepOccurrence) < now {
			old = append(old, e.rec)
		}
		return true
	})
	return old
}

// noteEnding notes when the first of a topic's jobs ended, if there is one.
func (s *Store) noteEnding(t *topic) {
	s.endings.Delete(t)
	if first, ok := t.ended.Min(); ok {
		t.ending = first.score.at()
		s.endings.Set(t)
	}
}

// lock is the carriers' lock.
type lock struct {
	holder *locker
	ttl    time.Duration
	until  job.Instant
}

// Locker returns the lock for one carrier.
func (s *Store) Locker(int) store.Locker { return &locker{s: s} }

type locker struct{ s *Store }

func (l *locker) TryLock(ctx context.Context, ttl time.Duration) (bool, error) {
	return l.set(ctx, func(held *lock, now job.Instant) bool {
		if held.holder != nil && held.until > now {
			return false
		}
		*held = lock{holder: l, ttl: ttl, until: now.Add(ttl)}
		return true
	})
}

func (l *locker) Extend(ctx context.Context) (bool, error) {
	return l.set(ctx, func(held *lock, now job.Instant) bool {
		if held.holder != l || held.until <= now {
			return false
		}
		held.until = now.Add(held.ttl)
		return true
	})
}

func (l *locker) Unlock(ctx context.Context) error {
	_, err := l.set(ctx, func(held *lock, _ job.Instant) bool {
		if held.holder == l {
			*held = lock{}
		}
		return true
	})
	return err
}

// set applies change to the lock.
func (l *locker) set(ctx context.Context, change func(held *lock, now job.Instant) bool) (bool, error) {
	now, err := l.s.enter(ctx)
	if err != nil {
		return false, err
	}
	defer l.s.leave()
	return change(&l.s.lock, now), nil
}
