package dispatcher

import (
	"bytes"
	"errors"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/job/contract"
)

var errNoRenderer = errors.New("dispatcher: Options has no RenderCallback")

// rendered returns the job with the body of its request, which a callback does not have yet.
func (s *sender) rendered(c *claim) (*job.Job, error) {
	j := &c.Job
	if j.Spec.Reports == "" {
		return j, nil
	}
	render := s.render
	if own := s.contract(j).RenderCallback; own != nil {
		render = own
	}
	if render == nil {
		return j, errNoRenderer
	}
	body, err := render(j)
	if err != nil {
		return j, err
	}
	with := *j
	with.Spec.Body = body
	return &with, nil
}

// toRead returns how much of an answer's body is read: for the outcome, or for callbacks.
// Zero: only as much as keeps the connection usable.
func (s *sender) toRead(j *job.Job) int {
	limit := 0
	if j.Spec.ExpectBody != "" {
		limit = contract.ExpectLimit
	}
	if j.Spec.Callbacks != nil {
		limit = max(limit, s.callbackLimitOf(j))
	}
	return limit
}

// callbackLimitOf returns how much of an answer callbacks of the job contain.
func (s *sender) callbackLimitOf(j *job.Job) int {
	if s.callbackLimit <= 0 {
		return 0
	}
	return max(s.callbackLimit, s.contract(j).CallbackResponse)
}

// response returns the answer's body for the callbacks of the job, if it has any.
func (s *sender) response(j *job.Job, a *contract.Answer) *job.Response {
	limit := s.callbackLimitOf(j)
	if j.Spec.Callbacks == nil || limit <= 0 {
		return nil
	}
	body := a.Body[:min(len(a.Body), limit)]
	return &job.Response{Body: bytes.Clone(body), Cut: len(a.Body) > len(body) || a.Lost != ""}
}
