package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/store"
)

const (
	// testShare is the part of a request's time that a test may take: 4/5.
	testShare, testShareOf = 4, 5
	// maxEndpointRequest bounds, in bytes, the request to try an endpoint.
	maxEndpointRequest = 8 << 10
)

var endpointQuery = []string{"state", "endpoint", "limit", "cursor"}

// listEndpoints answers GET /v1/endpoints.
func (s *Server) listEndpoints(c echo.Context) error {
	q, err := readEndpointQuery(c)
	if err != nil {
		return err
	}
	page, err := s.opts.Scheduler.Endpoints(c.Request().Context(), q)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, endpointsView{each(page.Endpoints, viewEndpoint), orNull(&page.Next)})
}

func readEndpointQuery(c echo.Context) (store.EndpointQuery, error) {
	q := store.EndpointQuery{Limit: defaultPage}
	var errs fieldErrors
	for pointer, values := range parameters(c, endpointQuery) {
		switch pointer {
		case "?state":
			for _, v := range values {
				state, ok := store.ParseCircuitState(v)
				if !ok {
					errs.add(pointer, "must be one of closed, open, half_open")
				}
				q.States = append(q.States, state)
			}
		case "?endpoint":
			q.Endpoint = errs.endpoint(pointer, values[0])
		case "?limit":
			q.Limit = errs.limit(pointer, values[0])
		case "?cursor":
			q.Cursor = errs.cursor(pointer, values[0])
		}
	}
	return q, errs.err()
}

// tryDraft is the request to try an endpoint.
type tryDraft struct{ endpoint string }

var tryFields = newFieldSet(map[string]func(*tryDraft, field){
	"endpoint": func(d *tryDraft, f field) {
		if s := f.text(); s != nil {
			d.endpoint = f.errs.endpoint(f.pointer(), *s)
		}
	},
})

// tryEndpoint answers POST /v1/endpoints/try.
func (s *Server) tryEndpoint(c echo.Context) error {
	body, err := readJSON(c, maxEndpointRequest)
	if err != nil {
		return err
	}
	defer release(body)
	draft, errs := decodeObject(body.Bytes(), tryFields)
	if err := errs.err(); err != nil {
		return err
	}
	if draft.endpoint == "" {
		return invalid("/endpoint", "is required")
	}
	c.Set(contextTarget, draft.endpoint)
	endpoint, err := s.opts.Scheduler.Try(c.Request().Context(), draft.endpoint)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, viewEndpoint(&endpoint))
}

// testFields are those of a registration that make a request.
var testFields = draftFields.only("topic", "url", "method", "headers", "body", "body_text", "body_base64", "content_type", "timeout", "expect")

// testEndpoint answers POST /v1/endpoints/test.
func (s *Server) testEndpoint(c echo.Context) error {
	reg, err := s.readTest(c)
	if err != nil {
		return err
	}
	limit := s.opts.RequestTimeout * testShare / testShareOf
	attempt, err := s.opts.Scheduler.Test(c.Request().Context(), reg, limit)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, testView{Delivered: attempt.Error == "", Attempt: viewAttempt(&attempt)})
}

// readTest reads what to send as a registration, which is never stored.
func (s *Server) readTest(c echo.Context) (scheduler.Prepared, error) {
	body, err := readJSON(c, s.maxRequest())
	if err != nil {
		return scheduler.Prepared{}, err
	}
	defer release(body)
	draft, errs := decodeObject(body.Bytes(), testFields)
	reg, err := s.opts.Scheduler.PrepareTest(draft)
	if err := errs.merge(err); err != nil {
		return scheduler.Prepared{}, s.explainTooLarge(err)
	}
	c.Set(contextTarget, reg.Endpoint())
	return reg, nil
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

type endpointsView struct {
	Data       []endpointView `json:"data"`
	NextCursor *string        `json:"next_cursor"`
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
