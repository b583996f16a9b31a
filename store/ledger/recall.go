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

// recall puts ended jobs back into a store that has lost them before their time,
// because a client seems to repeat the registration of one: it is to be told of
// that job, not to get another. It notes the keys that it was asked about.
func (s *Store) recall(ctx context.Context, intakes []*intake, recalled map[job.Key]bool) error {
	var seqs []int64
	for _, in := range intakes {
		if in.insertion != nil && in.insertion.ended != 0 {
			seqs = append(seqs, in.insertion.ended)
			recalled[in.reg.Key] = true
		}
	}
	return s.Messages(ctx, seqs, func(messages []journal.Stored, bad []journal.Unreadable) error {
		s.ReportUnreadable(bad)
		return s.recallEnded(ctx, messages)
	})
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
