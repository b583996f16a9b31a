package app

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/recent"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Deliverer makes attempts. A *dispatcher.Dispatcher is one.
type Deliverer interface {
	// Try triggers an attempt at an endpoint whose circuit is open.
	Try(ctx context.Context, endpoint string) error
	// Test makes one attempt, within limit, at a job that is not stored. An error
	// that wraps store.ErrUnavailable says that no attempt was possible.
	Test(ctx context.Context, c store.Claimed, limit time.Duration) (job.Attempt, error)
}

const (
	// MaxTests bounds the tests in flight of a node.
	MaxTests = 8
	// HeaderTest marks a test for its receiver.
	HeaderTest = "Duehook-Test"
	testBody   = `{"test":true}`
)

// ErrTooManyTests says that MaxTests tests are in flight.
var ErrTooManyTests = errors.New("too many tests of endpoints")

// Endpoint is an endpoint with its recent attempts.
type Endpoint struct {
	store.EndpointStats
	Health *recent.Health // nil: there were none
}

// EndpointPage is a page of endpoints; Next is empty on the last.
type EndpointPage struct {
	Endpoints []Endpoint
	Next      string
}

// Endpoints returns a page of the endpoints that have unfinished jobs, an open
// circuit or recent attempts.
func (s *App) Endpoints(ctx context.Context, q store.EndpointQuery) (EndpointPage, error) {
	health, err := s.o.Recent.Health(ctx)
	if err != nil {
		return EndpointPage{}, err
	}
	q.Also = append(q.Also, slices.Collect(maps.Keys(health))...)
	page, err := listing.Endpoints(ctx, s.o.Store, q)
	if err != nil {
		return EndpointPage{}, err
	}
	result := EndpointPage{Endpoints: make([]Endpoint, len(page.Endpoints)), Next: page.Next}
	for i, stats := range page.Endpoints {
		result.Endpoints[i].EndpointStats = stats
		if h, ok := health[stats.Endpoint]; ok {
			result.Endpoints[i].Health = &h
		}
	}
	return result, nil
}

// Try triggers an attempt at an endpoint, and returns the endpoint.
func (s *App) Try(ctx context.Context, endpoint string) (Endpoint, error) {
	if err := s.o.Endpoints.Try(ctx, endpoint); err != nil {
		return Endpoint{}, err
	}
	page, err := s.Endpoints(ctx, store.EndpointQuery{Endpoint: endpoint, Also: []string{endpoint}, Limit: 1})
	if err != nil {
		return Endpoint{}, err
	}
	return page.Endpoints[0], nil
}

// PrepareTest checks a draft for one request of Test. Errors are those of
// Prepare.
func (s *App) PrepareTest(d *job.Draft) (Prepared, error) {
	if d.Body == nil {
		d.Body = &job.Body{Form: job.BodyJSON, Content: []byte(testBody)}
	}
	request, err := d.Registration(s.o.Bounds, job.InstantOf(s.o.Clock.Now()))
	if err != nil {
		return Prepared{}, err
	}
	if err := s.CheckDestination("url", request.Spec.Destination); err != nil {
		return Prepared{}, err
	}
	request.Spec.Headers = append(request.Spec.Headers, job.Header{Name: HeaderTest, Value: "true"})
	return s.prepared(job.Key{Topic: request.Key.Topic}, &request, &Origin{})
}

// Endpoint is the endpoint of the job.
func (p *Prepared) Endpoint() string {
	j := job.Job{Key: p.reg.Key, Spec: p.reg.Spec}
	return j.Lane().Endpoint
}

// Test makes one attempt within limit. Nothing is stored. Errors: ErrTooManyTests,
// or the store's.
func (s *App) Test(ctx context.Context, p Prepared, limit time.Duration) (job.Attempt, error) {
	now, err := store.Now(ctx, s.o.Store)
	if err != nil {
		return job.Attempt{}, err
	}
	defer s.tests.Add(-1)
	if s.tests.Add(1) > MaxTests {
		return job.Attempt{}, ErrTooManyTests
	}
	return s.o.Endpoints.Test(ctx, store.Claimed{Job: p.reg.Job(now), Now: now}, limit)
}
