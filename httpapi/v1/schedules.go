package v1

import (
	"context"
	"time"

	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/jobjson"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/store"
)

// Schedules is what the API needs of recurring schedules. A *schedules.Manager is one.
type Schedules interface {
	Set(ctx context.Context, name string, d *schedules.Draft, allow ...documents.Allow) (s schedules.Schedule, created bool, err error)
	Get(ctx context.Context, name string) (schedules.Schedule, error)
	List(ctx context.Context, q schedules.Query) (schedules.Page, error)
	Delete(ctx context.Context, name string, allow ...documents.Allow) error
	Pause(ctx context.Context, name string, p job.Pause) (schedules.Schedule, error)
	Resume(ctx context.Context, name string) (schedules.Schedule, error)
	Skip(ctx context.Context, name string, at *time.Time, allow ...documents.Allow) (schedules.Schedule, error)
	Unskip(ctx context.Context, name string, at *time.Time, allow ...documents.Allow) (schedules.Schedule, error)
	RunNow(ctx context.Context, name, repeat string) (schedules.RunResult, error)
	Occurrences(ctx context.Context, name string, p schedules.Part) (schedules.Timetable, error)
	Runs(ctx context.Context, name string) ([]schedules.Run, error)
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

// skipDraft is the request to skip an occurrence.
type skipDraft struct{ at *time.Time }

var (
	scheduleSetters = map[string]func(*schedules.Draft, decode.Field){
		"cron":            func(d *schedules.Draft, f decode.Field) { d.Cron = f.Text() },
		"every":           func(d *schedules.Draft, f decode.Field) { d.Every = f.Duration() },
		"anchor":          func(d *schedules.Draft, f decode.Field) { d.Anchor = f.Moment() },
		"timezone":        func(d *schedules.Draft, f decode.Field) { d.Timezone = f.Text() },
		"start_at":        func(d *schedules.Draft, f decode.Field) { d.StartAt = f.Moment() },
		"end_at":          func(d *schedules.Draft, f decode.Field) { d.EndAt = f.Moment() },
		"max_occurrences": func(d *schedules.Draft, f decode.Field) { d.MaxOccurrences = f.Long() },
		"jitter":          func(d *schedules.Draft, f decode.Field) { d.Jitter = f.Duration() },
		"overlap":         func(d *schedules.Draft, f decode.Field) { d.Overlap = f.Text() },
		"note":            func(d *schedules.Draft, f decode.Field) { d.Note = f.Text() },
		"paused":          func(d *schedules.Draft, f decode.Field) { d.Paused = new(f.Boolean()) },
		"dst":             func(d *schedules.Draft, f decode.Field) { dstFields.Into(d, f) },
		"except":          func(d *schedules.Draft, f decode.Field) { exceptFields.Into(d, f) },
		"misfire":         func(d *schedules.Draft, f decode.Field) { misfireFields.Into(d, f) },
		"job":             func(d *schedules.Draft, f decode.Field) { d.Job = draftFields.New(f) },
	}
	scheduleFields = decode.NewFieldSet(scheduleSetters)
	dstFields      = decode.NewFieldSet(map[string]func(*schedules.Draft, decode.Field){
		"gap":    func(d *schedules.Draft, f decode.Field) { d.Gap = f.Text() },
		"repeat": func(d *schedules.Draft, f decode.Field) { d.Repeat = f.Text() },
	})
	misfireFields = decode.NewFieldSet(map[string]func(*schedules.Draft, decode.Field){
		"policy": func(d *schedules.Draft, f decode.Field) { d.Policy = f.Text() },
		"grace":  func(d *schedules.Draft, f decode.Field) { d.Grace = f.Duration() },
	})
	exceptFields = decode.NewFieldSet(map[string]func(*schedules.Draft, decode.Field){
		"dates": func(d *schedules.Draft, f decode.Field) { d.ExceptDates = f.TextList() },
	})
	skipFields = decode.NewFieldSet(map[string]func(*skipDraft, decode.Field){
		"time": func(d *skipDraft, f decode.Field) { d.at = f.Moment() },
	})
	previewFields = decode.NewFieldSet(previewSetters())
)

// previewSetters are those of a schedule and of a preview.
func previewSetters() map[string]func(*previewDraft, decode.Field) {
	setters := map[string]func(*previewDraft, decode.Field){
		"schedule": func(d *previewDraft, f decode.Field) { decode.SetText(&d.name, f) },
		"from":     func(d *previewDraft, f decode.Field) { d.part.From = f.Moment() },
		"limit":    func(d *previewDraft, f decode.Field) { d.part.Limit = f.Integer() },
		"cursor":   func(d *previewDraft, f decode.Field) { d.part.After = f.Moment() },
	}
	for name, set := range scheduleSetters {
		setters[name] = func(d *previewDraft, f decode.Field) { set(&d.Draft, f) }
	}
	return setters
}

// putSchedule answers PUT /v1/schedules/{schedule}.
func (s *API) putSchedule(r *request) (jsonio.View, error) {
	draft, errs, err := read(r, s.maxRequest(), scheduleFields)
	if err != nil {
		return nil, err
	}
	if errs.Err() != nil { // what else is wrong belongs to the same answer
		_, err = s.Schedules.Preview(r.Context(), r.Param("schedule"), draft, schedules.Part{})
		return nil, errs.Merge(err)
	}
	draft.Topics = r.Topics()
	set, isNew, err := s.Schedules.Set(r.Context(), r.Param("schedule"), draft, r.allow()...)
	if err != nil {
		return nil, err
	}
	r.setVersion(jobjson.VersionOf(set.UID, set.Version))
	r.created(isNew)
	return jsonio.Shown(writeShown, &set), nil
}

// getSchedule answers GET /v1/schedules/{schedule}.
func (s *API) getSchedule(r *request) (jsonio.View, error) {
	set, err := s.Schedules.Get(r.Context(), r.Param("schedule"))
	return showSchedule(r, &set, err)
}

func showSchedule(r *request, s *schedules.Schedule, err error) (jsonio.View, error) {
	if err != nil {
		return nil, err
	}
	r.setVersion(jobjson.VersionOf(s.UID, s.Version))
	return jsonio.Shown(writeShown, s), nil
}

// deleteSchedule answers DELETE /v1/schedules/{schedule}.
func (s *API) deleteSchedule(r *request) (jsonio.View, error) {
	return resultOf("deleted"), s.Schedules.Delete(r.Context(), r.Param("schedule"), r.allow()...)
}

// listSchedules answers GET /v1/schedules.
func (s *API) listSchedules(r *request) (jsonio.View, error) {
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
func (s *API) pauseSchedule(r *request) (jsonio.View, error) {
	pause, err := readAll(r, maxSmall, pauseFields)
	if err != nil {
		return nil, err
	}
	pause.By = r.by()
	set, err := s.Schedules.Pause(r.Context(), r.Param("schedule"), *pause)
	return showSchedule(r, &set, err)
}

// resumeSchedule answers POST /v1/schedules/{schedule}/resume.
func (s *API) resumeSchedule(r *request) (jsonio.View, error) {
	set, err := s.Schedules.Resume(r.Context(), r.Param("schedule"))
	return showSchedule(r, &set, err)
}

// skipping answers POST /v1/schedules/{schedule}/skip and /unskip.
func skipping(do func(s Schedules, ctx context.Context, name string, at *time.Time, allow ...documents.Allow) (schedules.Schedule, error)) handler {
	return func(s *API, r *request) (jsonio.View, error) {
		draft, err := readAll(r, maxSmall, skipFields)
		if err != nil {
			return nil, err
		}
		set, err := do(s.Schedules, r.Context(), r.Param("schedule"), draft.at, r.allow()...)
		return showSchedule(r, &set, err)
	}
}

// runSchedule answers POST /v1/schedules/{schedule}/run.
func (s *API) runSchedule(r *request) (jsonio.View, error) {
	from, err := originOf(r)
	if err != nil {
		return nil, err
	}
	run, err := s.Schedules.RunNow(r.Context(), r.Param("schedule"), from.Key)
	if err != nil {
		return nil, err
	}
	if run.FanOut != nil {
		return s.showFanOut(r, run.FanOut, run.Members)
	}
	outcome := store.Same
	if run.Created {
		outcome = store.Created
		r.SetLocation(jobjson.Path(run.Job.Key))
	}
	r.created(run.Created)
	return jsonio.Shown(s.writeRegistered, &store.Registered{Outcome: outcome, Job: run.Job}), nil
}

// listOccurrences answers GET /v1/schedules/{schedule}/occurrences.
func (s *API) listOccurrences(r *request) (jsonio.View, error) {
	r.query.timetable.Limit = &r.query.Limit
	t, err := s.Schedules.Occurrences(r.Context(), r.Param("schedule"), r.query.timetable)
	return jsonio.Shown(writeTimetable, &t), inQuery(err)
}

// listRuns answers GET /v1/schedules/{schedule}/runs.
func (s *API) listRuns(r *request) (jsonio.View, error) {
	all, err := s.Schedules.Runs(r.Context(), r.Param("schedule"))
	if err != nil {
		return nil, err
	}
	return pageOfAll(r, all, orderOfRun, writePastRun)
}

// previewSchedule answers POST /v1/schedules/preview.
func (s *API) previewSchedule(r *request) (jsonio.View, error) {
	draft, errs, err := read(r, s.maxRequest(), previewFields)
	if err != nil {
		return nil, err
	}
	t, err := s.Schedules.Preview(r.Context(), draft.name, &draft.Draft, draft.part)
	return jsonio.Shown(writeTimetable, &t), errs.Merge(err)
}

// getScheduleRegistration answers GET /v1/schedules/{schedule}/registration.
func (s *API) getScheduleRegistration(r *request) (jsonio.View, error) {
	found, err := s.Schedules.Get(r.Context(), r.Param("schedule"))
	return jsonio.Shown(writeDefinition, &found.Def), err
}
