package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/duehook/duehook/job"
)

// Purge lets the store forget what it may (see mayForget), and deletes what the journal need
// not keep any longer: up to limit messages at a time, until there are no more
// or ctx ends. It returns how many jobs the store forgot.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	c, err := s.begin(ctx, 0)
	if err != nil {
		return 0, err
	}
	defer c.end()
	n := 0
	if s.mayForget() {
		n, err = s.inner.Purge(ctx, limit)
	}
	if err != nil || limit <= 0 {
		return n, err
	}
	p := &purge{until: job.InstantOf(s.o.Clock.Now()).Add(-s.o.Retention), limit: limit}
	for p.deleted = limit; p.deleted == limit && ctx.Err() == nil && s.closing.Err() == nil; {
		err = errors.Join(err, s.committer.commit(&entry{add: func(g *group) { g.purges = append(g.purges, p) }}))
		if err != nil {
			break
		}
	}
	return n, err
}

// mayForget reports whether the store may forget jobs that ended longer ago
// than its retention. A shared one may when all jobs were compared since: that
// a job has ended must not be forgotten as long as the journal would have it put
// back, because a node that knows better has not written it yet. So it is the
// node that sweeps that lets a shared store forget.
func (s *Store) mayForget() bool {
	if !s.o.Shared {
		return true
	}
	s.mu.Lock()
	swept := s.swept
	s.mu.Unlock()
	return !swept.IsZero() && s.o.Clock.Now().Sub(swept) < s.o.StoreRetention
}

// setSwept notes that all jobs were compared, and when that began.
func (s *Store) setSwept(began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swept = began
}
