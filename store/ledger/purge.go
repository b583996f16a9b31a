package ledger

import (
	"context"
	"errors"

	"github.com/duehook/duehook/job"
)

// Purge lets the store forget what it may, and deletes what the journal need
// not keep any longer: up to limit messages at a time, until there are no more
// or ctx ends. It returns how many jobs the store forgot.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	c, err := s.begin(ctx, 0)
	if err != nil {
		return 0, err
	}
	defer c.end()
	n, err := s.inner.Purge(ctx, limit)
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
