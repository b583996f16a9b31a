package journal

import (
	"context"

	"github.com/duehook/duehook/job"
)

// PurgeAged deletes messages that are older than the retention, up to limit in one
// transaction, until there are no more or ctx ends. A limit of zero deletes nothing.
func (j *Journal) PurgeAged(ctx context.Context, limit int) error {
	if limit <= 0 {
		return nil
	}
	p := &purge{until: job.InstantOf(j.o.Clock.Now()).Add(-j.o.Retention), limit: limit}
	for p.deleted = limit; p.deleted == limit && ctx.Err() == nil && j.closing.Err() == nil; {
		if err := j.await(ctx, func(g *Group) { g.purges = append(g.purges, p) }); err != nil {
			return err
		}
	}
	return nil
}
