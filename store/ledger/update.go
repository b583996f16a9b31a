package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/successors"
)

// updateTries is how often a change is looked for in the store after its commit.
const updateTries = 3

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
// version, is put right first; otherwise a client could cancel a delivered job.
//
// The ledger gets an unacknowledged change later.
func (s *Store) Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	waits := !store.IsUnacknowledged(ctx)
	if err := s.begin(ctx, waits); err != nil {
		return job.Job{}, err
	}
	defer s.leave()
	if err := s.owing(); waits && err != nil {
		return job.Job{}, err
	}
	for range maxTries {
		if j, again, err := s.update(ctx, key, waits, change); !again {
			return j, err
		}
	}
	return job.Job{}, store.ErrConflict
}

// errWentBack is the error of a change of a job that the store has no more as it was looked at.
var errWentBack = errors.New("the store went back")

// update changes a job. With waits, it looks at the job first, and waits until the ledger has the
// change. again: the store went back meanwhile, or the job ended and the ledger may lack that.
func (s *Store) update(ctx context.Context, key job.Key, waits bool, change func(*job.Job, job.Instant) error) (j job.Job, again bool, err error) {
	l := &look{key: key}
	if waits {
		if err := s.lookFirst(ctx, l); err != nil {
			return j, false, err
		}
	}
	var from job.State
	var now job.Instant
	free := func() {}
	defer func() { free() }()
	j, err = s.inner.Update(ctx, key, func(j *job.Job, at job.Instant) error {
		from, now = j.State, at
		free() // it is another try
		free = func() {}
		if again = waits && !l.since(j); again {
			return errWentBack
		}
		ended := j.State.Final() && j.Version != l.old.Version
		if err := change(j, at); err != nil {
			again = waits && ended // the answer reports the end
			return err
		}
		// The key is held from here to the end only: change may make calls of its own.
		unlock, err := s.keys.lock(ctx, j.Key)
		if err == nil {
			free = unlock
		}
		return err
	})
	if err != nil {
		return j, again || l.old.Exists() && errors.Is(err, store.ErrNotFound), err
	}
	w, written := changeOf(&j, from, now)
	if !waits {
		s.owe(w)
		return j, false, nil
	}
	if err := s.commit(ctx, w); err != nil {
		return job.Job{}, false, err
	}
	if err := s.kept(ctx, &j, *written); err != nil {
		return job.Job{}, false, err
	}
	return j, false, nil
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

// kept makes sure that the store has a change which the ledger has by now, or which was
// overtaken there. A store that went back in time may have handed out an older version of
// the job, so claims are checked from here on.
func (s *Store) kept(ctx context.Context, changed *job.Job, written *change) error {
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
		m := newMessage(j, j.UpdatedAt)
		err = s.commit(ctx, write{rows: rowsPerRepair, bytes: m.size(), owed: true, add: func(g *group) {
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
