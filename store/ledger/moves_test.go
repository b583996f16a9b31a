package ledger_test

import (
	"context"
	"errors"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// registrar is the part of a store that register needs.
type registrar interface {
	Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error)
	Update(ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error) (job.Job, error)
}

// register registers jobs, and moves due times as package scheduler does.
func register(ctx context.Context, s registrar, regs ...store.Registration) error {
	registered, err := s.Register(ctx, regs)
	if err != nil {
		return err
	}
	for i := range registered {
		if registered[i].Outcome != store.Moves {
			continue
		}
		_, err := s.Update(ctx, regs[i].Key, rules.Move(&regs[i]))
		if err != nil && !errors.Is(err, rules.ErrStays) && !errors.Is(err, rules.ErrGaveWay) && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}
