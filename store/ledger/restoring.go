package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
)

var _ store.Restoring = (*Reconciler)(nil)

// StartRestore requests a pass over all jobs, or those of a topic. The leader makes it.
func (s *Reconciler) StartRestore(ctx context.Context, o store.RestoreOptions) (store.RestoreRun, error) {
	run := store.RestoreRun{State: store.RestoreWaiting, Options: o, StartedAt: job.InstantOf(s.o.Clock.Now())}
	d, err := s.documents().Update(ctx, sharedName, func(d *documents.Document[shared]) error {
		if !d.Value.Requested.State.Ended() {
			return store.ErrRestoring
		}
		d.Value.Requested = run
		return nil
	})
	if errors.Is(err, store.ErrRestoring) {
		return d.Value.Requested, err
	}
	if err != nil {
		return store.RestoreRun{}, err
	}
	select {
	case s.asked <- struct{}{}:
	default: // a step is due already
	}
	return run, nil
}

// RestoreStatus reports the last runs, whichever node made them.
func (s *Reconciler) RestoreStatus(ctx context.Context) (store.RestoreStatus, error) {
	now, err := s.shares(ctx)
	if err != nil {
		return store.RestoreStatus{}, err
	}
	return store.RestoreStatus{Requested: now.Requested, Reconcile: now.Reconcile, Lost: now.Lost}, nil
}

// RestoreJob restores one job at once.
func (s *Reconciler) RestoreJob(ctx context.Context, key job.Key) (job.Job, bool, error) {
	c, err := s.j.Begin(ctx, 0, key)
	if err != nil {
		return job.Job{}, false, err
	}
	defer c.End()
	if err := s.j.Flush(ctx); err != nil {
		return job.Job{}, false, err
	}
	e, err := s.j.Latest(ctx, key)
	switch {
	case err != nil:
		return job.Job{}, false, err
	case e.Bad != nil:
		return job.Job{}, false, s.cannotRead(e.Unreadable())
	case !e.Open:
		return job.Job{Key: key, UID: e.UID, State: e.State}, false, job.ErrFinished
	}
	standings, err := s.inner.Standings(ctx, []job.Key{key})
	if err != nil {
		return job.Job{}, false, err
	}
	f := finding{against(e, &standings[0]), key, e, standings[0]}
	var done store.RestoreReport
	var bad []journal.Unreadable
	if f.putsForward() {
		if done, bad, err = s.putForward(context.WithoutCancel(ctx), []finding{f}); err != nil {
			return job.Job{}, false, err
		}
		done.Conflicts = done.Repaired
		s.metrics.add(done)
		if done.NoRoom > 0 {
			return job.Job{}, false, store.ErrFull
		}
	}
	j, err := s.inner.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) && len(bad) > 0 {
		err = s.cannotRead(bad[0])
	}
	return j, done.Restored+done.Repaired > 0, err
}

// cannotRead is the error of a job that the journal has and cannot decode.
func (s *Reconciler) cannotRead(u journal.Unreadable) error {
	s.j.ReportUnreadable([]journal.Unreadable{u})
	return fmt.Errorf("%w: %s: %w", store.ErrUnreadable, u.Key, u.Err)
}
