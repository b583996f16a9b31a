package ledger

import (
	"context"

	"github.com/duehook/duehook/job"
)

// Reasons that the flow gives for what a client did.
const (
	reasonChanged         = "changed"          // PATCH, or run now
	reasonReplayed        = "replayed"         // an ended job is sent again
	reasonCancelRequested = "cancel_requested" // an attempt is in flight
)

// Update changes a job in the store, and answers once that is committed to the
// journal. While the journal cannot be written it refuses, unless it may do
// without.
func (s *Store) Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	const rows = 3 // message, payload, flow
	c, err := s.beginAccepting(ctx, rows)
	if err != nil {
		return job.Job{}, err
	}
	defer c.end()
	if err := s.committer.owing(); err != nil && !s.doWithout(err) {
		return job.Job{}, err
	}
	var from job.State
	var now job.Instant
	j, err := s.inner.Update(ctx, key, func(j *job.Job, at job.Instant) error {
		from, now = j.State, at
		c.free() // it is another try
		if err := change(j, at); err != nil {
			return err
		}
		// Only from here to the commit may the change not be overtaken, and change
		// may make calls of its own.
		return c.hold(ctx, key)
	})
	if err != nil {
		return j, err
	}
	m, err := newMessage(j, now)
	if err != nil {
		return job.Job{}, err
	}
	add := func(g *group) { g.put(&m, from, updateReason(from, &m.job)) }
	if s.doWithout(s.committer.owing()) {
		c.journal(rows, len(m.job.Spec.Body), add)
		return j, nil
	}
	err = s.committer.commit(&entry{rows: c.take(rows), bytes: m.size(), owed: true, add: add})
	if err != nil && !s.doWithout(err) {
		return job.Job{}, err
	}
	return j, nil
}

func updateReason(from job.State, j *job.Job) string {
	switch {
	case j.State.Final():
		return j.Reason
	case from.Final():
		return reasonReplayed
	case j.State == job.Running:
		return reasonCancelRequested
	}
	return reasonChanged
}
