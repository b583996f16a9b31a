package redisstore

import (
	"context"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Endpoints pages through endpoints by name. Their jobs and circuits are spread over
// the shards.
func (s *Store) Endpoints(ctx context.Context, q store.EndpointQuery) (store.EndpointPage, error) {
	var page store.EndpointPage
	circuits, now, err := s.circuits(ctx)
	if err != nil {
		return page, err
	}
	page.Now = now
	if page.Endpoints, page.Next, err = listing.Endpoints(ctx, &q, circuits, s.nextEndpoints); err != nil {
		return page, err
	}
	names := make([]string, len(page.Endpoints))
	for i := range page.Endpoints {
		names[i] = ofEndpoint + page.Endpoints[i].Endpoint
	}
	counts, err := s.counts(ctx, names)
	for i, of := range counts {
		e := &page.Endpoints[i]
		e.Waiting, e.Ready, e.Running = of[job.Waiting]+of[job.Retrying], of[job.Ready], of[job.Running]
	}
	return page, err
}
