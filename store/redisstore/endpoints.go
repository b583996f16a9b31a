package redisstore

import (
	"context"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Endpoints pages through endpoints by name. Their jobs and circuits are spread over
// the shards.
func (s *Store) Endpoints(ctx context.Context, q store.EndpointQuery) (store.EndpointPage, error) {
	var page store.EndpointPage
	circuits := map[string]store.Circuit{}
	for _, sh := range s.shards {
		now, err := s.serverNow(ctx, sh)
		if err != nil {
			return page, err
		}
		page.Now = max(page.Now, now)
		of, err := s.circuitsOf(ctx, sh, now)
		if err != nil {
			return page, err
		}
		for name, circuit := range of {
			circuits[name] = circuit // all shards have much the same
		}
	}
	var err error
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

// Bounds of DueCounts: how many lanes and commands one script call may take, and one
// of DueCounts for each shard. A lane with few jobs takes one command, one with jobs in
// each of a hundred ranges a hundred.
const (
	dueLanes       = 100
	dueCommands    = 300
	maxDueLanes    = 20_000
	maxDueCommands = 100_000
)

// dueBudget is how many lanes and commands are left.
type dueBudget struct{ lanes, commands int64 }

// DueCounts counts jobs that wait, beginning with the lanes that need attention first.
func (s *Store) DueCounts(ctx context.Context, bounds []job.Instant) (store.DueCounts, error) {
	d := store.DueCounts{Counts: make([]int64, len(bounds)+1)}
	for _, sh := range s.shards {
		left, err := s.addDueCounts(ctx, sh, bounds, d.Counts)
		if err != nil {
			return d, err
		}
		if left != 0 && (d.PartialFrom == 0 || left < d.PartialFrom) {
			d.PartialFrom = left
		}
	}
	return d, nil
}

// addDueCounts adds the counts of a shard; left is when the first lane that was
// left out needs attention, zero if none was.
func (s *Store) addDueCounts(ctx context.Context, sh *shard, bounds []job.Instant, counts []int64) (left job.Instant, err error) {
	for at, budget := int64(0), s.dueBudget; ; {
		lanes, err := s.db.ZRangeWithScores(ctx, sh.lanes, at, at+dueLanes-1).Result()
		if err != nil || len(lanes) == 0 {
			return 0, s.wrap(err)
		}
		if budget.lanes <= 0 || budget.commands <= 0 {
			return max(1, job.Instant(lanes[0].Score)), nil
		}
		args := make([]any, 1, 1+len(bounds))
		args[0] = dueCommands
		for _, bound := range bounds {
			args = append(args, int64(bound))
		}
		buckets := make([]string, len(lanes))
		for i := range lanes {
			name, _ := lanes[i].Member.(string)
			buckets[i] = sh.bucket(name)
		}
		reply, err := dueScript.Run(ctx, s.db, buckets, args...).Int64Slice()
		if err != nil {
			return 0, s.wrap(err)
		}
		if len(reply) != 2+len(counts) || reply[0] < 1 {
			return 0, fmt.Errorf("redisstore: %d counts for %d ranges", max(0, len(reply)-2), len(counts))
		}
		at += reply[0]
		budget = dueBudget{budget.lanes - reply[0], budget.commands - reply[1]}
		for i, n := range reply[2:] {
			counts[i] += n
		}
	}
}
