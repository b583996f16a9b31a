package ledger

import (
	"context"

	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// rowsPerRegistration is how many rows a registration writes: message, payload, flow,
// and the end of the job that it replaces.
const rowsPerRegistration = 4

// Register writes jobs to the store, and answers once they are committed to the ledger. While
// commits fail it refuses. A job with the key that the store has lost, or has in an older version,
// is put right first: it decides about the registration.
func (s *Store) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	results := make([]store.Registered, len(regs))
	for _, round := range rules.KeysApart(regs) {
		if err := s.registerRound(ctx, regs, round, results); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (s *Store) registerRound(ctx context.Context, regs []store.Registration, round []int, results []store.Registered) error {
	intakes, looks, apart := make([]*intake, len(round)), make([]*look, len(round)), make([]store.Registration, len(round))
	for i, n := range round {
		intakes[i], apart[i] = &intake{look: look{key: regs[n].Key}}, regs[n]
		switch {
		case regs[n].Spec.Occurrence != nil: // its job shows that it fired, however long ago
			intakes[i].asks = 1
		case rules.Repeats(&regs[n]):
			intakes[i].asks = s.keptSince()
		}
		looks[i] = &intakes[i].look
	}
	if err := s.begin(ctx, true); err != nil {
		return err
	}
	defer s.leave()
	if err := s.lookFirst(ctx, looks...); err != nil {
		return err
	}
	if err := s.writable(ctx); err != nil {
		return err
	}
	done, err := s.inner.Register(ctx, apart)
	if err != nil {
		return err
	}
	for i, in := range intakes {
		in.result, results[round[i]] = done[i], done[i]
	}
	return s.writeRegistered(ctx, intakes)
}

// writeRegistered writes new jobs to the ledger, and those that are acknowledged again and that it
// lacks: the first answer was lost, and its node may have died before the ledger had the job.
func (s *Store) writeRegistered(ctx context.Context, intakes []*intake) error {
	w := write{owed: true, add: func(g *group) {
		for _, in := range intakes {
			in.write(g)
		}
	}}
	for _, in := range intakes {
		if in.writes() {
			in.message = newMessage(in.result.Job, in.result.Job.UpdatedAt)
			w.rows, w.bytes = w.rows+rowsPerRegistration, w.bytes+in.message.size()
		}
	}
	if w.rows == 0 {
		return nil
	}
	return s.commit(ctx, w)
}

// intake is a registration in progress.
type intake struct {
	look
	result  store.Registered
	message message
}

// writes reports whether the ledger has to get the job.
func (in *intake) writes() bool {
	switch in.result.Outcome {
	case store.Created:
		return true
	case store.Same:
		return pickOwn(in.rows, in.result.Job.UID) == nil
	}
	return false
}

// write writes a new job and ends the one in whose place it is, or writes a job that the ledger lacks.
func (in *intake) write(g *group) {
	switch {
	case !in.writes():
	case in.result.Outcome == store.Same:
		g.rewritten(&in.message) // another node may have written later changes
	default:
		if in.old.Exists() && !in.old.State.Final() {
			g.replace(in.key, &in.old, in.result.Job.CreatedAt)
		}
		before := []string{in.old.UID}
		for _, e := range in.rows {
			before = append(before, e.uid)
		}
		g.taken(&in.message, before)
	}
}
