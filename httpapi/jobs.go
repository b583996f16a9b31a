package httpapi

import (
	"bytes"
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler"
)

// Bounds on a page of a listing.
const (
	defaultPage = 100
	maxPage     = 1000
)

// getJob answers GET /v1/jobs/{topic}/{id}.
func (s *Server) getJob(c echo.Context) error {
	j, err := s.pathJob(c)
	if err != nil {
		return err
	}
	return s.writeJob(c, &j)
}

// pathJob is the job that the path names.
func (s *Server) pathJob(c echo.Context) (job.Job, error) {
	key, err := pathKey(c)
	if err != nil {
		return job.Job{}, err
	}
	return s.opts.Scheduler.Get(c.Request().Context(), key)
}

// listAttempts answers GET /v1/jobs/{topic}/{id}/attempts.
func (s *Server) listAttempts(c echo.Context) error {
	key, err := pathKey(c)
	if err != nil {
		return err
	}
	attempts, err := s.opts.Scheduler.Attempts(c.Request().Context(), key)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, attemptsView{each(attempts, viewAttempt)})
}

// patchJob answers PATCH /v1/jobs/{topic}/{id}.
func (s *Server) patchJob(c echo.Context) error {
	return s.command(c, (*scheduler.Scheduler).Change, readJSON)
}

// replayJob answers POST /v1/jobs/{topic}/{id}/replay, with changes if there are some.
func (s *Server) replayJob(c echo.Context) error {
	return s.command(c, (*scheduler.Scheduler).Replay, readOptionalJSON)
}

// runJob answers POST /v1/jobs/{topic}/{id}/run.
func (s *Server) runJob(c echo.Context) error {
	run := func(all *scheduler.Scheduler, ctx context.Context, key job.Key, _ *job.Draft, allow ...scheduler.Allow) (job.Job, error) {
		return all.Run(ctx, key, allow...)
	}
	return s.command(c, run, func(echo.Context, int64) (*bytes.Buffer, error) { return nil, nil })
}

// command changes a job by a draft, which is nil if read gives none, and answers
// with the job.
func (s *Server) command(
	c echo.Context,
	change func(*scheduler.Scheduler, context.Context, job.Key, *job.Draft, ...scheduler.Allow) (job.Job, error),
	read func(echo.Context, int64) (*bytes.Buffer, error),
) error {
	key, err := pathKey(c)
	if err != nil {
		return err
	}
	body, err := read(c, s.maxRequest())
	if err != nil {
		return err
	}
	var draft *job.Draft
	if body != nil {
		defer release(body)
		var errs *fieldErrors
		if draft, errs = decodeObject(body.Bytes(), draftFields); errs.err() != nil {
			return errs.err()
		}
	}
	allow, err := allowJob(c)
	if err != nil {
		return err
	}
	j, err := change(s.opts.Scheduler, c.Request().Context(), key, draft, allow...)
	if err != nil {
		return s.explainTooLarge(withState(err, &j))
	}
	return s.writeJob(c, &j)
}

// allowJob allows a change of a job that has the version asked for, if any is.
func allowJob(c echo.Context) ([]scheduler.Allow, error) {
	wanted, err := ifMatch(c.Request())
	if err != nil || wanted == nil {
		return nil, err
	}
	return []scheduler.Allow{func(j *job.Job) error { return wanted.check(jobTag(j)) }}, nil
}

// cancelJob answers DELETE /v1/jobs/{topic}/{id}: it cancels the job, or discards
// the dead letter.
func (s *Server) cancelJob(c echo.Context) error {
	key, err := pathKey(c)
	if err != nil {
		return err
	}
	allow, err := allowJob(c)
	if err != nil {
		return err
	}
	j, result, err := s.opts.Scheduler.Cancel(c.Request().Context(), key, allow...)
	if err != nil {
		return withState(err, &j)
	}
	setETag(c, jobTag(&j))
	switch result {
	case scheduler.InFlight:
		return writeJSON(c, http.StatusAccepted, cancelView{Result: "in_flight", Attempt: j.Attempts + 1})
	case scheduler.Discarded:
		return writeJSON(c, http.StatusOK, cancelView{Result: "discarded"})
	}
	return writeJSON(c, http.StatusOK, cancelView{Result: "cancelled"})
}

func (s *Server) writeJob(c echo.Context, j *job.Job) error {
	setETag(c, jobTag(j))
	view := s.viewJob(j)
	return writeAppended(c, http.StatusOK, &view)
}

// listJobs answers GET /v1/jobs.
func (s *Server) listJobs(c echo.Context) error {
	q, err := readQuery(c)
	if err != nil {
		return err
	}
	page, err := s.opts.Scheduler.List(c.Request().Context(), q)
	if err != nil {
		return inQuery(err)
	}
	view := pageView{Data: make([]jobView, len(page.Jobs)), NextCursor: orNull(&page.Next)}
	for i := range page.Jobs {
		view.Data[i] = s.viewJob(&page.Jobs[i])
	}
	return writeAppended(c, http.StatusOK, view)
}
