package v1

import (
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/store"
)

// listEndpoints answers GET /v1/endpoints.
func (s *API) listEndpoints(r *request) (any, error) {
	page, err := s.Scheduler.Endpoints(r.Context(), store.EndpointQuery{
		States: r.query.circuits, Endpoint: r.query.Endpoint, Limit: r.query.Limit, Cursor: r.query.Cursor,
	})
	return pageOf(page.Endpoints, viewEndpoint, page.Next), err
}

// tryDraft is the request to try an endpoint.
type tryDraft struct{ endpoint string }

var tryFields = newFieldSet(map[string]func(*tryDraft, field){
	"endpoint": ofText(func(d *tryDraft, e *fieldErrors, at, s string) { d.endpoint = e.endpoint(at, s) }),
})

// tryEndpoint answers POST /v1/endpoints/try.
func (s *API) tryEndpoint(r *request) (any, error) {
	draft, err := readAll(r, maxSmall, tryFields)
	switch {
	case err != nil:
		return nil, err
	case draft.endpoint == "":
		return nil, invalid("/endpoint", "is required")
	}
	r.Target = draft.endpoint
	endpoint, err := s.Scheduler.Try(r.Context(), draft.endpoint)
	return viewEndpoint(&endpoint), err
}

// testFields are those of a registration that make a request.
var testFields = draftFields.only("topic", "url", "method", "headers", "body", "body_text", "body_base64", "content_type", "timeout", "expect")

// testEndpoint answers POST /v1/endpoints/test. What to send is read as a
// registration, which is never stored.
func (s *API) testEndpoint(r *request) (any, error) {
	draft, errs, err := read(r, s.maxRequest(), testFields)
	if err != nil {
		return nil, err
	}
	reg, err := s.Scheduler.PrepareTest(draft)
	if err := errs.merge(err); err != nil {
		return nil, err
	}
	r.Target = reg.Endpoint()
	attempt, err := s.Scheduler.Test(r.Context(), reg, s.TestTimeout)
	return testView{Delivered: attempt.Error == "", Attempt: viewAttempt(&attempt)}, err
}

// endpointView is an endpoint as the API shows it. What is not known of its
// attempts is null.
type endpointView struct {
	Endpoint      string  `json:"endpoint"`
	State         string  `json:"state"`
	ReopensAt     instant `json:"reopens_at"`
	Waiting       int64   `json:"waiting"`
	Ready         int64   `json:"ready"`
	InFlight      int64   `json:"in_flight"`
	Failures      *int64  `json:"failures"`
	LastError     *string `json:"last_error"`
	LastFailureAt instant `json:"last_failure_at"`
	LastSuccessAt instant `json:"last_success_at"`
}

type testView struct {
	Delivered bool        `json:"delivered"`
	Attempt   attemptView `json:"attempt"`
}

func viewEndpoint(e *scheduler.Endpoint) endpointView {
	v := endpointView{
		Endpoint: e.Endpoint, State: e.Circuit.State().String(), ReopensAt: instant(e.Circuit.OpenUntil),
		Waiting: e.Waiting, Ready: e.Ready, InFlight: e.Running,
	}
	if h := e.Health; h != nil {
		v.Failures, v.LastError = &h.Failures, orNull(&h.LastError)
		v.LastFailureAt, v.LastSuccessAt = instant(h.LastFailureAt), instant(h.LastSuccessAt)
	}
	return v
}
