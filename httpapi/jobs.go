package httpapi

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/job"
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
	return s.opts.Store.Get(c.Request().Context(), key)
}

// listAttempts answers GET /v1/jobs/{topic}/{id}/attempts.
func (s *Server) listAttempts(c echo.Context) error {
	key, err := pathKey(c)
	if err != nil {
		return err
	}
	attempts, err := s.opts.Store.Attempts(c.Request().Context(), key)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, attemptsView{each(attempts, viewAttempt)})
}

// patchJob answers PATCH /v1/jobs/{topic}/{id}.
func (s *Server) patchJob(c echo.Context) error {
	key, err := pathKey(c)
	if err != nil {
		return err
	}
	body, err := readJSON(c, s.maxRequest())
	if err != nil {
		return err
	}
	defer release(body)
	draft, errs := decodeObject(body.Bytes(), draftFields)
	if err := errs.err(); err != nil {
		return err
	}
	if draft.URL != nil && job.CheckURL(*draft.URL) == nil {
		if err := s.checkDestination("/url", *draft.URL); err != nil {
			return err
		}
	}
	j, err := s.update(c.Request().Context(), key, func(j *job.Job, now job.Instant) error {
		spec, when, err := draft.Patch(j, s.opts.Limits, now)
		if err != nil {
			return s.explainTooLarge(err)
		}
		if err := j.Respecify(ownBody(spec)); err != nil || when == nil {
			return err
		}
		return j.Reschedule(*when, now)
	})
	if err != nil {
		return err
	}
	return s.writeJob(c, &j)
}

// cancelJob answers DELETE /v1/jobs/{topic}/{id}.
func (s *Server) cancelJob(c echo.Context) error {
	key, err := pathKey(c)
	if err != nil {
		return err
	}
	var inFlight bool
	j, err := s.update(c.Request().Context(), key, func(j *job.Job, now job.Instant) (err error) {
		inFlight, err = j.Cancel(now)
		return err
	})
	switch {
	case err != nil:
		return err
	case inFlight:
		return writeJSON(c, http.StatusAccepted, cancelView{Result: "in_flight", Attempt: j.Attempts + 1})
	}
	return writeJSON(c, http.StatusOK, cancelView{Result: "cancelled"})
}

// runJob answers POST /v1/jobs/{topic}/{id}/run.
func (s *Server) runJob(c echo.Context) error {
	return s.command(c, func(j *job.Job, now job.Instant) error { return j.Reschedule(job.When{}, now) })
}

// replayJob answers POST /v1/jobs/{topic}/{id}/replay.
func (s *Server) replayJob(c echo.Context) error {
	return s.command(c, (*job.Job).Replay)
}

// command changes the job that the path names, and answers with it.
func (s *Server) command(c echo.Context, change func(*job.Job, job.Instant) error) error {
	key, err := pathKey(c)
	if err != nil {
		return err
	}
	j, err := s.update(c.Request().Context(), key, change)
	if err != nil {
		return err
	}
	return s.writeJob(c, &j)
}

// update changes a job. A refusal by the lifecycle says how the job stands.
func (s *Server) update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	j, err := s.opts.Store.Update(ctx, key, change)
	if err != nil {
		return j, withState(err, &j)
	}
	return j, nil
}

func (s *Server) writeJob(c echo.Context, j *job.Job) error {
	view := viewJob(j, s.opts.Policy)
	return writeAppended(c, http.StatusOK, &view)
}

// listJobs answers GET /v1/jobs.
func (s *Server) listJobs(c echo.Context) error {
	q, err := readQuery(c)
	if err != nil {
		return err
	}
	page, err := s.opts.Store.List(c.Request().Context(), q)
	if err != nil {
		return err
	}
	view := pageView{Data: make([]jobView, len(page.Jobs)), NextCursor: orNull(&page.Next)}
	for i := range page.Jobs {
		view.Data[i] = viewJob(&page.Jobs[i], s.opts.Policy)
	}
	return writeAppended(c, http.StatusOK, view)
}
