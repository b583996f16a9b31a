package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// withdrawTimeout bounds the cancelling of a fan-out's jobs, also if the client has gone.
const withdrawTimeout = 10 * time.Second

// refuseTaken refuses a fan-out if jobs that are not of it hold its keys. The kept jobs
// are of it.
func (s *App) refuseTaken(ctx context.Context, f *FanOut, kept []job.Job) error {
	if f.own {
		return nil
	}
	of := make(map[string]bool, len(kept))
	for i := range kept {
		of[kept[i].ID] = true
	}
	others := slices.DeleteFunc(slices.Clone(f.Jobs), func(p Prepared) bool { return of[p.reg.Key.ID] })
	held, err := s.held(ctx, others)
	if err != nil {
		return err
	}
	for i := range others {
		reg := &others[i].reg
		if old := held[reg.Key]; old != nil {
			if r := (store.Registered{Outcome: rules.Against(reg, old), Job: *old}); conflicts(r) {
				f.Refused = append(f.Refused, r)
			}
		}
	}
	if len(f.Refused) > 0 {
		f.Jobs = nil
	}
	return nil
}

// conflicts reports whether the answer to the registration is 409.
func conflicts(r store.Registered) bool {
	return r.Outcome.Conflicts() || r.Outcome == store.TopicDraining
}

// Withdrawn reports whether the job was registered for a fan-out and cancelled, because
// another job of the fan-out was in conflict.
func Withdrawn(r *store.Registered) bool {
	return r.Outcome == store.Created && r.Job.State == job.Cancelled
}

// inConflict are the fan-outs of which a job is in conflict.
func inConflict(jobs []Prepared, registered []store.Registered) map[*FanOut]bool {
	failed := make(map[*FanOut]bool)
	for i := range jobs {
		if jobs[i].fan != nil && conflicts(registered[i]) {
			failed[jobs[i].fan] = true
		}
	}
	return failed
}

// withdraw cancels the jobs that were made for fan-outs of which a job is in conflict. It
// changes their results. A job that has ended in between remains.
func (s *App) withdraw(ctx context.Context, jobs []Prepared, registered []store.Registered) error {
	failed := inConflict(jobs, registered)
	if len(failed) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	return batch.Each(ctx, len(jobs), func(ctx context.Context, i int) error {
		if failed[jobs[i].fan] && registered[i].Outcome == store.Created {
			return s.cancelNew(ctx, &registered[i])
		}
		return nil
	})
}

var errOther = errors.New("another job has the key")

// cancelNew cancels a job that was just registered, without callbacks. If an attempt is in
// flight, no further one follows.
func (s *App) cancelNew(ctx context.Context, r *store.Registered) error {
	uid := r.Job.UID
	j, err := s.o.Store.Update(ctx, r.Job.Key, func(j *job.Job, now job.Instant) error {
		if j.UID != uid {
			return errOther
		}
		j.Spec.Callbacks = nil
		_, err := j.Cancel(now)
		return err
	})
	switch {
	case err == nil:
		r.Job = j
	case !slices.ContainsFunc([]error{errOther, job.ErrFinished, store.ErrNotFound}, func(e error) bool { return errors.Is(err, e) }):
		return err
	}
	return nil
}
