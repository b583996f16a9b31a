package journal

import (
	"context"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store/successors"
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

// Update changes a job in the store, and answers once that is committed to the
// journal. While commits fail it refuses, unless the store continues without the journal.
func (s *Store) Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	c, err := s.begin(ctx, true, rowsPerChange)
	if err != nil {
		return job.Job{}, err
	}
	defer c.End()
	if err := s.Owing(); err != nil && !s.sharing.Without(err) {
		return job.Job{}, err
	}
	var from job.State
	var now job.Instant
	var refused *job.Job // the job that change refused
	j, err := s.Inner.Update(ctx, key, func(j *job.Job, at job.Instant) error {
		from, now, refused = j.State, at, nil
		c.Free() // it is another try
		if err := s.sharing.Current(ctx, j); err != nil {
			return err
		}
		was := *j
		if err := change(j, at); err != nil {
			refused = &was
			return err
		}
		// The key is held from here to the commit only: change may make calls of its own.
		keys := []job.Key{key}
		for _, n := range j.Ended(from, job.ShedNothing) {
			keys = append(keys, n.Key)
		}
		if err := c.Hold(ctx, keys...); err != nil {
			return err
		}
		return c.Apply(ctx)
	})
	if refused != nil && refused.State.Final() {
		// The answer reports an end that another call made, perhaps without a commit so far.
		if err := s.sharing.Journaled(ctx, c, refused); err != nil {
			return job.Job{}, err
		}
	}
	if err != nil {
		return j, err
	}
	if err := s.writeChange(ctx, c, &j, from, now); err != nil {
		return job.Job{}, err
	}
	return j, nil
}

// writeChange journals what an update made of a job.
func (s *Store) writeChange(ctx context.Context, c *Call, j *job.Job, from job.State, now job.Instant) error {
	m := NewMessage(*j, now)
	var next []Message
	w := Write{Rows: rowsPerChange, Bytes: m.Size(), Owed: true}
	for _, reg := range successors.Of(j.UID, j.Ended(from, job.ShedNothing)) {
		next = append(next, NewMessage(reg.Job(j.EndedAt), now))
		w.Rows, w.Bytes = w.Rows+rowsPerRegistration, w.Bytes+next[len(next)-1].Size()
	}
	var written *Change
	w.Add = func(g *Group) {
		written = g.Put(&m, from, updateReason(from, &m.Job))
		for i := range next {
			s.sharing.Followed(g, &next[i], nil)
		}
	}
	if s.sharing.Without(s.Owing()) {
		s.sharing.Owe(c, w)
		return nil
	}
	if err := c.Commit(w); s.sharing.Without(err) {
		return nil
	} else if err != nil {
		return err
	}
	return s.sharing.Kept(ctx, c, j, written)
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
