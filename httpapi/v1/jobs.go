package v1

import (
	"context"
	"net/http"

	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/jobjson"
	"github.com/duehook/duehook/internal/kit/jsonio"
)

// Bounds on a page of a listing.
const (
	defaultPage = 100
	maxPage     = 1000
)

// getJob answers GET /v1/jobs/{topic}/{id}.
func (s *API) getJob(r *request) (jsonio.View, error) {
	j, err := s.App.Get(r.Context(), r.key())
	return s.showJob(r, &j, err)
}

// listAttempts answers GET /v1/jobs/{topic}/{id}/attempts.
func (s *API) listAttempts(r *request) (jsonio.View, error) {
	j, err := s.App.Get(r.Context(), r.key())
	if err != nil {
		return nil, err
	}
	attempts, err := s.App.Attempts(r.Context(), r.key())
	if err != nil {
		return nil, err
	}
	return pageOfAll(r, attempts, orderOfAttempt, jobjson.AttemptOf(j.UID))
}

// patchJob answers PATCH /v1/jobs/{topic}/{id}.
func (s *API) patchJob(r *request) (jsonio.View, error) { return s.change(r, s.App.Change) }

// replayJob answers POST /v1/jobs/{topic}/{id}/replay, with changes if there are some.
func (s *API) replayJob(r *request) (jsonio.View, error) { return s.change(r, s.App.Replay) }

// runJob answers POST /v1/jobs/{topic}/{id}/run.
func (s *API) runJob(r *request) (jsonio.View, error) { return s.command(r, s.App.Run) }

// finishJob answers POST /v1/jobs/{topic}/{id}/finish.
func (s *API) finishJob(r *request) (jsonio.View, error) { return s.command(r, s.App.Finish) }

// change changes a job by a draft, which is nil without a body.
func (s *API) change(r *request, change func(context.Context, job.Key, *job.Draft, ...app.Allow) (job.Job, error)) (jsonio.View, error) {
	data, err := r.body(s.maxRequest())
	if err != nil {
		return nil, err
	}
	var draft *job.Draft
	if data != nil {
		var errs *decode.Errors
		if draft, errs = decode.Decode(data, draftFields); errs.Err() != nil {
			return nil, errs.Err()
		}
	}
	return s.command(r, func(ctx context.Context, key job.Key, allow ...app.Allow) (job.Job, error) {
		return change(ctx, key, draft, allow...)
	})
}

// allowJob is allow for jobs.
func (r *request) allowJob() []app.Allow {
	if r.conditions == (conditions{}) {
		return nil
	}
	return []app.Allow{func(j *job.Job) error { return r.check(tagOf(jobjson.Version(j))) }}
}

// command does something with a job that has the version asked for, if any is, and
// answers with the job.
func (s *API) command(r *request, do func(context.Context, job.Key, ...app.Allow) (job.Job, error)) (jsonio.View, error) {
	j, err := do(r.Context(), r.key(), r.allowJob()...)
	return s.showJob(r, &j, err)
}

// cancelJob answers DELETE /v1/jobs/{topic}/{id}: it cancels the job, or discards
// the dead letter.
func (s *API) cancelJob(r *request) (jsonio.View, error) {
	j, result, err := s.App.Cancel(r.Context(), r.key(), r.allowJob()...)
	if err != nil {
		return nil, err
	}
	r.setVersion(jobjson.Version(&j))
	switch result {
	case app.InFlight:
		r.status = http.StatusAccepted
		return func(w *jsonio.Writer) {
			w.Text("result", "in_flight")
			w.Integer("attempt", j.Attempts+1)
		}, nil
	case app.Discarded:
		return resultOf("discarded"), nil
	}
	return resultOf("cancelled"), nil
}

// showJob answers with a job, or with the error.
func (s *API) showJob(r *request, j *job.Job, err error) (jsonio.View, error) {
	if err != nil {
		return nil, err
	}
	r.setVersion(jobjson.Version(j))
	return jsonio.Shown(s.writeDetails, j), nil
}

// listJobs answers GET /v1/jobs.
func (s *API) listJobs(r *request) (jsonio.View, error) {
	q := r.query.Query
	if err := r.ownFilter(q.Topic, &q.Only); err != nil {
		return nil, err
	}
	if err := r.Take(app.MaxPage); err != nil {
		return nil, err
	}
	page, err := s.App.List(r.Context(), q)
	r.Give(app.MaxPage - app.PageSize(page.Jobs))
	return pageOf(page.Jobs, s.writeJob, page.Next), err
}
