package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Allow decides on a change by the present job. After its error, which the call returns,
// nothing changes.
type Allow func(j *job.Job) error

// Get returns a job. Of this and all that follows, callers get what they may see, by access.SightOf.
// Errors: store.ErrNotFound, or the store's.
func (s *App) Get(ctx context.Context, key job.Key) (job.Job, error) {
	j, err := s.o.Store.Get(ctx, key)
	access.SightOf(ctx).Job(&j)
	return j, err
}

// Attempts returns the log of a job's attempts, oldest first.
func (s *App) Attempts(ctx context.Context, key job.Key) ([]job.Attempt, error) {
	all, err := store.Attempts(ctx, s.o.Store, key)
	for i := range all {
		access.SightOf(ctx).Attempt(&all[i])
	}
	return all, err
}

// List returns a page of jobs. An id prefix needs a topic; without one the error is
// a *job.ValidationError.
func (s *App) List(ctx context.Context, q store.Query) (page store.Page, err error) {
	err = access.Paged(ctx, q.Cursor, func(cursor string) (next *string, err error) {
		q.Cursor = cursor
		page, err = listing.List(ctx, s.o.Store, q)
		return &page.Next, err
	})
	for i := range page.Jobs {
		access.SightOf(ctx).Job(&page.Jobs[i])
	}
	return page, err
}

// jobSize is about what a job takes in memory beside its content, in bytes.
const jobSize = 1 << 10

// MaxPage is about the most memory that a page of jobs takes, in bytes.
const MaxPage = store.PageBytes + MaxJobs*jobSize

// PageSize is about what jobs take in memory.
func PageSize(jobs []job.Job) (bytes int64) {
	for i := range jobs {
		bytes += jobSize + int64(store.SizeOf(&jobs[i]))
	}
	return bytes
}

// DeadGroups returns a page of the groups of dead letters, of one topic or of all.
func (s *App) DeadGroups(ctx context.Context, topic string, limit int, cursor string) (page store.DeadPage, err error) {
	err = access.Paged(ctx, cursor, func(cursor string) (next *string, err error) {
		page, err = listing.DeadGroups(ctx, s.o.Store, topic, limit, cursor)
		return &page.Next, err
	})
	return page, err
}

// CheckChange checks what can be checked of a change without its job: the server
// must be allowed to call a new destination. Field names the change.
func (s *App) CheckChange(field job.Field, d *job.Draft) error {
	if d.Destination != nil && d.Destination.Check() == nil {
		if err := s.CheckDestination(field.In("url"), *d.Destination); err != nil {
			return err
		}
	}
	return s.checkDraftedCallbacks(field, d.Callbacks)
}

// StateError refuses a call because of the state of its job. The cause is
// job.ErrFinished, job.ErrInFlight or job.ErrNotEnded.
type StateError struct {
	Job   job.Job // as it stands
	Cause error
}

func (e *StateError) Error() string {
	return fmt.Sprintf("%s is %s: %v", e.Job.Key, e.Job.State, e.Cause)
}

func (e *StateError) Unwrap() error { return e.Cause }

// ErrBusy means that others change the job all the time. The caller may repeat the call.
var ErrBusy = errors.New("others change the job all the time")

// inState is the error of a call for the job, with its state if that is the reason.
func inState(j *job.Job, err error) error {
	if errors.Is(err, store.ErrConflict) {
		return ErrBusy
	}
	for _, cause := range []error{job.ErrFinished, job.ErrInFlight, job.ErrNotEnded} {
		if errors.Is(err, cause) {
			return &StateError{*j, err}
		}
	}
	return err
}

// Change changes an unfinished job. Errors of this and the following calls: those of
// Prepare, a *StateError, those of the store, and of allow.
func (s *App) Change(ctx context.Context, key job.Key, d *job.Draft, allow ...Allow) (job.Job, error) {
	if err := s.CheckChange("", d); err != nil {
		return job.Job{}, err
	}
	return s.update(ctx, key, allow, func(j *job.Job, now job.Instant) error {
		spec, when, err := d.Patch(j, s.o.Bounds, now)
		if err != nil {
			return err
		}
		if err := j.Respecify(ownBody(spec)); err != nil {
			return err
		}
		if when != nil {
			if err := j.Reschedule(*when, now); err != nil {
				return err
			}
		}
		j.Recount(now)
		return nil
	})
}

// Run makes an unfinished job due now.
func (s *App) Run(ctx context.Context, key job.Key, allow ...Allow) (job.Job, error) {
	return s.update(ctx, key, allow, (*job.Job).Run)
}

// Finish ends an unfinished job as delivered, unless an attempt is in flight.
func (s *App) Finish(ctx context.Context, key job.Key, allow ...Allow) (job.Job, error) {
	return s.update(ctx, key, allow, (*job.Job).Finish)
}

// Replay sends an ended job again. A draft that is neither nil nor empty changes it
// first.
func (s *App) Replay(ctx context.Context, key job.Key, d *job.Draft, allow ...Allow) (job.Job, error) {
	if d == nil || d.Empty() {
		return s.update(ctx, key, allow, (*job.Job).Replay)
	}
	if err := s.CheckChange("", d); err != nil {
		return job.Job{}, err
	}
	return s.update(ctx, key, allow, func(j *job.Job, now job.Instant) error {
		spec, when, err := d.Patch(j, s.o.Bounds, now)
		if err != nil {
			return err
		}
		return j.ReplayAs(ownBody(spec), when, now)
	})
}

// CancelResult is what Cancel did.
type CancelResult uint8

// The results of Cancel.
const (
	Cancelled CancelResult = iota
	InFlight               // the attempt in flight is the last
	Discarded              // the job was a dead letter
)

// errCancelledBefore: an earlier Cancel did what this one asks for.
var errCancelledBefore = errors.New("the job was cancelled before")

// Cancel cancels an unfinished job, or discards a dead letter. Repeated, it changes nothing and
// returns the result of the first call: the client may not know that its call succeeded. A
// repetition is allowed for the job as it is, and as it was before the first call.
func (s *App) Cancel(ctx context.Context, key job.Key, allow ...Allow) (job.Job, CancelResult, error) {
	var result CancelResult
	repeats := func(j *job.Job) error {
		if j.State != job.Cancelled {
			return allowed(j, allow)
		}
		before := *j
		before.Version--
		if err := allowed(j, allow); err != nil && allowed(&before, allow) != nil {
			return err
		}
		if result = Cancelled; j.Reason == job.ReasonDiscarded {
			result = Discarded
		}
		return errCancelledBefore
	}
	j, err := s.update(ctx, key, []Allow{repeats}, func(j *job.Job, now job.Instant) error {
		result = Cancelled
		if j.State == job.Dead {
			result = Discarded
			return j.Discard(now)
		}
		inFlight, err := j.Cancel(now)
		if inFlight {
			result = InFlight
		}
		return err
	})
	if errors.Is(err, errCancelledBefore) {
		err = nil
	}
	return j, result, err
}

func (s *App) update(ctx context.Context, key job.Key, allow []Allow, change func(*job.Job, job.Instant) error) (job.Job, error) {
	j, err := s.o.Store.Update(ctx, key, func(j *job.Job, now job.Instant) error {
		if err := allowed(j, allow); err != nil {
			return err
		}
		return change(j, now)
	})
	return j, inState(&j, err)
}

func allowed(j *job.Job, allow []Allow) error {
	for _, allows := range allow {
		if err := allows(j); err != nil {
			return err
		}
	}
	return nil
}

// Update changes a job for an operation, as store.Registrar.Update does.
func (s *App) Update(ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error) (job.Job, error) {
	return s.o.Store.Update(ctx, key, change)
}
