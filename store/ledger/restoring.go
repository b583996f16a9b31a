package ledger

import (
	"context"
	"errors"

	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// StartRestore requests a pass over all jobs, or those of a topic. The leader makes it.
func (s *Store) StartRestore(ctx context.Context, o store.RestoreOptions) (store.RestoreRun, error) {
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
func (s *Store) RestoreStatus(ctx context.Context) (store.RestoreStatus, error) {
	now, err := s.shares(ctx)
	if err != nil {
		return store.RestoreStatus{}, err
	}
	return store.RestoreStatus{Requested: now.Requested, Reconcile: now.Reconcile, Lost: now.Lost}, nil
}

// RestoreJob restores one job at once.
func (s *Store) RestoreJob(ctx context.Context, key job.Key) (job.Job, bool, error) {
	if err := s.begin(ctx, true); err != nil {
		return job.Job{}, false, err
	}
	defer s.leave()
	if err := s.flush(ctx); err != nil {
		return job.Job{}, false, err
	}
	l := &look{key: key}
	if err := s.lookFirst(ctx, l); err != nil {
		return job.Job{}, false, err
	}
	e := pickOwn(l.rows, "")
	switch {
	case e == nil:
		return job.Job{}, false, store.ErrNotFound
	case e.bad != nil:
		return job.Job{}, false, s.cannotRead(e)
	case !e.open:
		return job.Job{Key: key, UID: e.uid, State: e.state}, false, job.ErrFinished
	}
	j, err := s.inner.Get(ctx, key)
	return j, l.put, err
}
