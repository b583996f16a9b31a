package v1

import (
	"github.com/duehook/duehook/internal/services/recent"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/store"
)

// listEndpoints answers GET /v1/endpoints.
func (s *API) listEndpoints(r *request) (view, error) {
	page, err := s.Scheduler.Endpoints(r.Context(), store.EndpointQuery{
		States: r.query.circuits, Endpoint: r.query.Endpoint, Limit: r.query.Limit, Cursor: r.query.Cursor,
	})
	return pageOf(page.Endpoints, writeEndpoint, page.Next), err
}

// tryDraft is the request to try an endpoint.
type tryDraft struct{ endpoint string }

var tryFields = newFieldSet(map[string]func(*tryDraft, field){
	"endpoint": ofText(func(d *tryDraft, e *fieldErrors, at, s string) { d.endpoint = e.endpoint(at, s) }),
})

// tryEndpoint answers POST /v1/endpoints/try.
func (s *API) tryEndpoint(r *request) (view, error) {
	draft, err := readAll(r, maxSmall, tryFields)
	switch {
	case err != nil:
		return nil, err
	case draft.endpoint == "":
		return nil, invalid("/endpoint", "is required")
	}
	r.Target = draft.endpoint
	endpoint, err := s.Scheduler.Try(r.Context(), draft.endpoint)
	return shown(writeEndpoint, &endpoint), err
}

// testFields are those of a registration that make a request.
var testFields = draftFields.only("topic", "url", "method", "headers", "body", "body_text", "body_base64", "content_type", "timeout", "expect")

// testEndpoint answers POST /v1/endpoints/test. What to send is read as a
// registration, which is never stored.
func (s *API) testEndpoint(r *request) (view, error) {
	draft, errs, err := read(r, s.maxRequest(), testFields)
	if err != nil {
		return nil, err
	}
	reg, err := s.Scheduler.PrepareTest(draft)
	if err := errs.merge(err); err != nil {
		return nil, err
	}
	if err := r.Topics().Allow(reg.Key().Topic); err != nil {
		return nil, err
	}
	r.Target = reg.Endpoint()
	attempt, err := s.Scheduler.Test(r.Context(), reg, s.TestTimeout)
	return func(w *writer) {
		w.boolean("delivered", attempt.Error == "")
		part(w, "attempt", &attempt, attemptOf(""))
	}, err
}

// writeEndpoint writes an endpoint. What is not known of its attempts is null.
func writeEndpoint(w *writer, e *scheduler.Endpoint) {
	w.text("endpoint", e.Endpoint)
	w.text("state", e.Circuit.State().String())
	w.instant("reopens_at", e.Circuit.OpenUntil)
	w.number("waiting", e.Waiting)
	w.number("ready", e.Ready)
	w.number("in_flight", e.Running)
	var h recent.Health
	if e.Health == nil {
		w.null("failures")
	} else {
		h = *e.Health
		w.number("failures", h.Failures)
	}
	w.textOrNull("last_error", h.LastError)
	w.instant("last_failure_at", h.LastFailureAt)
	w.instant("last_success_at", h.LastSuccessAt)
}
