package store

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/job"
)

// maxRegisterTries bounds how often a registration starts over because the job
// that holds its key changed.
const maxRegisterTries = 10

// movers is how many due times are moved at a time.
const movers = 16

// Changer is the part of a Registrar that Register needs.
type Changer interface {
	Register(ctx context.Context, regs []Registration) ([]Registered, error)
	Update(ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error) (job.Job, error)
}

// Register is Registrar.Register with the outcome Moves carried out, so that it
// gives Moved or Kept instead. Registrations of one key take effect in their order.
func Register(ctx context.Context, s Changer, regs []Registration) ([]Registered, error) {
	parts := [][]int{nil}
	if len(regs) > 1 && movesAny(regs) {
		parts = KeysApart(regs)
	}
	if len(parts) == 1 {
		return registerPart(ctx, s, regs)
	}
	out := make([]Registered, len(regs))
	for _, part := range parts {
		some := make([]Registration, len(part))
		for i, n := range part {
			some[i] = regs[n]
		}
		registered, err := registerPart(ctx, s, some)
		if err != nil {
			return nil, err
		}
		for i, n := range part {
			out[n] = registered[i]
		}
	}
	return out, nil
}

// KeysApart parts the indexes of regs so that no key comes twice in a part. Those
// of one key keep their order.
func KeysApart(regs []Registration) [][]int {
	var parts [][]int
	seen := make(map[job.Key]int, len(regs))
	for i := range regs {
		n := seen[regs[i].Key]
		seen[regs[i].Key]++
		if n == len(parts) {
			parts = append(parts, nil)
		}
		parts[n] = append(parts[n], i)
	}
	return parts
}

func movesAny(regs []Registration) bool {
	for i := range regs {
		if regs[i].moves() {
			return true
		}
	}
	return false
}

// registerPart registers jobs whose keys differ if any of them is to be moved.
func registerPart(ctx context.Context, s Changer, regs []Registration) ([]Registered, error) {
	out, err := s.Register(ctx, regs)
	if err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(movers)
	for i := range out {
		if out[i].Outcome == Moves {
			group.Go(func() (err error) {
				out[i], err = moveDue(ctx, s, regs[i])
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

var (
	errStays   = errors.New("the due time stays")
	errGaveWay = errors.New("the job changed since it was looked at")
)

// moveDue moves the due time of the job that holds the key of r, or registers r if
// that has ended meanwhile.
func moveDue(ctx context.Context, s Changer, r Registration) (Registered, error) {
	for range maxRegisterTries {
		j, err := s.Update(ctx, r.Key, func(j *job.Job, now job.Instant) error {
			if r.Against(j) != Moves {
				return errGaveWay
			}
			moved, err := j.MoveDue(r.Spec.When, r.OnConflict == Later, now)
			if err == nil && !moved {
				err = errStays
			}
			return err
		})
		switch {
		case err == nil:
			return Registered{Outcome: Moved, Job: j}, nil
		case errors.Is(err, errStays):
			return Registered{Outcome: Kept, Job: j}, nil
		case !errors.Is(err, errGaveWay) && !errors.Is(err, ErrNotFound):
			return Registered{}, err
		}
		switch again, err := s.Register(ctx, []Registration{r}); {
		case err != nil:
			return Registered{}, err
		case again[0].Outcome != Moves:
			return again[0], nil
		}
	}
	return Registered{}, ErrConflict
}
