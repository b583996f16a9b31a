package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

var _ store.Restoring = (*Store)(nil)

// StartRestore asks for a comparison of all jobs, or of a topic's. The node that
// sweeps makes it.
func (s *Store) StartRestore(ctx context.Context, o store.RestoreOptions) (store.RestoreRun, error) {
	run := store.RestoreRun{State: store.RestoreWaiting, Options: o, StartedAt: instant(s.o.Clock.Now())}
	for range sweepTries {
		d, err := s.readSweep(ctx)
		if err != nil {
			return store.RestoreRun{}, err
		}
		if !d.Value.Requested.State.Ended() {
			return d.Value.Requested, store.ErrRestoring
		}
		d.Value.Requested = run
		err = s.sweepDocuments().Put(ctx, d)
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if err != nil {
			return store.RestoreRun{}, err
		}
		select {
		case s.sweepNow <- struct{}{}:
		default: // it has been told
		}
		return run, nil
	}
	return store.RestoreRun{}, store.ErrConflict
}

// RestoreStatus tells of the last runs, whichever node made them.
func (s *Store) RestoreStatus(ctx context.Context) (store.RestoreStatus, error) {
	d, err := s.readSweep(ctx)
	if err != nil {
		return store.RestoreStatus{}, err
	}
	return store.RestoreStatus{Requested: d.Value.Requested, Sweep: d.Value.Sweep, Lost: d.Value.Lost}, nil
}

// RestoreJob puts one job back, at once.
func (s *Store) RestoreJob(ctx context.Context, key job.Key) (job.Job, bool, error) {
	c, err := s.begin(ctx, 0, key)
	if err != nil {
		return job.Job{}, false, err
	}
	defer c.end()
	if err := s.committer.flush(); err != nil {
		return job.Job{}, false, err
	}
	e := &entryRow{}
	err = e.scan(s.read.QueryRowContext(ctx, s.st.bind(sqlLatest), key.Topic, key.ID).Scan)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return job.Job{}, false, store.ErrNotFound
	case err != nil:
		return job.Job{}, false, fmt.Errorf("look a message up: %w", unavailable(err))
	case e.bad != nil:
		return job.Job{}, false, s.cannotRead(e.unreadable())
	case !e.open:
		return job.Job{Key: key, UID: e.uid, State: e.state}, false, job.ErrFinished
	}
	standings, err := s.inner.Standings(ctx, []job.Key{key})
	if err != nil {
		return job.Job{}, false, err
	}
	f := finding{e.against(&standings[0]), key, e, standings[0]}
	var done forwarded
	if f.putsForward() {
		if done, err = s.putForward(context.WithoutCancel(ctx), []finding{f}); err != nil {
			return job.Job{}, false, err
		}
		s.metrics.add(store.RestoreReport{Restored: done.restored, Conflicts: done.repaired, Repaired: done.repaired})
		if done.noRoom > 0 {
			return job.Job{}, false, store.ErrFull
		}
	}
	j, err := s.inner.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) && len(done.bad) > 0 {
		err = s.cannotRead(done.bad[0])
	}
	return j, done.restored+done.repaired > 0, err
}

// cannotRead is the error of a job that the journal has, and cannot tell of.
func (s *Store) cannotRead(u unreadable) error {
	s.reportUnreadable([]unreadable{u})
	return fmt.Errorf("%w: %s: %w", store.ErrUnreadable, u.key, u.err)
}
