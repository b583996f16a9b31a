package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
)

// clockSlack is by how much the clocks of this node and of the store may differ
// before a repeated registration is not recognised.
const clockSlack = time.Minute

// keptSince is since when a job must have ended to be still kept by the store,
// more or less; zero: the store keeps none.
func (s *Store) keptSince() job.Instant {
	if s.o.StoreRetention <= 0 {
		return 0
	}
	return job.InstantOf(s.o.Clock.Now()).Add(-s.o.StoreRetention - clockSlack)
}

// recallEnded puts back what the store lacks of messages and would still keep.
func (s *Store) recallEnded(ctx context.Context, messages []journal.Stored) error {
	var ended []store.RestoredJob
	for i := range messages {
		r := &messages[i].RestoredJob
		o, err := s.Inner.Outlook(ctx, r.Job.Key)
		switch {
		case err == nil: // somebody else was faster
		case !errors.Is(err, store.ErrNotFound):
			return err
		case r.Job.State.Final() && o.Now < r.Job.EndedAt.Add(s.o.StoreRetention):
			ended = append(ended, *r)
		}
	}
	n, err := s.restoreSpread(context.WithoutCancel(ctx), ended)
	s.metrics.add(store.RestoreReport{Restored: n})
	return err
}
