package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/successors"
)

// How often a job is repaired before a change, and how often a change is retried after a
// concurrent one.
const (
	updateTries = 3
	maxTries    = 20
)

// Reasons in the flow for what a client did.
const (
	reasonChanged         = "changed"          // PATCH, or run now
	reasonReplayed        = "replayed"         // an ended job is sent again
	reasonCancelRequested = "cancel_requested" // an attempt is in flight
	reasonExpiryCharged   = "expiry_charged"   // a suspect is about to be sent
)

// rowsPerChange is how many rows a change writes: message, payload, flow.
const rowsPerChange = 3

// Update changes a job in the store, and answers once that is committed to the ledger. While
// the ledger cannot be written it refuses. A job that the store has lost, or has in an older
// version, is repaired first; otherwise a client could cancel a delivered job.
//
// The ledger gets an unacknowledged change later.
func (s *Store) Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	if store.IsUnacknowledged(ctx) {
		return s.update(ctx, key, false, change)
	}
	return putRightFirst(ctx, s, key, func() (job.Job, error) { return s.update(ctx, key, true, change) })
}

// update changes a job. With waits, it compares the job with the ledger first, and waits until
// the ledger has the change.
func (s *Store) update(ctx context.Context, key job.Key, waits bool, change func(*job.Job, job.Instant) error) (job.Job, error) {
	c, err := s.begin(ctx, waits, rowsPerChange)
	if err != nil {
		return job.Job{}, err
	}
	defer c.end()
	if err := s.owing(); waits && err != nil {
		return job.Job{}, err
	}
	var from job.State
	var now job.Instant
	var refused *job.Job // the job that change refused
	j, err := s.inner.Update(ctx, key, func(j *job.Job, at job.Instant) error {
		from, now, refused = j.State, at, nil
		c.free() // it is another try
		if waits {
			if err := s.current(ctx, j); err != nil {
				return err
			}
		}
		was := *j
		if err := change(j, at); err != nil {
			refused = &was
			return err
		}
		// The key is held from here to the commit only: change may make calls of its own.
		return c.hold(ctx, keysOfChange(j, from)...)
	})
	if waits && refused != nil && refused.State.Final() {
		// The answer reports an end that another call made, perhaps without a commit so far.
		if err := s.writeEnd(ctx, c, refused); err != nil {
			return job.Job{}, err
		}
	}
	if err != nil {
		return j, err
	}
	w, written := changeOf(&j, from, now)
	if !waits {
		c.owe(w)
		return j, nil
	}
	if err := c.commit(w); err != nil {
		return job.Job{}, err
	}
	if err := s.kept(ctx, c, &j, *written); err != nil {
		return job.Job{}, err
	}
	return j, nil
}

// keysOfChange are the keys of a job that a change made of one in state from, and of the jobs
// that follow from it.
func keysOfChange(j *job.Job, from job.State) []job.Key {
	keys := []job.Key{j.Key}
	for _, n := range j.Ended(from, job.ShedNothing) {
		keys = append(keys, n.Key)
	}
	return keys
}

// changeOf is the write of an update that made j of a job in state from. written is the job's
// change in the group, when that is committed.
func changeOf(j *job.Job, from job.State, now job.Instant) (w write, written **change) {
	m := newMessage(*j, now)
	var next []message
	w, written = write{rows: rowsPerChange, bytes: m.size(), owed: true}, new(*change)
	for _, reg := range successors.Of(j.UID, j.Ended(from, job.ShedNothing)) {
		next = append(next, newMessage(reg.Job(j.EndedAt), now))
		w.rows, w.bytes = w.rows+rowsPerRegistration, w.bytes+next[len(next)-1].size()
	}
	w.add = func(g *group) {
		*written = g.updated(&m, from, updateReason(from, &m.job))
		for i := range next {
			g.taken(&next[i], nil)
		}
	}
	return w, written
}

// updateReason is the reason in the flow of a change that made j of a job in state
// from.
func updateReason(from job.State, j *job.Job) string {
	switch {
	case j.State.Final():
		return j.Reason
	case from.Final():
		return reasonReplayed
	case j.State == job.Running && j.CancelRequested:
		return reasonCancelRequested
	case j.State == job.Running:
		return reasonExpiryCharged
	}
	return reasonChanged
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

// putRight updates the store with the ledger's version if its old version made an update fail.
// again: the update may be tried again. put: the store was updated; otherwise the ledger
// was ahead of what the update had read, not of the store.
func (s *Store) putRight(ctx context.Context, key job.Key, failed error) (again, put bool, err error) {
	var behind *behindError
	switch {
	case errors.As(failed, &behind):
		done, bad, err := s.putForward(context.WithoutCancel(ctx), []finding{behind.finding})
		s.reportUnreadable(bad)
		put = done.Repaired > 0 || len(bad) > 0
		if put {
			done.Conflicts = 1
			s.metrics.add(done)
		}
		return true, put, err
	case errors.Is(failed, store.ErrNotFound):
		_, restored, err := s.RestoreJob(ctx, key)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, job.ErrFinished) {
			return false, false, nil
		}
		return restored, true, err
	}
	return false, false, nil
}

// current fails with a behindError if the ledger has the job further than the
// store.
func (s *Store) current(ctx context.Context, j *job.Job) error {
	f, own, err := s.found(ctx, j)
	switch {
	case err != nil:
		return err
	case j.State.Final() && own != nil && own.version <= j.Version, !f.putsForward():
		return nil
	}
	return &behindError{f}
}

// found compares a job of the store with the ledger. own is its own message there, or nil.
func (s *Store) found(ctx context.Context, j *job.Job) (f finding, own *entry, err error) {
	f.key, f.standing = j.Key, store.StandingOf(j)
	owns, opens, err := s.entries(ctx, []job.Key{j.Key}, []store.Standing{f.standing})
	if err != nil {
		return f, nil, err
	}
	f.difference, f.entry = judged(&f.standing, owns[0], opens[0])
	return f, owns[0], nil
}

// writeEnd writes the end of a job that the ledger lacks: the node that ended the job may
// have died before it wrote that.
func (s *Store) writeEnd(ctx context.Context, c *call, ended *job.Job) error {
	if err := c.hold(ctx, ended.Key); err != nil {
		return err
	}
	f, _, err := s.found(ctx, ended)
	if err == nil && f.difference == BehindInLedger {
		_, err = s.catchUp(ctx, c, []finding{f})
	}
	return err
}

// kept makes sure that the store has a change which the ledger has by now, or which was
// overtaken there. A store that went back in time may have handed out an older version of
// the job, so claims are checked from here on.
func (s *Store) kept(ctx context.Context, c *call, changed *job.Job, written *change) error {
	overtaken := written.overtaken
	for range updateTries {
		j, err := s.inner.Get(ctx, changed.Key)
		gone := errors.Is(err, store.ErrNotFound) || err == nil && j.UID != changed.UID
		switch {
		case gone && !overtaken:
			return nil // it is over, or comes back from the ledger
		case err != nil && !gone:
			return err
		case gone, !stillHas(&j, changed):
			return fmt.Errorf("%w: the outcome of the change of %s is unknown", store.ErrUnavailable, changed.Key)
		case !overtaken:
			return nil
		}
		// A later version by another node lacks the change.
		m := newMessage(j, job.InstantOf(s.o.Clock.Now()))
		err = c.commit(write{rows: rowsPerRepair, bytes: m.size(), owed: true, add: func(g *group) {
			written = g.rewritten(&m)
		}})
		if err != nil || !written.overtaken {
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
