package httpapi

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/internal/services/recent"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Endpoints is what the API needs of those who make deliveries. A
// *dispatcher.Dispatcher is one.
type Endpoints interface {
	// Try has a held endpoint tried now.
	Try(ctx context.Context, endpoint string) error
	// Test makes one attempt, within limit, at a job that is not stored. An error
	// that wraps store.ErrUnavailable says that none could be made.
	Test(ctx context.Context, c store.Claimed, limit time.Duration) (job.Attempt, error)
}

// noEndpoints is what there is without a dispatcher.
type noEndpoints struct{}

func (noEndpoints) Try(context.Context, string) error { return store.ErrUnavailable }

func (noEndpoints) Test(context.Context, store.Claimed, time.Duration) (job.Attempt, error) {
	return job.Attempt{}, store.ErrUnavailable
}

const (
	// maxTests bounds the tests of a node that are under way.
	maxTests = 8
	// testShare is the part of a request's time that a test may take: 4/5.
	testShare, testShareOf = 4, 5
	// headerTest marks a test for its receiver.
	headerTest = "Duehook-Test"
	testBody   = `{"test":true}`

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
	health, err := s.opts.Recent.Health(c.Request().Context())
	if err != nil {
		return err
	}
	q.Also = slices.Collect(maps.Keys(health))
	page, err := s.opts.Store.Endpoints(c.Request().Context(), q)
	if err != nil {
		return err
	}
	view := endpointsView{Data: make([]endpointView, len(page.Endpoints)), NextCursor: orNull(&page.Next)}
	for i := range page.Endpoints {
		view.Data[i] = viewEndpoint(&page.Endpoints[i], health)
	}
	return writeJSON(c, http.StatusOK, view)
}

func readEndpointQuery(c echo.Context) (store.EndpointQuery, error) {
	q := store.EndpointQuery{Limit: defaultPage}
	var errs fieldErrors
	for _, name := range endpointQuery {
		values, ok := c.QueryParams()[name]
		if !ok {
			continue
		}
		switch pointer := "?" + name; name {
		case "state":
			for _, v := range values {
				state, ok := store.ParseCircuitState(v)
				if !ok {
					errs.add(pointer, "must be one of closed, open, half_open")
				}
				q.States = append(q.States, state)
			}
		case "endpoint":
			q.Endpoint = errs.endpoint(pointer, values[0])
		case "limit":
			q.Limit = errs.limit(pointer, values[0])
		case "cursor":
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
	ctx := c.Request().Context()
	if err := s.opts.Endpoints.Try(ctx, draft.endpoint); err != nil {
		return err
	}
	health, err := s.opts.Recent.Health(ctx)
	if err != nil {
		return err
	}
	page, err := s.opts.Store.Endpoints(ctx, store.EndpointQuery{
		Endpoint: draft.endpoint, Also: []string{draft.endpoint}, Limit: 1,
	})
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, viewEndpoint(&page.Endpoints[0], health))
}

// testFields are those of a registration that make a request.
var testFields = draftFields.only("topic", "url", "method", "headers", "body", "body_text", "body_base64", "content_type", "timeout", "expect")

// testEndpoint answers POST /v1/endpoints/test.
func (s *Server) testEndpoint(c echo.Context) error {
	reg, err := s.readTest(c)
	if err != nil {
		return err
	}
	now, err := s.storeNow(c, reg.Key)
	if err != nil {
		return err
	}
	if s.tests.Add(1) > maxTests {
		s.tests.Add(-1)
		return &apiError{
			code:   codeTooManyTests,
			detail: fmt.Sprintf("%d tests are under way here. Try again when one of them has ended.", maxTests),
		}
	}
	defer s.tests.Add(-1)
	limit := s.opts.RequestTimeout * testShare / testShareOf
	attempt, err := s.opts.Endpoints.Test(c.Request().Context(), store.Claimed{Job: reg.Job(now), Now: now}, limit)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, testView{Delivered: attempt.Error == "", Attempt: viewAttempt(&attempt)})
}

// readTest reads what to send as a registration, which nobody is going to store.
func (s *Server) readTest(c echo.Context) (store.Registration, error) {
	body, err := readJSON(c, s.maxRequest())
	if err != nil {
		return store.Registration{}, err
	}
	defer release(body)
	draft, errs := decodeObject(body.Bytes(), testFields)
	if draft.Body == nil && draft.BodyText == nil && draft.BodyBase64 == nil {
		draft.Body = []byte(testBody)
	}
	request, err := draft.Registration(s.opts.Limits, job.InstantOf(s.opts.Clock.Now()))
	if err := errs.merge(err); err != nil {
		return store.Registration{}, s.explainTooLarge(err)
	}
	if err := s.checkDestination("/url", string(request.Spec.Destination)); err != nil {
		return store.Registration{}, err
	}
	uid, err := s.newUID(job.Key{Topic: request.Key.Topic})
	if err != nil {
		return store.Registration{}, fmt.Errorf("make a uid: %w", err)
	}
	reg := store.Registration{Key: job.Key{Topic: request.Key.Topic, ID: uid}, UID: uid, Spec: ownBody(request.Spec)}
	reg.Spec.Headers = append(reg.Spec.Headers, job.Header{Name: headerTest, Value: "true"})
	if endpoint, err := job.Destination(reg.Spec.Destination).Endpoint(); err == nil {
		c.Set(contextTarget, endpoint)
	}
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

func viewEndpoint(e *store.EndpointStats, health map[string]recent.Health) endpointView {
	v := endpointView{
		Endpoint: e.Endpoint, State: e.Circuit.State().String(), ReopensAt: instant(e.Circuit.OpenUntil),
		Waiting: e.Waiting, Ready: e.Ready, InFlight: e.Running,
	}
	if h, ok := health[e.Endpoint]; ok {
		v.Failures, v.LastError = &h.Failures, orNull(&h.LastError)
		v.LastFailureAt, v.LastSuccessAt = instant(h.LastFailureAt), instant(h.LastSuccessAt)
	}
	return v
}
