package rules

import (
	"errors"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Against decides the outcome of a registration whose key is taken by old. Created means
// that old gives way.
//
// Equal content is the same job for as long as that is kept, so that a client may repeat
// its call. An ended job makes room for other content. There are three exceptions. A
// cancelled job makes room for equal content as well. A dead letter gives way to Replace
// and Renew only, because it must not vanish unseen: Later and Sooner replay it. With Replace, Later and
// Sooner something happened anew, so the content of an ended job does not count. A job with the uid of the registration
// is this registration, whatever became of it. With Once no job gives way,
// so that an import can be repeated, though what it reads or how it translates has changed.
// With Key no job gives way either, and other content is an error of the client.
func Against(r *store.Registration, old *job.Job) store.RegisterOutcome {
	switch {
	case r.OnConflict == job.ConflictOnce:
		return store.Kept
	case r.UID != "" && old.UID == r.UID: // this registration itself, sent again
		return store.Same
	case r.OnConflict == job.ConflictKey && r.Spec.SameContent(&old.Spec):
		return store.Same
	case r.OnConflict == job.ConflictKey:
		return store.KeyReused
	case r.OnConflict == job.ConflictRenew && r.Spec.Occurrence.Is(old.Spec.Occurrence):
		return store.Exists // the schedule fired it with another order key
	case old.State.Final():
		return againstEnded(r, old)
	case Moves(r) && old.State == job.Running:
		return store.InFlight
	case Moves(r):
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

// Admits returns Created if a topic with so many unfinished jobs accepts another one, and otherwise why not.
func Admits(l *store.Limits, unfinished int64) store.RegisterOutcome {
	switch {
	case l.Draining:
		return store.TopicDraining
	case IsFull(l, unfinished):
		return store.TopicFull
	}
	return store.Created
}

// IsFull reports whether a topic with so many unfinished jobs has reached its capacity.
func IsFull(l *store.Limits, unfinished int64) bool {
	return l.Capacity > 0 && unfinished >= int64(l.Capacity)
}

func againstEnded(r *store.Registration, old *job.Job) store.RegisterOutcome {
	switch {
	case old.State == job.Dead && Moves(r):
		return store.Moves
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

// Moves reports whether the registration moves the due time of an unfinished job, or replays a dead letter.
func Moves(r *store.Registration) bool {
	return r.OnConflict == job.ConflictLater || r.OnConflict == job.ConflictSooner
}

// Repeats reports whether the registration may repeat one whose job has ended.
func Repeats(r *store.Registration) bool {
	return r.OnConflict != job.ConflictReplace && r.OnConflict != job.ConflictRenew && !Moves(r)
}

// What Move leaves undone.
var (
	// ErrStays: the due time stays.
	ErrStays = errors.New("the due time stays")
	// ErrGaveWay: the job no longer stands in the way as it did; register again.
	ErrGaveWay = errors.New("the job changed concurrently")
)

// Move is the change, for Store.Update, that a registration makes of the job with its key
// if its outcome was store.Moves. It replays a dead letter, with its content and its log, at the due time.
func Move(r *store.Registration) func(j *job.Job, now job.Instant) error {
	return func(j *job.Job, now job.Instant) error {
		if Against(r, j) != store.Moves {
			return ErrGaveWay
		}
		if j.State == job.Dead {
			return j.ReplayAs(j.Spec, &r.Spec.When, now)
		}
		moved, err := j.MoveDue(r.Spec.When, r.OnConflict == job.ConflictLater, now)
		if err == nil && !moved {
			err = ErrStays
		}
		return err
	}
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
