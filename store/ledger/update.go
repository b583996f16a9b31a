package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
)

// How often a job is put right before it is changed, and how often a change is
// begun again because another one came in between.
const (
	updateTries = 3
	maxTries    = 20
)

// Update changes a job in the store, and answers once that is committed to the
// journal. While the journal cannot be written it refuses, unless it may do
// without. A job that a shared store has lost, or has as it was before, is put
// right first: nobody is to be told that it was cancelled when it was delivered.
func (s *Store) Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	puts := 0
	for range maxTries {
		j, err := s.update(ctx, key, change)
		again, put, fixed := s.putRight(ctx, key, err)
		switch {
		case fixed != nil:
			return job.Job{}, fixed
		case !again:
			return j, err
		case put:
			puts++
		}
		if puts == updateTries {
			return job.Job{}, fmt.Errorf("%w: the store has %s as it was before", store.ErrUnavailable, key)
		}
	}
	return job.Job{}, store.ErrConflict
}

// behindError says that the store has a job as it was before.
type behindError struct{ finding }

func (e *behindError) Error() string { return "the store has " + e.key.String() + " as it was before" }

// putRight has the store stand as the journal says, if that is why an update
// failed, which may be tried again then. It reports whether anything was put
// right: if not, the journal was ahead of what the update had read, and not of the store.
func (s *Store) putRight(ctx context.Context, key job.Key, failed error) (again, put bool, err error) {
	var behind *behindError
	switch {
	case errors.As(failed, &behind):
		done, err := s.putForward(context.WithoutCancel(ctx), []finding{behind.finding})
		s.ReportUnreadable(done.bad)
		put = done.repaired > 0 || len(done.bad) > 0
		if put {
			s.metrics.add(store.RestoreReport{Conflicts: 1, Repaired: done.repaired})
		}
		return true, put, err
	case errors.Is(failed, store.ErrNotFound):
		_, restored, err := s.RestoreJob(ctx, key)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, job.ErrFinished) || s.doWithout(err) {
			return false, false, nil
		}
		return restored, true, err
	}
	return false, false, nil
}

// current fails with a behindError if the journal has the job further than the
// store.
func (s *Store) current(ctx context.Context, j *job.Job) error {
	standing := store.StandingOf(j)
	own, open, err := s.Entries(ctx, []job.Key{j.Key}, []store.Standing{standing})
	switch {
	case s.doWithout(err):
		return nil
	case err != nil:
		return err
	case standing.State.Final() && own[0] != nil && own[0].Version <= standing.Version:
		return nil
	}
	d, e := judged(&standing, own[0], open[0])
	f := finding{d, j.Key, e, standing}
	if !f.putsForward() {
		return nil
	}
	return &behindError{f}
}

func (s *Store) update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	c, err := s.beginAccepting(ctx, journal.RowsPerChange+rowsPerRepair)
	if err != nil {
		return job.Job{}, err
	}
	defer c.End()
	if err := s.Owing(); err != nil && !s.doWithout(err) {
		return job.Job{}, err
	}
	var from job.State
	var now job.Instant
	j, err := s.Inner.Update(ctx, key, func(j *job.Job, at job.Instant) error {
		from, now = j.State, at
		c.Free() // it is another try
		if err := s.current(ctx, j); err != nil {
			return err
		}
		if err := change(j, at); err != nil {
			return err
		}
		// Only from here to the commit may the change not be overtaken, and change
		// may make calls of its own.
		return c.Hold(ctx, key)
	})
	if err != nil {
		return j, err
	}
	if err := s.writeChange(ctx, c, &j, from, now); err != nil {
		return job.Job{}, err
	}
	return j, nil
}

// writeChange journals what an update made of a job.
func (s *Store) writeChange(ctx context.Context, c *journal.Call, j *job.Job, from job.State, now job.Instant) error {
	m := journal.NewMessage(*j, now)
	var written *change
	w := journal.Write{Rows: journal.RowsPerChange, Bytes: m.Size(), Owed: true, Add: adding(func(g *group) {
		written = g.change(g.Put(&m, from, journal.UpdateReason(from, &m.Job)))
	})}
	if s.doWithout(s.Owing()) {
		s.owe(c, w)
		return nil
	}
	if err := c.Commit(w); s.doWithout(err) {
		return nil
	} else if err != nil {
		return err
	}
	return s.kept(ctx, c, j, written.overtaken)
}

// kept makes sure that the store has a change which the journal has by now, or
// which was overtaken there. A store that went back before the journal had it may
// have handed out the job as it was: from here on, claims are checked.
func (s *Store) kept(ctx context.Context, c *journal.Call, changed *job.Job, overtaken bool) error {
	for range updateTries {
		j, err := s.Inner.Get(ctx, changed.Key)
		gone := errors.Is(err, store.ErrNotFound) || err == nil && j.UID != changed.UID
		switch {
		case gone && !overtaken:
			return nil // it is over, or comes back from the journal
		case err != nil && !gone:
			return err
		case gone, !stillHas(&j, changed):
			return fmt.Errorf("%w: what came of the change of %s is not known", store.ErrUnavailable, changed.Key)
		case !overtaken:
			return nil
		}
		// What another node has written of a later version lacks the change.
		m := journal.NewMessage(j, job.InstantOf(s.o.Clock.Now()))
		var written *change
		err = c.Commit(journal.Write{Rows: rowsPerRepair, Bytes: m.Size(), Owed: true, Add: adding(func(g *group) {
			written = g.rewritten(&m)
		})})
		if s.doWithout(err) {
			return nil
		}
		if err != nil || !written.overtaken {
			return err
		}
	}
	return fmt.Errorf("%w: %s goes on changing", store.ErrUnavailable, changed.Key)
}

// stillHas reports whether j, which the store has, came of a change. If it did
// not, it was changed again, or the store has lost the change.
func stillHas(j, changed *job.Job) bool {
	now, then := store.StandingOf(j), store.StandingOf(changed)
	switch {
	case now.Version < then.Version, now.Version == then.Version && now.State != then.State:
		return false
	case changed.State.Final():
		return now.Version == then.Version
	case changed.CancelRequested && !j.CancelRequested && !j.State.Final():
		return false
	}
	return j.Spec.SameContent(&changed.Spec) && j.DueAt == changed.DueAt
}
