package httpapi

import (
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
	draft, err := s.readChange(body.Bytes())
	if err != nil {
		return err
	}
	return s.command(c, key, func(j *job.Job, now job.Instant) error {
		spec, when, err := draft.Patch(j, s.opts.Limits, now)
		if err != nil {
			return s.explainTooLarge(err)
		}
		if err := j.Respecify(ownBody(spec)); err != nil || when == nil {
			return err
		}
		return j.Reschedule(*when, now)
	})
}

// readChange reads the change of a job, as far as it can be judged without the job.
func (s *Server) readChange(data []byte) (*job.Draft, error) {
	draft, errs := decodeObject(data, draftFields)
	if err := errs.err(); err != nil {
		return nil, err
	}
	return draft, s.checkChange("", draft)
}

// checkChange refuses a URL that the server must not call in the draft at pointer.
func (s *Server) checkChange(pointer string, draft *job.Draft) error {
	if draft.Destination != nil && draft.Destination.Check() == nil {
		return s.checkDestination(pointer+"/url", string(*draft.Destination))
	}
	return nil
}

// cancelJob answers DELETE /v1/jobs/{topic}/{id}: it cancels the job, or discards
// the dead letter.
func (s *Server) cancelJob(c echo.Context) error {
	key, err := pathKey(c)
	if err != nil {
		return err
	}
	var inFlight, discarded bool
	j, err := s.update(c, key, func(j *job.Job, now job.Instant) (err error) {
		inFlight, discarded = false, j.State == job.Dead
		if discarded {
			return j.Discard(now)
		}
		inFlight, err = j.Cancel(now)
		return err
	})
	if err != nil {
		return err
	}
	setETag(c, jobTag(&j))
	switch {
	case inFlight:
		return writeJSON(c, http.StatusAccepted, cancelView{Result: "in_flight", Attempt: j.Attempts + 1})
	case discarded:
		return writeJSON(c, http.StatusOK, cancelView{Result: "discarded"})
	}
	return writeJSON(c, http.StatusOK, cancelView{Result: "cancelled"})
}

// runJob answers POST /v1/jobs/{topic}/{id}/run.
func (s *Server) runJob(c echo.Context) error {
	key, err := pathKey(c)
	if err != nil {
		return err
	}
	return s.command(c, key, func(j *job.Job, now job.Instant) error { return j.Reschedule(job.When{}, now) })
}

// replayJob answers POST /v1/jobs/{topic}/{id}/replay, with changes if there are some.
func (s *Server) replayJob(c echo.Context) error {
	key, err := pathKey(c)
	if err != nil {
		return err
	}
	body, err := readOptionalJSON(c, s.maxRequest())
	if err != nil {
		return err
	}
	if body == nil {
		return s.command(c, key, (*job.Job).Replay)
	}
	defer release(body)
	draft, err := s.readChange(body.Bytes())
	if err != nil {
		return err
	}
	if draft.Empty() {
		return s.command(c, key, (*job.Job).Replay)
	}
	return s.command(c, key, func(j *job.Job, now job.Instant) error {
		spec, when, err := draft.Patch(j, s.opts.Limits, now)
		if err != nil {
			return s.explainTooLarge(err)
		}
		return j.ReplayAs(ownBody(spec), when, now)
	})
}

// command changes a job, and answers with it.
func (s *Server) command(c echo.Context, key job.Key, change func(*job.Job, job.Instant) error) error {
	j, err := s.update(c, key, change)
	if err != nil {
		return err
	}
	return s.writeJob(c, &j)
}

// update changes a job, if it has the version that the request asks for. A
// refusal by the lifecycle says how the job stands.
func (s *Server) update(c echo.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	wanted, err := ifMatch(c.Request())
	if err != nil {
		return job.Job{}, err
	}
	j, err := s.opts.Store.Update(c.Request().Context(), key, func(j *job.Job, now job.Instant) error {
		if err := wanted.check(jobTag(j)); err != nil {
			return err
		}
		return change(j, now)
	})
	if err != nil {
		return j, withState(err, &j)
	}
	return j, nil
}

func (s *Server) writeJob(c echo.Context, j *job.Job) error {
	setETag(c, jobTag(j))
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
