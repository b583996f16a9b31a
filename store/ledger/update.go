package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
)

// How often a job is repaired before a change, and how often a change is retried after a
// concurrent one.
const (
	updateTries = 3
	maxTries    = 20
)

// Update changes a job in the store, and answers once that is committed to the journal.
// While the journal cannot be written it refuses, unless it may do without. A job that a
// shared store has lost, or has in an older version, is repaired first; otherwise a client
// could cancel a delivered job.
func (s *Store) Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	return putRightFirst(ctx, s, key, func() (job.Job, error) { return s.Store.Update(ctx, key, change) })
}

// Count adds to the count of a job, like Update.
func (s *Store) Count(ctx context.Context, c store.Count) (store.Counted, error) {
	return putRightFirst(ctx, s, c.Key, func() (counted store.Counted, err error) {
		for range maxTries {
			// A conflict: the store went back while the journal was read.
			if counted, err = s.Store.Count(ctx, c); !errors.Is(err, store.ErrConflict) {
				break
			}
		}
		return counted, err
	})
}

// putRightFirst makes a change of a job, again if the job had to be put right first.
func putRightFirst[T any](ctx context.Context, s *Store, key job.Key, change func() (T, error)) (T, error) {
	var none T
	puts := 0
	for range maxTries {
		changed, err := change()
		again, put, fixed := s.putRight(ctx, key, err)
		switch {
		case fixed != nil:
			return none, fixed
		case !again:
			return changed, err
		case put:
			puts++
		}
		if puts == updateTries {
			return none, fmt.Errorf("%w: the store has an older version of %s", store.ErrUnavailable, key)
		}
	}
	return none, store.ErrConflict
}

// behindError reports that the store has an older version of a job.
type behindError struct{ finding }

func (e *behindError) Error() string { return "the store has an older version of " + e.key.String() }

// putRight updates the store with the journal's version if its old version made an update fail.
// again: the update may be tried again. put: the store was updated; otherwise the journal
// was ahead of what the update had read, not of the store.
func (s *Store) putRight(ctx context.Context, key job.Key, failed error) (again, put bool, err error) {
	var behind *behindError
	switch {
	case errors.As(failed, &behind):
		done, bad, err := s.putForward(context.WithoutCancel(ctx), []finding{behind.finding})
		s.ReportUnreadable(bad)
		put = done.Repaired > 0 || len(bad) > 0
		if put {
			done.Conflicts = 1
			s.metrics.add(done)
		}
		return true, put, err
	case errors.Is(failed, store.ErrNotFound):
		_, restored, err := s.RestoreJob(ctx, key)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, job.ErrFinished) || s.Without(err) {
			return false, false, nil
		}
		return restored, true, err
	}
	return false, false, nil
}

// Current fails with a behindError if the journal has the job further than the
// store.
func (s *Store) Current(ctx context.Context, j *job.Job) error {
	f, own, err := s.found(ctx, j)
	switch {
	case s.Without(err):
		return nil
	case err != nil:
		return err
	case j.State.Final() && own != nil && own.Version <= j.Version, !f.putsForward():
		return nil
	}
	return &behindError{f}
}

// found compares a job of the store with the journal. own is its own message there, or nil.
func (s *Store) found(ctx context.Context, j *job.Job) (f finding, own *journal.Entry, err error) {
	f.key, f.standing = j.Key, store.StandingOf(j)
	owns, opens, err := s.Entries(ctx, []job.Key{j.Key}, []store.Standing{f.standing})
	if err != nil {
		return f, nil, err
	}
	f.difference, f.entry = judged(&f.standing, owns[0], opens[0])
	return f, owns[0], nil
}

// Journaled writes the end of a job that the journal lacks: the node that ended the job may
// have died before it journaled that.
func (s *Store) Journaled(ctx context.Context, c *journal.Call, ended *job.Job) error {
	if err := c.Hold(ctx, ended.Key); err != nil {
		return err
	}
	f, _, err := s.found(ctx, ended)
	if err == nil && f.difference == BehindInJournal {
		_, err = s.catchUp(ctx, c, []finding{f})
	}
	if s.Without(err) {
		return nil
	}
	return err
}

// Kept makes sure that the store has a change which the journal has by now, or which was
// overtaken there. A store that went back in time may have handed out an older version of
// the job, so claims are checked from here on.
func (s *Store) Kept(ctx context.Context, c *journal.Call, changed *job.Job, written *journal.Change) error {
	overtaken := written.Overtaken
	for range updateTries {
		j, err := s.Inner.Get(ctx, changed.Key)
		gone := errors.Is(err, store.ErrNotFound) || err == nil && j.UID != changed.UID
		switch {
		case gone && !overtaken:
			return nil // it is over, or comes back from the journal
		case err != nil && !gone:
			return err
		case gone, !stillHas(&j, changed):
			return fmt.Errorf("%w: the outcome of the change of %s is unknown", store.ErrUnavailable, changed.Key)
		case !overtaken:
			return nil
		}
		// A later version by another node lacks the change.
		m := journal.NewMessage(j, job.InstantOf(s.o.Clock.Now()))
		err = c.Commit(journal.Write{Rows: rowsPerRepair, Bytes: m.Size(), Owed: true, Add: adding(func(g *group) {
			written = g.rewritten(&m).Change
		})})
		if s.Without(err) {
			return nil
		}
		if err != nil || !written.Overtaken {
			return err
		}
	}
	return fmt.Errorf("%w: %s keeps changing", store.ErrUnavailable, changed.Key)
}

// stillHas reports whether j, the store's job, is the result of a change. If not, the job
// changed again, or the store lost the change.
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
