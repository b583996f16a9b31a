package app

import (
	"context"
	"errors"
	"slices"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// registrar is the part of a store that register needs.
type registrar interface {
	Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error)
	Update(ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error) (job.Job, error)
}

// register registers jobs, and moves the due times of unfinished ones and of dead letters: the outcome
// store.Moves becomes store.Moved or store.Kept. Registrations of one key take effect
// in their order.
func register(ctx context.Context, s registrar, regs []store.Registration) ([]store.Registered, error) {
	if len(regs) < 2 || !slices.ContainsFunc(regs, func(r store.Registration) bool { return rules.Moves(&r) }) {
		return registerAndMove(ctx, s, regs) // the store keeps the order
	}
	out := make([]store.Registered, len(regs))
	for _, round := range rules.KeysApart(regs) {
		some := make([]store.Registration, len(round))
		for i, n := range round {
			some[i] = regs[n]
		}
		registered, err := registerAndMove(ctx, s, some)
		if err != nil {
			return nil, err
		}
		for i, n := range round {
			out[n] = registered[i]
		}
	}
	return out, nil
}

// registerAndMove registers jobs. Their keys differ if any of them is to be moved.
func registerAndMove(ctx context.Context, s registrar, regs []store.Registration) ([]store.Registered, error) {
	out, err := s.Register(ctx, regs)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(out, func(r store.Registered) bool { return r.Outcome == store.Moves }) {
		return out, nil
	}
	return batch.Gather(ctx, len(out), func(ctx context.Context, i int) (store.Registered, error) {
		if out[i].Outcome == store.Moves {
			return move(ctx, s, &regs[i])
		}
		return out[i], nil
	})
}

// moveTries bounds how often a registration starts over because the job that holds its
// key changed.
const moveTries = 10

// move moves the due time of the job that holds the key of r, or registers r if that
// job has ended in between.
func move(ctx context.Context, s registrar, r *store.Registration) (store.Registered, error) {
	last := job.Job{Key: r.Key}
	for range moveTries {
		j, err := s.Update(ctx, r.Key, rules.Move(r))
		switch {
		case err == nil:
			return store.Registered{Outcome: store.Moved, Job: j}, nil
		case errors.Is(err, store.ErrConflict):
			return store.Registered{Outcome: store.Busy, Job: last}, nil
		case errors.Is(err, store.ErrTopicFull):
			return store.Registered{Outcome: store.TopicFull}, nil
		case errors.Is(err, store.ErrTopicDraining):
			return store.Registered{Outcome: store.TopicDraining}, nil
		case errors.Is(err, store.ErrFull):
			return store.Registered{Outcome: store.StoreFull}, nil
		case errors.Is(err, rules.ErrStays):
			return store.Registered{Outcome: store.Kept, Job: j}, nil
		case !errors.Is(err, rules.ErrGaveWay) && !errors.Is(err, store.ErrNotFound):
			return store.Registered{}, err
		}
		switch again, err := s.Register(ctx, []store.Registration{*r}); {
		case err != nil:
			return store.Registered{}, err
		case again[0].Outcome != store.Moves:
			return again[0], nil
		default:
			last = again[0].Job
		}
	}
	return store.Registered{Outcome: store.Busy, Job: last}, nil
}
