package storetest

import (
	"context"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// What package listing makes of the calls of a store is tested as the store's own.

func (f *fixture) Now(ctx context.Context) (job.Instant, error) { return store.Now(ctx, f.Store) }

func (f *fixture) Attempts(ctx context.Context, key job.Key) ([]job.Attempt, error) {
	return store.Attempts(ctx, f.Store, key)
}

func (f *fixture) Outlook(ctx context.Context, key job.Key) (store.Outlook, error) {
	return listing.Outlook(ctx, f.Store, key)
}

func (f *fixture) List(ctx context.Context, q store.Query) (store.Page, error) {
	return listing.List(ctx, f.Store, q)
}

func (f *fixture) Topics(ctx context.Context, q store.TopicQuery) (store.TopicPage, error) {
	return listing.Topics(ctx, f.Store, q)
}

func (f *fixture) Endpoints(ctx context.Context, q store.EndpointQuery) (store.EndpointPage, error) {
	return listing.Endpoints(ctx, f.Store, q)
}

func (f *fixture) DeadGroups(ctx context.Context, topic string, limit int, cursor string) (store.DeadPage, error) {
	return listing.DeadGroups(ctx, f.Store, topic, limit, cursor)
}

func (f *fixture) DueCounts(ctx context.Context, of store.DueOf, bounds []job.Instant) (store.DueCounts, error) {
	return listing.DueCounts(ctx, f.Store, of, bounds)
}

func (f *fixture) Backlogs(ctx context.Context) (store.Backlogs, error) {
	return listing.Backlogs(ctx, f.Store)
}

func (f *fixture) Depth(ctx context.Context) (store.Depth, error) { return listing.Depth(ctx, f.Store) }

func (f *fixture) Limits(ctx context.Context) (map[string]store.Limits, error) {
	return listing.Limits(ctx, f.Store)
}
