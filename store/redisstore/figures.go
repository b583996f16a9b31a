package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Figures reads figures of a shard.
func (s *Store) Figures(ctx context.Context, q store.FigureQuery) (f store.Figures, err error) {
	sh := s.shards[q.Shard]
	f.Now = q.At
	if q.Now || q.Circuits && q.At == 0 {
		f.Now, err = s.askNow(ctx, sh)
	}
	if err == nil && q.Depth {
		f.Depth, err = s.depthOf(ctx, sh)
	}
	if err == nil && q.Circuits {
		f.Circuits, err = s.circuitsOf(ctx, sh, f.Now)
	}
	if err == nil && q.Limits {
		f.Limits, err = s.limitsOf(ctx, sh)
	}
	if err == nil {
		f.Topics, err = s.counts(ctx, sh, "", q.Topics)
	}
	if err == nil {
		f.Endpoints, err = s.counts(ctx, sh, ofEndpoint, q.Endpoints)
	}
	if err == nil && len(q.Groups) > 0 {
		f.Groups, err = s.deadIn(ctx, sh, q.Groups)
	}
	if err == nil && len(q.Lanes) > 0 {
		f.Lanes, f.Cost, err = s.dueIn(ctx, sh, q.Lanes, &q.Due)
	}
	return f, err
}

// Prefixes of the fields of counts, before the bar and the state.
const (
	ofAll      = ""
	ofEndpoint = "=" // followed by its name
)

// countField is the field of counts for a topic, an endpoint or all jobs.
func countField(of string, state job.State) string { return of + "|" + strconv.Itoa(int(state)) }

// countsAtOnce is the number of topics or endpoints whose counts one command reads.
const countsAtOnce = 100

// counts reads how many jobs of a shard there are by state: of topics, of endpoints with the
// prefix ofEndpoint, or ofAll.
func (s *Store) counts(ctx context.Context, sh *shard, prefix string, of []string) ([]map[job.State]int64, error) {
	counts := make([]map[job.State]int64, 0, len(of))
	for some := range slices.Chunk(of, countsAtOnce) {
		fields := make([]string, 0, len(some)*len(job.States))
		for _, name := range some {
			for _, state := range job.States {
				fields = append(fields, countField(prefix+name, state))
			}
		}
		values, err := s.db.HMGet(ctx, sh.counts, fields...).Result()
		if err != nil {
			return nil, s.wrap(err)
		}
		if len(values) != len(fields) {
			return nil, fmt.Errorf("redisstore: %d values for %d counts", len(values), len(fields))
		}
		for i, v := range values {
			if i%len(job.States) == 0 {
				counts = append(counts, map[job.State]int64{})
			}
			text, ok := v.(string)
			if !ok {
				continue
			}
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				s.log.Error("a stored count is not a number", "field", fields[i])
				continue
			}
			counts[len(counts)-1][job.States[i%len(job.States)]] = n
		}
	}
	return counts, nil
}

// depthOf is the depth of one shard.
func (s *Store) depthOf(ctx context.Context, sh *shard) (d store.Depth, err error) {
	counts, err := s.counts(ctx, sh, "", []string{ofAll})
	if err != nil {
		return d, err
	}
	d.States = counts[0]
	if d.Now, err = s.serverNow(ctx, sh); err != nil {
		return d, err
	}
	pipe := s.db.Pipeline()
	ready := pipe.LLen(ctx, sh.ready)
	circuits := pipe.HVals(ctx, sh.circuits)
	head := pipe.ZRangeWithScores(ctx, sh.lanes, 0, 0)
	orderKeys, behind := pipe.HLen(ctx, sh.prefix+"heads"), pipe.ZCard(ctx, sh.prefix+"turns")
	if err := s.exec(ctx, pipe); err != nil {
		return d, err
	}
	for _, text := range circuits.Val() {
		if circuitAt(text, d.Now).OpenUntil != 0 {
			d.OpenCircuits++
		}
	}
	d.ReadyList, d.OrderKeys, d.Behind = ready.Val(), orderKeys.Val(), behind.Val()
	if len(head.Val()) > 0 {
		if at := job.Instant(head.Val()[0].Score); at < parked {
			d.OldestDue = at
		}
	}
	return d, nil
}

// deadIn reads groups of dead letters.
func (s *Store) deadIn(ctx context.Context, sh *shard, groups []string) ([]store.DeadFigures, error) {
	pipe := s.db.Pipeline()
	counts := make([]*redis.IntCmd, len(groups))
	oldest, newest := make([]*redis.ZSliceCmd, len(groups)), make([]*redis.ZSliceCmd, len(groups))
	for i, name := range groups {
		key := sh.dead(name)
		counts[i] = pipe.ZCard(ctx, key)
		oldest[i], newest[i] = pipe.ZRangeWithScores(ctx, key, 0, 0), pipe.ZRangeWithScores(ctx, key, -1, -1)
	}
	if err := s.exec(ctx, pipe); err != nil {
		return nil, err
	}
	all := make([]store.DeadFigures, len(groups))
	for i := range all {
		if first, last := oldest[i].Val(), newest[i].Val(); len(first) > 0 && len(last) > 0 {
			_, from := decodeScore(first[0].Score)
			_, to := decodeScore(last[0].Score)
			all[i] = store.DeadFigures{Count: counts[i].Val(), Oldest: from, Newest: to}
		}
	}
	return all, nil
}

// fewDue is the number of entries up to which dueIn reads those of a lane.
const fewDue = 16

// dueIn counts the waiting jobs of lanes. With several ranges it reads the entries of lanes with
// few. cost is these entries, and a count for each range of other lanes.
func (s *Store) dueIn(ctx context.Context, sh *shard, lanes []string, q *store.DueQuery) (all []store.LaneFigures, cost int, err error) {
	all, cost = make([]store.LaneFigures, len(lanes)), len(lanes)
	for i := range all {
		all[i].Due = make([]int64, len(q.Bounds)-1)
	}
	many := make([]int, len(lanes)) // numbers of lanes to count
	for i := range many {
		many[i] = i
	}
	pipe := s.db.Pipeline()
	if len(q.Bounds) > 2 {
		firsts := make([]*redis.ZSliceCmd, len(lanes))
		for i, name := range lanes {
			firsts[i] = firstEntries(ctx, pipe, sh.bucket(name), "+inf", fewDue+1)
		}
		if err := s.exec(ctx, pipe); err != nil {
			return nil, 0, err
		}
		many = slices.DeleteFunc(many, func(i int) bool {
			entries := firsts[i].Val()
			cost += len(entries)
			return len(entries) <= fewDue && spread(entries, q, all[i].Due)
		})
	}
	ranges := map[*redis.IntCmd]*int64{}
	for _, i := range many {
		bucket := sh.bucket(lanes[i])
		countRanges(ctx, pipe, bucket, 0, q.Bounds, all[i].Due, ranges)
		if lane, err := job.ParseLane(lanes[i]); err == nil && lane.Ordered && q.Behind {
			countRanges(ctx, pipe, bucket, parked, q.Bounds, all[i].Due, ranges)
		}
	}
	if len(ranges) > 0 {
		if err := s.exec(ctx, pipe); err != nil {
			return nil, 0, err
		}
	}
	for n, to := range ranges {
		*to += n.Val()
	}
	if q.First {
		err = s.addFirsts(ctx, sh, lanes, q, all)
	}
	return all, cost + len(ranges), err
}

// firstEntries are the first entries of a bucket that wait, up to a score.
func firstEntries(ctx context.Context, pipe redis.Pipeliner, bucket, to string, n int64) *redis.ZSliceCmd {
	return pipe.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{Key: bucket, ByScore: true, Start: "0", Stop: to, Count: n})
}

// spread adds entries to counts by range.
func spread(entries []redis.Z, q *store.DueQuery, due []int64) bool {
	for _, entry := range entries {
		if _, at := decodeScore(entry.Score); q.Behind || entry.Score < parked {
			if n, _ := slices.BinarySearch(q.Bounds, at+1); n > 0 && n < len(q.Bounds) {
				due[n-1]++
			}
		}
	}
	return true
}

// countRanges counts the entries of a bucket between bounds, all shifted by as much.
func countRanges(ctx context.Context, pipe redis.Pipeliner, bucket string, shift int64, bounds []job.Instant, due []int64, ranges map[*redis.IntCmd]*int64) {
	for i := range due {
		from, to := int64(bounds[i]), min(int64(parked), int64(bounds[i+1]))
		ranges[pipe.ZCount(ctx, bucket, strconv.FormatInt(from+shift, 10), "("+strconv.FormatInt(to+shift, 10))] = &due[i]
	}
}

// addFirsts adds when the first jobs of lanes are due.
func (s *Store) addFirsts(ctx context.Context, sh *shard, lanes []string, q *store.DueQuery, all []store.LaneFigures) error {
	pipe := s.db.Pipeline()
	firsts := map[int]*redis.ZSliceCmd{}
	for i := range all {
		if slices.Max(all[i].Due) > 0 {
			firsts[i] = firstEntries(ctx, pipe, sh.bucket(lanes[i]), "("+strconv.FormatInt(int64(q.Bounds[len(q.Bounds)-1]), 10), 1)
		}
	}
	if len(firsts) == 0 {
		return nil
	}
	if err := s.exec(ctx, pipe); err != nil {
		return err
	}
	for i, reply := range firsts {
		all[i].First = store.EndOfTime // it was carried meanwhile
		for _, first := range reply.Val() {
			_, all[i].First = decodeScore(first.Score)
		}
	}
	return nil
}
