package redisstore

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

//go:embed lua/due.lua
var dueLua string

var dueScript = script(dueLua, readOnly)

// lanesPerCount is how many lanes one script call counts: with a hundred bounds
// and a thousand jobs in each, two take 2 ms.
const lanesPerCount = 2

// endpointsOf are the lanes and gates of a shard, by endpoint.
type endpointsOf struct {
	lanes map[string][]string
	gates map[string]store.Gate
}

// Endpoints pages through endpoints by name. Their jobs and gates are spread over
// the shards.
func (s *Store) Endpoints(ctx context.Context, q store.EndpointQuery) (store.EndpointPage, error) {
	var page store.EndpointPage
	var names []string
	gates := map[string]store.Gate{}
	parts := make([]endpointsOf, len(s.shards))
	for i, sh := range s.shards {
		now, err := s.serverNow(ctx, sh)
		if err != nil {
			return page, err
		}
		page.Now = max(page.Now, now)
		if parts[i], err = s.endpointsOf(ctx, sh, now); err != nil {
			return page, err
		}
		for name := range parts[i].lanes {
			names = append(names, name)
		}
		for name, gate := range parts[i].gates {
			names, gates[name] = append(names, name), gate // all shards have much the same
		}
	}
	var err error
	page.Endpoints, page.Next, err = q.Pick(names, func(name string) store.Gate { return gates[name] })
	if err != nil {
		return page, err
	}
	for i, sh := range s.shards {
		if err := s.addEndpoints(ctx, sh, parts[i].lanes, page.Endpoints); err != nil {
			return page, err
		}
	}
	return page, nil
}

func (s *Store) endpointsOf(ctx context.Context, sh *shard, now job.Instant) (endpointsOf, error) {
	part := endpointsOf{lanes: map[string][]string{}}
	var err error
	if part.gates, err = s.gatesOf(ctx, sh, now); err != nil {
		return part, err
	}
	lanes, err := s.lanes(ctx, sh)
	if err != nil {
		return part, err
	}
	for _, lane := range lanes {
		name := lane[strings.LastIndexByte(lane, '|')+1:]
		part.lanes[name] = append(part.lanes[name], lane)
	}
	return part, nil
}

// addEndpoints adds what a shard holds of the jobs of endpoints. What is out is
// bounded by the limits on carrying, so it can be looked at one by one.
func (s *Store) addEndpoints(ctx context.Context, sh *shard, lanes map[string][]string, page []store.EndpointStats) error {
	type lane struct {
		of      *store.EndpointStats
		waiting *redis.IntCmd
		out     *redis.ZSliceCmd
	}
	pipe := s.db.Pipeline()
	var asked []lane
	for i := range page {
		for _, name := range lanes[page[i].Endpoint] {
			bucket := sh.bucket(name)
			asked = append(asked, lane{
				of: &page[i], waiting: pipe.ZCount(ctx, bucket, "0", "+inf"),
				out: pipe.ZRangeByScoreWithScores(ctx, bucket, &redis.ZRangeBy{Min: "-inf", Max: "(0"}),
			})
		}
	}
	if len(asked) == 0 {
		return nil
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return s.wrap(err)
	}
	for _, l := range asked {
		l.of.Waiting += l.waiting.Val()
		for _, e := range l.out.Val() {
			if state, _ := place(e.Score); state == job.Running {
				l.of.Running++
			} else {
				l.of.Ready++
			}
		}
	}
	return nil
}

// DueCounts counts jobs that wait.
func (s *Store) DueCounts(ctx context.Context, bounds []job.Instant) ([]int64, error) {
	counts := make([]int64, len(bounds)+1)
	args := make([]any, len(bounds))
	for i, at := range bounds {
		args[i] = int64(at)
	}
	for _, sh := range s.shards {
		lanes, err := s.lanes(ctx, sh)
		if err != nil {
			return nil, err
		}
		for some := range slices.Chunk(lanes, lanesPerCount) {
			buckets := make([]string, len(some))
			for i, lane := range some {
				buckets[i] = sh.bucket(lane)
			}
			reply, err := dueScript.Run(ctx, s.db, buckets, args...).Int64Slice()
			if err != nil {
				return nil, s.wrap(err)
			}
			if len(reply) != len(counts) {
				return nil, fmt.Errorf("redisstore: %d counts for %d ranges", len(reply), len(counts))
			}
			for i, n := range reply {
				counts[i] += n
			}
		}
	}
	return counts, nil
}
