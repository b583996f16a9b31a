package schedules

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/services/events"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/schedule"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/store"
)

// work is the execution of one intent.
type work struct {
	m    *Manager
	name string
	now  job.Instant
	// inherited: another call wrote the intent, and may have begun it.
	inherited bool
	rec       record
	events    []events.Event
	// The result of a manual run.
	ran    RunResult
	notRun error
}

// uidOf is the uid of the job of an occurrence. It follows from its arguments: repeated
// registrations are one job, with one webhook-id.
func uidOf(own string, form uint64, kind job.OccurrenceKind, at int64, key job.Key) string {
	sum := sha256.Sum256([]byte(own + " " + strconv.FormatUint(form, 10) + " " + string(kind) + " " + strconv.FormatInt(at, 10) + " " + key.ID))
	var id ulid.ULID
	_ = id.SetTime(uint64(max(at, 0)) * 1000) // no time of a timetable is too late
	_ = id.SetEntropy(sum[:10])
	return store.BindUID(id.String(), key)
}

// registration makes the registration of an occurrence.
func (w *work) registration(def *Definition, form uint64, at int64, late bool) (store.Registration, error) {
	kind := job.ByTimetable
	if late {
		kind = job.ByMisfire
	}
	t := seconds(at)
	key := job.Key{Topic: def.Topic(), ID: schedule.ID(w.name, t)}
	return w.m.o.Jobs.Occurrence(&def.Job, scheduler.Occurrence{
		Key: key, UID: uidOf(w.rec.UID, form, kind, at, key), Now: w.now, Due: job.InstantOf(schedule.Due(w.name, t, def.spread())),
		Of: job.Occurrence{Schedule: w.name, Time: job.InstantOf(t), Kind: kind},
	})
}

// refusedError says that an occurrence cannot be registered now.
type refusedError struct{ reason, message string }

func (e *refusedError) Error() string { return e.message }

var refusals = map[store.RegisterOutcome]*refusedError{
	store.TopicFull:     {ReasonTopicFull, "The topic of the job has as many unfinished jobs as its capacity allows."},
	store.TopicDraining: {ReasonTopicDraining, "The topic of the job is draining: it takes no jobs."},
}

// execute executes the intent as far as jobs can be registered. After an error the intent
// stays, and is executed again.
func (w *work) execute(ctx context.Context) error {
	r, in := &w.rec, w.rec.Intent
	err := w.occurrences(ctx, in)
	if refused, ok := errors.AsType[*refusedError](err); ok {
		err = nil
		if r.LastError == nil || r.LastError.Reason != refused.reason {
			r.LastError = &LastError{At: w.now, Reason: refused.reason, Message: refused.message}
		}
	} else if err == nil {
		r.LastError = nil
	}
	if err == nil && in.Change != nil {
		err = w.change(ctx, *in.Change)
	}
	if err == nil {
		r.pass(r.Cursor)
		r.Intent = nil
	}
	return err
}

func (w *work) occurrences(ctx context.Context, in *intent) error {
	r := &w.rec
	if in.Release && r.Queued != nil {
		err := w.fireQueued(ctx)
		var refused *refusedError
		if err != nil && !(in.Final && errors.As(err, &refused)) {
			return err
		}
		if err == nil {
			r.Queued = nil
		}
	}
	if r.Def.Overlap != schedule.Replace {
		return w.fireAll(ctx, in.Steps)
	}
	for i, s := range in.Steps {
		if w.fires(s) {
			if err := w.cancelOpen(ctx); err != nil {
				return err
			}
		}
		if err := w.fireAll(ctx, in.Steps[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// fires reports whether a step registers a job. An earlier form may have registered it.
func (w *work) fires(s step) bool {
	return s.Outcome == schedule.Fired && !slices.Contains(w.rec.Stayed, s.Time)
}

// count takes a step over that registers nothing. Times of the step that are decided
// already do not count again.
func (w *work) count(s step) {
	r := &w.rec
	r.Cursor = s.Time
	n := max(s.Count, 1) - r.pass(s.Time)
	switch {
	case n <= 0:
	case s.Outcome == schedule.Queued:
		r.Queued = &queued{Time: s.Time, Late: s.Late, Form: r.Version}
	case s.Outcome == schedule.Missed:
		w.missed(s.Time, n)
	case s.Outcome == schedule.Skipped:
		r.Skipped += n
		w.outcome(job.InstantOf(seconds(s.Time)), schedule.Skipped, ReasonOverlap, events.OccurrenceSkipped, n)
	}
}

// settled counts an occurrence that its topic refuses as failed, if nobody can try again.
func (w *work) settled(at int64, err error) error {
	var refused *refusedError
	if !w.rec.Intent.Final || !errors.As(err, &refused) {
		return err
	}
	w.rec.Failed++
	w.outcome(job.InstantOf(seconds(at)), schedule.Failed, refused.reason, events.OccurrenceFailed, 1)
	return nil
}

func (w *work) outcome(at job.Instant, o schedule.Outcome, reason string, event events.Type, n int64) {
	w.rec.Last = &Last{Time: at, DueAt: job.InstantOf(schedule.Due(w.name, at.Time(), w.rec.Def.spread())), Outcome: o, Reason: reason}
	w.m.metrics.outcomes.WithLabelValues(string(o)).Add(float64(n))
	w.events = append(w.events, events.Event{Type: event, At: w.now, Topic: w.rec.Def.Topic(), Schedule: w.name, Reason: reason, NextAt: at})
}

// fireAll takes all steps. The registrations of the jobs are one call.
func (w *work) fireAll(ctx context.Context, steps []step) error {
	r := &w.rec
	var regs []store.Registration
	wrong := make([]error, len(steps))
	for i, s := range steps {
		if !w.fires(s) {
			continue
		}
		reg, err := w.registration(&r.Def, r.Version, s.Time, s.Late)
		if wrong[i] = err; err == nil {
			regs = append(regs, reg)
		}
	}
	registered, err := w.register(ctx, regs)
	if err != nil {
		return err
	}
	for i, s := range steps {
		switch {
		case !w.fires(s):
			w.count(s)
			continue
		case wrong[i] != nil:
			err = w.invalid(s.Time, wrong[i])
		default:
			err = w.settled(s.Time, w.take(&regs[0], &registered[0], s.Time))
			regs, registered = regs[1:], registered[1:]
		}
		if err != nil {
			return err
		}
		r.Cursor = s.Time
	}
	return nil
}

// fireQueued registers the queued occurrence.
func (w *work) fireQueued(ctx context.Context) error {
	h, def := *w.rec.Queued, &w.rec.Def
	if h.Def != nil {
		def = h.Def
	}
	reg, err := w.registration(def, h.Form, h.Time, h.Late)
	if err != nil {
		return w.invalid(h.Time, err)
	}
	registered, err := w.register(ctx, []store.Registration{reg})
	if err != nil {
		return err
	}
	return w.take(&reg, &registered[0], h.Time)
}

// invalid is for a template that the settings of the server no longer allow.
func (w *work) invalid(at int64, err error) error {
	if !wrongTemplate(err) {
		return err
	}
	w.rec.Failed++
	w.outcome(job.InstantOf(seconds(at)), schedule.Failed, ReasonTemplate, events.OccurrenceFailed, 1)
	return nil
}

func wrongTemplate(err error) bool {
	var wrong *job.ValidationError
	return errors.As(err, &wrong) || errors.Is(err, job.ErrBodyTooLarge)
}

// register registers jobs. Of an inherited intent the journal may know that jobs were
// registered and have ended, although the store has forgotten them.
func (w *work) register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	out := make([]store.Registered, len(regs))
	var fresh []store.Registration
	var places []int
	for i := range regs {
		if w.inherited && w.m.o.Journal != nil {
			switch j, _, err := w.m.o.Journal.RestoreJob(ctx, regs[i].Key); {
			case errors.Is(err, job.ErrFinished) && j.First() == regs[i].UID:
				out[i] = store.Registered{Outcome: store.Same, Job: j}
				continue
			case err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, job.ErrFinished):
				return nil, err
			}
		}
		fresh, places = append(fresh, regs[i]), append(places, i)
	}
	if len(fresh) == 0 {
		return out, nil
	}
	registered, err := w.m.o.Jobs.RegisterOwn(ctx, fresh)
	if err != nil {
		return nil, fmt.Errorf("register the occurrences of %s: %w", w.name, err)
	}
	for i, n := range places {
		out[n] = registered[i]
	}
	return out, nil
}

// take counts the result of a registration.
func (w *work) take(reg *store.Registration, got *store.Registered, at int64) error {
	r := &w.rec
	if refused := refusals[got.Outcome]; refused != nil {
		return refused
	}
	t := job.InstantOf(seconds(at))
	if got.Outcome == store.StoreFull {
		return store.ErrFull
	}
	switch {
	case got.Job.First() == reg.UID:
	case reg.Spec.Occurrence.Is(got.Job.Spec.Occurrence): // a client ran it early; an earlier form counted it
		return nil
	default:
		r.Failed++
		w.outcome(t, schedule.Failed, ReasonIDTaken, events.OccurrenceFailed, 1)
		return nil
	}
	r.Fired++
	r.Last = &Last{Time: t, DueAt: reg.Spec.When.At, Outcome: schedule.Fired, Key: reg.Key, UID: reg.UID}
	w.m.metrics.outcomes.WithLabelValues(string(schedule.Fired)).Inc()
	if r.Def.Overlap != schedule.Allow {
		r.Open = append(r.Open, reg.Key)
	}
	return nil
}

// cancelOpen cancels the unfinished jobs of the schedule.
func (w *work) cancelOpen(ctx context.Context) error {
	for _, key := range w.rec.Open {
		_, err := w.m.o.Jobs.Update(ctx, key, func(j *job.Job, now job.Instant) error {
			_, err := j.Cancel(now)
			return err
		})
		if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, job.ErrFinished) {
			return err
		}
	}
	w.rec.Open = nil
	return nil
}
