package v1

import (
	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/jobjson"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/internal/services/recent"
	"github.com/duehook/duehook/store"
)

// listEndpoints answers GET /v1/endpoints.
func (s *API) listEndpoints(r *request) (jsonio.View, error) {
	page, err := s.App.Endpoints(r.Context(), store.EndpointQuery{
		States: r.query.circuits, Endpoint: r.query.Endpoint, Limit: r.query.Limit, Cursor: r.query.Cursor,
	})
	return pageOf(page.Endpoints, writeEndpoint, page.Next), err
}

// tryDraft is the request to try an endpoint.
type tryDraft struct{ endpoint string }

var tryFields = decode.NewFieldSet(map[string]func(*tryDraft, decode.Field){
	"endpoint": decode.OfText(func(d *tryDraft, e *decode.Errors, at, s string) { d.endpoint = asEndpoint(e, at, s) }),
})

// tryEndpoint answers POST /v1/endpoints/try.
func (s *API) tryEndpoint(r *request) (jsonio.View, error) {
	draft, err := readAll(r, maxSmall, tryFields)
	switch {
	case err != nil:
		return nil, err
	case draft.endpoint == "":
		return nil, decode.Invalid("/endpoint", "is required")
	}
	r.Target = draft.endpoint
	endpoint, err := s.App.Try(r.Context(), draft.endpoint)
	return jsonio.Shown(writeEndpoint, &endpoint), err
}

// testFields are those of a registration that make a request.
var testFields = draftFields.Only("topic", "url", "method", "headers", "body", "body_text", "body_base64", "content_type", "timeout", "expect")

// testEndpoint answers POST /v1/endpoints/test. What to send is read as a
// registration, which is never stored.
func (s *API) testEndpoint(r *request) (jsonio.View, error) {
	draft, errs, err := read(r, s.maxRequest(), testFields)
	if err != nil {
		return nil, err
	}
	reg, err := s.App.PrepareTest(draft)
	if err := errs.Merge(err); err != nil {
		return nil, err
	}
	if err := r.Topics().Allow(reg.Key().Topic); err != nil {
		return nil, err
	}
	r.Target = reg.Endpoint()
	attempt, err := s.App.Test(r.Context(), reg, s.TestTimeout)
	return func(w *jsonio.Writer) {
		w.Boolean("delivered", attempt.Error == "")
		jsonio.Part(w, "attempt", &attempt, jobjson.AttemptOf(""))
	}, err
}

// writeEndpoint writes an endpoint. What is not known of its attempts is null.
func writeEndpoint(w *jsonio.Writer, e *app.Endpoint) {
	w.Text("endpoint", e.Endpoint)
	w.Text("state", e.Circuit.State().String())
	w.Instant("reopens_at", e.Circuit.OpenUntil)
	w.Number("waiting", e.Waiting)
	w.Number("ready", e.Ready)
	w.Number("in_flight", e.Running)
	var h recent.Health
	if e.Health == nil {
		w.Null("failures")
	} else {
		h = *e.Health
		w.Number("failures", h.Failures)
	}
	w.TextOrNull("last_error", h.LastError)
	w.Instant("last_failure_at", h.LastFailureAt)
	w.Instant("last_success_at", h.LastSuccessAt)
}
