package rules

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Against decides the outcome of a registration whose key is taken by old. Created means
// that old gives way.
//
// Equal content is the same job for as long as that is kept, so that a client may repeat
// its call. An ended job makes room for other content. There are three exceptions. A
// cancelled job makes room for equal content as well. A dead letter gives way to Replace
// only, because it must not vanish unseen. With Replace, Later and Sooner something
// happened anew, so the content of an ended job does not count. With Renew the uid decides:
// it names the same registration, whatever became of its job.
func Against(r *store.Registration, old *job.Job) store.RegisterOutcome {
	switch {
	case r.OnConflict == job.ConflictRenew && old.First() == r.UID: // this registration itself, sent again
		return store.Same
	case r.OnConflict == job.ConflictRenew && old.State != job.Cancelled && r.Spec.Occurrence.Is(old.Spec.Occurrence):
		return store.Exists // an earlier form of the schedule fired it
	case old.State.Final():
		return againstEnded(r, old)
	case moves(r) && old.State == job.Running:
		return store.InFlight
	case moves(r):
		return store.Moves
	case r.Spec.SameContent(&old.Spec):
		return store.Same
	case r.OnConflict == job.ConflictIgnore:
		return store.Kept
	case r.OnConflict != job.ConflictReplace:
		return store.Exists
	case old.State == job.Running:
		return store.InFlight
	case r.Spec.OrderKey != old.Spec.OrderKey: // it would leave its turn
		return store.OtherOrderKey
	}
	return store.Created
}

func againstEnded(r *store.Registration, old *job.Job) store.RegisterOutcome {
	switch {
	case old.State == job.Dead && r.Spec.OrderKey != old.Spec.OrderKey:
		return store.OtherOrderKey
	case r.OnConflict == job.ConflictReplace, r.OnConflict == job.ConflictRenew, old.State == job.Cancelled:
		return store.Created
	case Repeats(r) && r.Spec.SameContent(&old.Spec):
		return store.Same
	case old.State == job.Dead:
		return store.DeadLetter
	}
	return store.Created
}

// moves reports whether the registration moves the due time of an unfinished job.
func moves(r *store.Registration) bool {
	return r.OnConflict == job.ConflictLater || r.OnConflict == job.ConflictSooner
}

// Repeats reports whether the registration may repeat one whose job has ended.
func Repeats(r *store.Registration) bool {
	return r.OnConflict != job.ConflictReplace && r.OnConflict != job.ConflictRenew && !moves(r)
}

// Registrar is the part of a store that Register needs.
type Registrar interface {
	Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error)
	Update(ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error) (job.Job, error)
}

// Register registers jobs, and moves the due times of unfinished ones: the outcome
// store.Moves becomes store.Moved or store.Kept. Registrations of one key take effect
// in their order.
func Register(ctx context.Context, s Registrar, regs []store.Registration) ([]store.Registered, error) {
	if len(regs) < 2 || !movesAny(regs) { // the store keeps the order
		return registerAndMove(ctx, s, regs)
	}
	out := make([]store.Registered, len(regs))
	for _, round := range KeysApart(regs) {
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

// KeysApart divides the indexes of regs into rounds in which each key comes once.
// Registrations of one key keep their order.
func KeysApart(regs []store.Registration) [][]int {
	var rounds [][]int
	seen := make(map[job.Key]int, len(regs))
	for i := range regs {
		n := seen[regs[i].Key]
		seen[regs[i].Key]++
		if n == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[n] = append(rounds[n], i)
	}
	return rounds
}

func movesAny(regs []store.Registration) bool {
	for i := range regs {
		if moves(&regs[i]) {
			return true
		}
	}
	return false
}

// movers is how many due times are moved at a time.
const movers = 16

// registerAndMove registers jobs. Their keys differ if any of them is to be moved.
func registerAndMove(ctx context.Context, s Registrar, regs []store.Registration) ([]store.Registered, error) {
	out, err := s.Register(ctx, regs)
	if err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(movers)
	for i := range out {
		if out[i].Outcome == store.Moves {
			group.Go(func() (err error) {
				out[i], err = move(ctx, s, &regs[i])
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

// moveTries bounds how often a registration starts over because the job that holds its
// key changed.
const moveTries = 10

var (
	errStays   = errors.New("the due time stays")
	errGaveWay = errors.New("the job changed concurrently")
)

// move moves the due time of the job that holds the key of r, or registers r if that
// job has ended in between.
func move(ctx context.Context, s Registrar, r *store.Registration) (store.Registered, error) {
	for range moveTries {
		j, err := s.Update(ctx, r.Key, func(j *job.Job, now job.Instant) error {
			if Against(r, j) != store.Moves {
				return errGaveWay
			}
			moved, err := j.MoveDue(r.Spec.When, r.OnConflict == job.ConflictLater, now)
			if err == nil && !moved {
				err = errStays
			}
			return err
		})
		switch {
		case err == nil:
			return store.Registered{Outcome: store.Moved, Job: j}, nil
		case errors.Is(err, errStays):
			return store.Registered{Outcome: store.Kept, Job: j}, nil
		case !errors.Is(err, errGaveWay) && !errors.Is(err, store.ErrNotFound):
			return store.Registered{}, err
		}
		switch again, err := s.Register(ctx, []store.Registration{*r}); {
		case err != nil:
			return store.Registered{}, err
		case again[0].Outcome != store.Moves:
			return again[0], nil
		}
	}
	return store.Registered{}, store.ErrConflict
}
