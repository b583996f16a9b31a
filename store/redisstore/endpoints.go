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

// DueCounts counts waiting jobs, beginning with the lanes that need attention first.
func (s *Store) DueCounts(ctx context.Context, of store.DueOf, bounds []job.Instant) (store.DueCounts, error) {
	d := store.DueCounts{Counts: make([]int64, len(bounds)+1)}
	perShard, err := gather(ctx, s, func(ctx context.Context, sh *shard) (part store.DueCounts, err error) {
		lanes := s.earliest(sh)
		if of != (store.DueOf{}) {
			section := sh.lanesOf(of.Topic)
			if of.Endpoint != "" {
				section = sh.lanesAt(of.Endpoint, of.Topic)
			}
			names, _, err := s.allNames(ctx, section, maxDueLanes+1)
			if err != nil {
				return part, err
			}
			lanes = inTurn(names)
		}
		part.Counts = make([]int64, len(bounds)+1)
		part.PartialFrom, err = s.addDueCounts(ctx, sh, lanes, bounds, part.Counts)
		return part, err
	})
	for _, of := range perShard {
		for i, n := range of.Counts {
			d.Counts[i] += n
		}
		if d.PartialFrom == 0 || of.PartialFrom != 0 && of.PartialFrom < d.PartialFrom {
			d.PartialFrom = of.PartialFrom
		}
	}
	return d, err
}

// someLanes returns up to dueLanes lanes from one on, and when the first needs attention.
type someLanes func(ctx context.Context, from int64) (names []string, first job.Instant, err error)

// earliest returns the lanes of a shard, those that need attention first.
func (s *Store) earliest(sh *shard) someLanes {
	return func(ctx context.Context, from int64) ([]string, job.Instant, error) {
		lanes, err := s.db.ZRangeWithScores(ctx, sh.lanes, from, from+dueLanes-1).Result()
		if err != nil || len(lanes) == 0 {
			return nil, 0, s.wrap(err)
		}
		names := make([]string, len(lanes))
		for i := range lanes {
			names[i], _ = lanes[i].Member.(string)
		}
		return names, job.Instant(lanes[0].Score), nil
	}
}

// inTurn returns lanes that may all need attention now.
func inTurn(names []string) someLanes {
	return func(_ context.Context, from int64) ([]string, job.Instant, error) {
		return names[from:min(from+dueLanes, int64(len(names)))], 0, nil
	}
}

// addDueCounts adds the counts of lanes; left is when the first lane left out needs
// attention, zero if none was.
func (s *Store) addDueCounts(ctx context.Context, sh *shard, lanes someLanes, bounds []job.Instant, counts []int64) (left job.Instant, err error) {
	args := make([]any, 1, 1+len(bounds))
	args[0] = dueCommands
	for _, bound := range bounds {
		args = append(args, int64(bound))
	}
	for at, budget := int64(0), s.dueBudget; ; {
		names, first, err := lanes(ctx, at)
		if err != nil || len(names) == 0 {
			return 0, err
		}
		if budget.lanes <= 0 || budget.commands <= 0 {
			return max(1, first), nil
		}
		buckets := make([]string, len(names))
		for i, name := range names {
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
