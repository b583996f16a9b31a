package journal

import (
	"context"

	"github.com/duehook/duehook/job"
)

// Reasons in the flow for what a client did.
const (
	reasonChanged         = "changed"          // PATCH, or run now
	reasonReplayed        = "replayed"         // an ended job is sent again
	reasonCancelRequested = "cancel_requested" // an attempt is in flight
	reasonLapseCharged    = "lapse_charged"    // a suspect is about to be sent
)

// RowsPerChange is how many rows a change writes: message, payload, flow.
const RowsPerChange = 3

// Update changes a job in the store, and answers once that is committed to the
// journal. While commits fail it refuses.
func (s *Store) Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	c, err := s.Begin(ctx, RowsPerChange)
	if err != nil {
		return job.Job{}, err
	}
	defer c.End()
	if err := s.Owing(); err != nil {
		return job.Job{}, err
	}
	var from job.State
	var now job.Instant
	j, err := s.Inner.Update(ctx, key, func(j *job.Job, at job.Instant) error {
		from, now = j.State, at
		c.Free() // it is another try
		if err := change(j, at); err != nil {
			return err
		}
		// The key is held from here to the commit only: change may make calls of its own.
		return c.Hold(ctx, key)
	})
	if err != nil {
		return j, err
	}
	m := NewMessage(j, now)
	err = c.Commit(Write{Rows: RowsPerChange, Bytes: m.Size(), Owed: true, Add: func(g *Group) {
		g.Put(&m, from, UpdateReason(from, &m.Job))
	}})
	if err != nil {
		return job.Job{}, err
	}
	return j, nil
}

// UpdateReason is the reason in the flow of a change that made j of a job in state
// from.
func UpdateReason(from job.State, j *job.Job) string {
	switch {
	case j.State.Final():
		return j.Reason
	case from.Final():
		return reasonReplayed
	case j.State == job.Running && j.CancelRequested:
		return reasonCancelRequested
	case j.State == job.Running:
		return reasonLapseCharged
	}
	return reasonChanged
}
