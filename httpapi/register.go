package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/store"
)

const (
	headerIdempotencyKey = "Idempotency-Key"
	headerTraceparent    = "Traceparent"
)

// maxBatch is the most jobs that one batch may hold.
const maxBatch = 1000

// originOf is what the headers of a request say about the jobs that it registers.
func originOf(r *http.Request) (scheduler.Origin, error) {
	h := r.Header
	key, err := singleHeader(h, headerIdempotencyKey)
	if err != nil {
		return scheduler.Origin{}, err
	}
	// Its draft standard writes the key as a quoted string, most clients don't.
	if len(key) > 1 && key[0] == '"' && key[len(key)-1] == '"' {
		key = key[1 : len(key)-1]
	}
	if len(h.Values(headerIdempotencyKey)) > 0 {
		if err := checkName(headerIdempotencyKey, key); err != nil {
			return scheduler.Origin{}, err
		}
	}
	return scheduler.Origin{ID: key, Traceparent: traceparentOf(r.Context(), h)}, nil
}

// register answers POST /v1/jobs.
func (s *Server) register(c echo.Context) error {
	reg, err := s.readRegistration(c)
	if err != nil {
		s.opts.Scheduler.Refuse(1, clientsFault(err))
		return err
	}
	c.Set(contextTarget, reg.Key().String())
	registered, err := s.opts.Scheduler.Register(c.Request().Context(), reg)
	if err != nil {
		return err
	}
	r := &registered[0]
	if err := conflictOf(r); err != nil {
		return err
	}
	status := http.StatusOK
	if r.Outcome == store.Created {
		status = http.StatusCreated
		c.Response().Header().Set(echo.HeaderLocation, jobPath(r.Job.Key))
	}
	setETag(c, jobTag(&r.Job))
	return writeAppended(c, status, &registeredView{s.viewJob(&r.Job), scheduler.OutcomeNames[r.Outcome]})
}

// clientsFault reports whether the client has to correct its request.
func clientsFault(err error) bool {
	return codes[asAPIError(err).code].status < http.StatusInternalServerError
}

// jobPath is the path of a job, percent-encoded.
func jobPath(key job.Key) string {
	return "/v1/jobs/" + url.PathEscape(key.Topic) + "/" + url.PathEscape(key.ID)
}

func (s *Server) readRegistration(c echo.Context) (scheduler.Prepared, error) {
	from, err := originOf(c.Request())
	if err != nil {
		return scheduler.Prepared{}, err
	}
	body, err := readJSON(c, s.maxRequest())
	if err != nil {
		return scheduler.Prepared{}, err
	}
	defer release(body)
	return s.registration(body.Bytes(), from)
}

// maxRequest is how large the registration or change of one job may be: twice
// the limit of its body, for base64 and for escaped text, and the envelope.
func (s *Server) maxRequest() int64 { return 2*int64(s.opts.Scheduler.Limits().MaxBody) + 64<<10 }

// registration reads one job from checked JSON. What it returns shares no
// memory with data.
func (s *Server) registration(data []byte, from scheduler.Origin) (scheduler.Prepared, error) {
	draft, errs := decodeObject(data, draftFields)
	reg, err := s.opts.Scheduler.Prepare(draft, from)
	if err := errs.merge(err); err != nil {
		return scheduler.Prepared{}, s.explainTooLarge(err)
	}
	return reg, nil
}

// conflictOf is the error that the outcome of a registration is to its client.
func conflictOf(r *store.Registered) error {
	switch r.Outcome {
	case store.Exists:
		return &apiError{code: codeJobExists, detail: fmt.Sprintf(
			"%s was registered with other content (uid %s) and is %s. Choose another id, change that job with PATCH, or say in on_conflict what to do.",
			r.Job.Key, r.Job.UID, r.Job.State)}
	case store.InFlight:
		return &apiError{code: codeJobInFlight, detail: fmt.Sprintf(
			"%s (uid %s) is being delivered right now, so it can neither be replaced nor moved. Try again when that attempt has ended.",
			r.Job.Key, r.Job.UID)}
	case store.DeadLetter:
		return &apiError{code: codeJobDead, detail: fmt.Sprintf(
			"%s (uid %s) is a dead letter, which nothing but on_conflict replace puts another job in the place of. Replay or discard it, choose another id, or say replace.",
			r.Job.Key, r.Job.UID)}
	case store.TopicFull:
		return store.ErrTopicFull
	case store.TopicDraining:
		return store.ErrTopicDraining
	}
	return nil
}

// registerBatch answers POST /v1/jobs/batch. Each job is judged by itself.
func (s *Server) registerBatch(c echo.Context) error {
	from, err := batchOrigin(c.Request())
	if err != nil {
		return err
	}
	body, err := readJSON(c, s.opts.MaxBatchBytes)
	if err != nil {
		return err
	}
	defer release(body)
	jobs, err := batchJobs(body.Bytes())
	if err != nil {
		return err
	}

	c.Set(contextTarget, fmt.Sprintf("%d jobs", len(jobs)))
	results := make([]resultView, len(jobs))
	regs := make([]scheduler.Prepared, 0, len(jobs))
	positions := make([]int, 0, len(jobs)) // of regs in results
	for i, raw := range jobs {
		reg, err := s.registration(raw, from)
		if err != nil {
			invalid := clientsFault(err)
			s.opts.Scheduler.Refuse(1, invalid)
			if !invalid {
				return err
			}
			results[i] = failedResult(err)
			continue
		}
		regs, positions = append(regs, reg), append(positions, i)
	}
	if len(regs) > 0 {
		registered, err := s.opts.Scheduler.Register(c.Request().Context(), regs...)
		if err != nil {
			return err
		}
		for n := range registered {
			results[positions[n]] = s.result(&registered[n])
		}
	}
	return writeAppended(c, http.StatusOK, resultsView{Results: results})
}

// batchOrigin refuses an Idempotency-Key, which could stand for one job only.
func batchOrigin(r *http.Request) (scheduler.Origin, error) {
	if len(r.Header.Values(headerIdempotencyKey)) > 0 {
		return scheduler.Origin{}, invalid(headerIdempotencyKey, "is not taken with a batch; give each job its id")
	}
	return originOf(r)
}

func batchJobs(data []byte) ([]json.RawMessage, error) {
	b, errs := decodeObject(data, batchFields)
	switch err := errs.err(); {
	case err != nil:
		return nil, err
	case b.jobs == nil:
		return nil, invalid("/jobs", "is required")
	case len(b.jobs) == 0:
		return nil, invalid("/jobs", "must hold at least one job")
	case len(b.jobs) > maxBatch:
		return nil, invalid("/jobs", fmt.Sprintf("must hold at most %d jobs, not %d", maxBatch, len(b.jobs)))
	}
	return b.jobs, nil
}

func (s *Server) result(r *store.Registered) resultView {
	if err := conflictOf(r); err != nil {
		return failedResult(err)
	}
	status := http.StatusOK
	if r.Outcome == store.Created {
		status = http.StatusCreated
	}
	view := s.viewJob(&r.Job)
	return resultView{Status: status, Result: scheduler.OutcomeNames[r.Outcome], Job: &view}
}

func failedResult(err error) resultView {
	p := asAPIError(err).problem()
	return resultView{Status: p.Status, Error: p}
}

// explainTooLarge names the limit.
func (s *Server) explainTooLarge(err error) error {
	if !errors.Is(err, job.ErrBodyTooLarge) {
		return err
	}
	return &apiError{code: codeBodyTooLarge, cause: err, detail: fmt.Sprintf(
		"The job's body is larger than %d bytes. Store a large payload elsewhere and send its URL.", s.opts.Scheduler.Limits().MaxBody)}
}
