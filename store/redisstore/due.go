package redisstore

import (
	"context"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

const (
	// dueLanes is the number of lanes that DueCounts asks for at once.
	dueLanes = 100
	// fewDue is the number of entries up to which it reads those of a lane.
	fewDue = 16
	// maxDue bounds the commands for each shard, and the entries that they read.
	maxDue = 150_000
)

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
			names, _, err := s.allNames(ctx, section, maxDue+1)
			if err != nil {
				return part, err
			}
			lanes = theseLanes(names)
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

// earliest returns the lanes of a shard, the earliest first.
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

// theseLanes returns the named lanes, which may all need attention now.
func theseLanes(names []string) someLanes {
	return func(_ context.Context, from int64) ([]string, job.Instant, error) {
		from = min(from, int64(len(names)))
		return names[from:min(from+dueLanes, int64(len(names)))], 0, nil
	}
}

// addDueCounts adds the counts of lanes; left is when the first lane left out needs
// attention, zero if none was.
func (s *Store) addDueCounts(ctx context.Context, sh *shard, lanes someLanes, bounds []job.Instant, counts []int64) (left job.Instant, err error) {
	budget := s.dueBudget
	for at := int64(0); ; at += dueLanes {
		names, first, err := lanes(ctx, at)
		if err != nil || len(names) == 0 {
			return 0, err
		}
		if budget <= 0 {
			return max(1, first), nil
		}
		cost, err := s.countDue(ctx, sh, names, bounds, counts)
		if err != nil {
			return 0, err
		}
		budget -= cost
	}
}

// countDue adds the counts of some lanes, and returns its cost: the entries read of lanes
// with few, and a count for each range of other lanes.
func (s *Store) countDue(ctx context.Context, sh *shard, names []string, bounds []job.Instant, counts []int64) (cost int, err error) {
	pipe := s.db.Pipeline()
	firsts := make([]*redis.ZSliceCmd, len(names))
	for i, name := range names {
		firsts[i] = pipe.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
			Key: sh.bucket(name), ByScore: true, Start: 0, Stop: "+inf", Count: fewDue + 1,
		})
	}
	if err := s.exec(ctx, pipe); err != nil {
		return 0, err
	}
	ranges := map[*redis.IntCmd]int{}
	for i, first := range firsts {
		entries := first.Val()
		cost += 1 + len(entries)
		if len(entries) > fewDue {
			countRanges(ctx, pipe, sh.bucket(names[i]), 0, bounds, ranges)
			if lane, err := job.ParseLane(names[i]); err == nil && lane.Ordered {
				countRanges(ctx, pipe, sh.bucket(names[i]), parked, bounds, ranges)
			}
			continue
		}
		for _, entry := range entries {
			_, at := place(entry.Score)
			n, _ := slices.BinarySearch(bounds, at+1)
			counts[n]++
		}
	}
	if len(ranges) == 0 {
		return cost, nil
	}
	if err := s.exec(ctx, pipe); err != nil {
		return 0, err
	}
	for n, i := range ranges {
		counts[i] += n.Val()
	}
	return cost + len(ranges), nil
}

// countRanges counts the entries of a bucket between bounds, all shifted by as much.
func countRanges(ctx context.Context, pipe redis.Pipeliner, bucket string, shift int64, bounds []job.Instant, ranges map[*redis.IntCmd]int) {
	for i := range len(bounds) + 1 {
		from, to := int64(0), int64(parked)
		if i > 0 {
			from = int64(bounds[i-1])
		}
		if i < len(bounds) {
			to = min(to, int64(bounds[i]))
		}
		count := pipe.ZCount(ctx, bucket, strconv.FormatInt(from+shift, 10), "("+strconv.FormatInt(to+shift, 10))
		ranges[count] = i
	}
}
