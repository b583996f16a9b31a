package v1

import (
	"context"
	"time"

	"github.com/duehook/duehook/internal/kit/strictjson"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler/operations"
	"github.com/duehook/duehook/scheduler/schedules"
	"github.com/duehook/duehook/store"
)

// Schedules is what the API needs of recurring schedules. A *schedules.Manager is one.
type Schedules interface {
	Set(ctx context.Context, name string, d *schedules.Draft, allow ...schedules.Allow) (s schedules.Schedule, created bool, err error)
	Get(ctx context.Context, name string) (schedules.Schedule, error)
	List(ctx context.Context, q schedules.Query) (schedules.Page, error)
	Delete(ctx context.Context, name string, allow ...schedules.Allow) error
	Pause(ctx context.Context, name string, note *string) (schedules.Schedule, error)
	Resume(ctx context.Context, name string, note *string) (schedules.Schedule, error)
	RunNow(ctx context.Context, name, repeat string) (schedules.RunResult, error)
	Occurrences(ctx context.Context, name string, p schedules.Part) (schedules.Timetable, error)
	Preview(ctx context.Context, name string, d *schedules.Draft, p schedules.Part) (schedules.Timetable, error)
}

const (
	schedulesPath    = "/v1/schedules"
	previewPath      = "/v1/schedules/preview" // its POST changes nothing
	schedulePath     = schedulesPath + "/{schedule}"
	shownOccurrences = 10
)

// previewDraft is the request for a preview.
type previewDraft struct {
	schedules.Draft
	name string
	part schedules.Part
}

var (
	scheduleSetters = map[string]func(*schedules.Draft, field){
		"cron":            func(d *schedules.Draft, f field) { d.Cron = f.text() },
		"every":           func(d *schedules.Draft, f field) { d.Every = f.duration() },
		"anchor":          func(d *schedules.Draft, f field) { d.Anchor = f.moment() },
		"timezone":        func(d *schedules.Draft, f field) { d.Timezone = f.text() },
		"start_at":        func(d *schedules.Draft, f field) { d.StartAt = f.moment() },
		"end_at":          func(d *schedules.Draft, f field) { d.EndAt = f.moment() },
		"max_occurrences": func(d *schedules.Draft, f field) { d.MaxOccurrences = f.long() },
		"jitter":          func(d *schedules.Draft, f field) { d.Jitter = f.duration() },
		"overlap":         func(d *schedules.Draft, f field) { d.Overlap = f.text() },
		"note":            func(d *schedules.Draft, f field) { d.Note = f.text() },
		"paused":          func(d *schedules.Draft, f field) { d.Paused = new(f.boolean()) },
		"dst":             func(d *schedules.Draft, f field) { dstFields.decode(f.raw, f.pointer(), d, f.errs) },
		"misfire":         func(d *schedules.Draft, f field) { misfireFields.decode(f.raw, f.pointer(), d, f.errs) },
		"job": func(d *schedules.Draft, f field) {
			d.Job = &job.Draft{}
			draftFields.decode(f.raw, f.pointer(), d.Job, f.errs)
		},
	}
	scheduleFields = newFieldSet(scheduleSetters)
	dstFields      = newFieldSet(map[string]func(*schedules.Draft, field){
		"gap":    func(d *schedules.Draft, f field) { d.Gap = f.text() },
		"repeat": func(d *schedules.Draft, f field) { d.Repeat = f.text() },
	})
	misfireFields = newFieldSet(map[string]func(*schedules.Draft, field){
		"policy": func(d *schedules.Draft, f field) { d.Policy = f.text() },
		"grace":  func(d *schedules.Draft, f field) { d.Grace = f.duration() },
		"window": func(d *schedules.Draft, f field) { d.Window = f.duration() },
		"limit":  func(d *schedules.Draft, f field) { d.Limit = f.integer() },
	})
	noteFields = newFieldSet(map[string]func(*schedules.Draft, field){
		"note": func(d *schedules.Draft, f field) { d.Note = f.text() },
	})
	previewFields  = newFieldSet(previewSetters())
	backfillFields = newFieldSet(map[string]func(*operations.BackfillDraft, field){
		"from":    func(d *operations.BackfillDraft, f field) { d.From = f.moment() },
		"to":      func(d *operations.BackfillDraft, f field) { d.To = f.moment() },
		"rate":    func(d *operations.BackfillDraft, f field) { d.Rate = f.integer() },
		"dry_run": func(d *operations.BackfillDraft, f field) { d.DryRun = f.boolean() },
	})
)

// moment is a time, before 1970 and with fractions of a millisecond, too.
func (f field) moment() *time.Time {
	if f.raw[0] != '"' {
		return new(f.instant().Time())
	}
	text, _ := strictjson.Unquote(f.raw)
	at, err := job.ParseMoment(text)
	if err != nil {
		f.fail(err.Error())
	}
	return &at
}

// previewSetters are those of a schedule and of a preview.
func previewSetters() map[string]func(*previewDraft, field) {
	setters := map[string]func(*previewDraft, field){
		"schedule": func(d *previewDraft, f field) { setText(&d.name, f) },
		"from":     func(d *previewDraft, f field) { d.part.From = f.moment() },
		"limit":    func(d *previewDraft, f field) { d.part.Limit = f.integer() },
		"cursor":   func(d *previewDraft, f field) { d.part.After = f.moment() },
	}
	for name, set := range scheduleSetters {
		setters[name] = func(d *previewDraft, f field) { set(&d.Draft, f) }
	}
	return setters
}

// putSchedule answers PUT /v1/schedules/{schedule}.
func (s *API) putSchedule(r *request) (view, error) {
	draft, errs, err := read(r, s.maxRequest(), scheduleFields)
	if err != nil {
		return nil, err
	}
	if errs.err() != nil { // what else is wrong belongs to the same answer
		_, err = s.Schedules.Preview(r.Context(), r.Param("schedule"), draft, schedules.Part{})
		return nil, errs.merge(err)
	}
	if err := r.Topics().Allow(draft.Topic()); err != nil {
		return nil, err
	}
	allow := append(allowing[schedules.Allow](r, scheduleTag), r.ownSchedule)
	set, isNew, err := s.Schedules.Set(r.Context(), r.Param("schedule"), draft, allow...)
	if err != nil {
		return nil, err
	}
	r.setVersion(versionOf(set.UID, set.Version))
	r.created(isNew)
	return shown(writeShown, &set), nil
}

// getSchedule answers GET /v1/schedules/{schedule}.
func (s *API) getSchedule(r *request) (view, error) {
	set, err := s.Schedules.Get(r.Context(), r.Param("schedule"))
	return showSchedule(r, &set, err)
}

func showSchedule(r *request, s *schedules.Schedule, err error) (view, error) {
	if err != nil {
		return nil, err
	}
	r.setVersion(versionOf(s.UID, s.Version))
	return shown(writeShown, s), nil
}

// deleteSchedule answers DELETE /v1/schedules/{schedule}.
func (s *API) deleteSchedule(r *request) (view, error) {
	allow := allowing[schedules.Allow](r, scheduleTag)
	return resultOf("deleted"), s.Schedules.Delete(r.Context(), r.Param("schedule"), allow...)
}

func scheduleTag(v schedules.Version) string { return tagIfAny(versionOf(v.UID, v.Number)) }

// listSchedules answers GET /v1/schedules.
func (s *API) listSchedules(r *request) (view, error) {
	q := &r.query
	if err := r.ownFilter(q.Topic, &q.Only); err != nil {
		return nil, err
	}
	own := func(found *schedules.Schedule) bool { return r.Topics().Has(found.Def.Topic()) }
	all, next, err := ownPage(r, own, func(limit int, cursor string) ([]schedules.Schedule, string, error) {
		page, err := s.Schedules.List(r.Context(), schedules.Query{
			States: q.scheduleStates, Topic: q.Topic, Endpoint: q.Endpoint, Limit: limit, Cursor: cursor,
		})
		return page.Schedules, page.Next, err
	})
	return pageOf(all, writeListed, next), err
}

// pauseSchedule answers POST /v1/schedules/{schedule}/pause.
func (s *API) pauseSchedule(r *request) (view, error) {
	draft, err := readAll(r, maxSmall, noteFields)
	if err != nil {
		return nil, err
	}
	set, err := s.Schedules.Pause(r.Context(), r.Param("schedule"), draft.Note)
	return showSchedule(r, &set, err)
}

// resumeSchedule answers POST /v1/schedules/{schedule}/resume.
func (s *API) resumeSchedule(r *request) (view, error) {
	set, err := s.Schedules.Resume(r.Context(), r.Param("schedule"), nil)
	return showSchedule(r, &set, err)
}

// runSchedule answers POST /v1/schedules/{schedule}/run.
func (s *API) runSchedule(r *request) (view, error) {
	from, err := originOf(r)
	if err != nil {
		return nil, err
	}
	run, err := s.Schedules.RunNow(r.Context(), r.Param("schedule"), from.ID)
	if err != nil {
		return nil, err
	}
	outcome := store.Same
	if run.Created {
		outcome = store.Created
		r.Header().Set("Location", jobPath(run.Job.Key))
	}
	r.created(run.Created)
	return shown(s.writeRegistered, &store.Registered{Outcome: outcome, Job: run.Job}), nil
}

// backfillSchedule answers POST /v1/schedules/{schedule}/backfill.
func (s *API) backfillSchedule(r *request) (view, error) {
	draft, err := readAll(r, maxSmall, backfillFields)
	if err != nil {
		return nil, err
	}
	draft.Schedule, draft.By = r.Param("schedule"), callerName(r)
	o, err := s.Operations.Backfill(r.Context(), *draft)
	if err != nil {
		return nil, err
	}
	if draft.DryRun {
		return shown(writePreview, &operations.Preview{Operation: o, Matched: *o.Estimate, Complete: true}), nil
	}
	return accepted(r, &o), nil
}

// listOccurrences answers GET /v1/schedules/{schedule}/occurrences.
func (s *API) listOccurrences(r *request) (view, error) {
	r.query.timetable.Limit = &r.query.Limit
	t, err := s.Schedules.Occurrences(r.Context(), r.Param("schedule"), r.query.timetable)
	return shown(writeTimetable, &t), inQuery(err)
}

// previewSchedule answers POST /v1/schedules/preview.
func (s *API) previewSchedule(r *request) (view, error) {
	draft, errs, err := read(r, s.maxRequest(), previewFields)
	if err != nil {
		return nil, err
	}
	t, err := s.Schedules.Preview(r.Context(), draft.name, &draft.Draft, draft.part)
	return shown(writeTimetable, &t), errs.merge(err)
}

// getScheduleRegistration answers GET /v1/schedules/{schedule}/registration.
func (s *API) getScheduleRegistration(r *request) (view, error) {
	found, err := s.Schedules.Get(r.Context(), r.Param("schedule"))
	return shown(writeDefinition, &found.Def), err
}
