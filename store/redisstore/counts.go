package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Prefixes of the fields of counts, before the bar and the state.
const (
	ofAll      = ""
	ofEndpoint = "=" // followed by its name
)

// countField is the field of counts for a topic, an endpoint or all jobs.
func countField(of string, state job.State) string { return of + "|" + strconv.Itoa(int(state)) }

// countsAtOnce is the number of topics or endpoints whose counts one command reads.
const countsAtOnce = 100

// counts reads how many jobs there are by state, over all shards: of topics, of
// endpoints behind ofEndpoint, or ofAll.
func (s *Store) counts(ctx context.Context, of []string) ([]map[job.State]int64, error) {
	perShard, err := gather(ctx, s, func(ctx context.Context, sh *shard) ([]map[job.State]int64, error) {
		return s.countsIn(ctx, sh, of)
	})
	if err != nil {
		return nil, err
	}
	sums := perShard[0]
	for _, counts := range perShard[1:] {
		for i := range sums {
			for state, n := range counts[i] {
				sums[i][state] += n
			}
		}
	}
	return sums, nil
}

// countsIn reads the counts of one shard.
func (s *Store) countsIn(ctx context.Context, sh *shard, of []string) ([]map[job.State]int64, error) {
	counts := make([]map[job.State]int64, 0, len(of))
	for some := range slices.Chunk(of, countsAtOnce) {
		fields := make([]string, 0, len(some)*len(job.States))
		for _, name := range some {
			for _, state := range job.States {
				fields = append(fields, countField(name, state))
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

// Topics pages through topics.
func (s *Store) Topics(ctx context.Context, q store.TopicQuery) (store.TopicPage, error) {
	if q.Busiest {
		busy, err := s.busiest(ctx, q.Limit)
		return store.TopicPage{Topics: busy}, err
	}
	names, next, err := listing.Topics(ctx, &q, s.nextTopics)
	if err != nil {
		return store.TopicPage{}, err
	}
	counts, err := s.counts(ctx, names)
	page := store.TopicPage{Next: next}
	for i := range counts {
		if len(counts[i]) > 0 || slices.Contains(q.Also, names[i]) { // else it went meanwhile
			page.Topics = append(page.Topics, store.TopicStats{Topic: names[i], States: counts[i]})
		}
	}
	return page, err
}

// manyJobs is the number of jobs waiting in one state from which busy lists a topic.
const manyJobs = 16

// busiest reads so many topics with many waiting jobs from each shard. It also reads the
// first by name, because few topics may have many jobs.
const (
	busyCandidates  = 100
	namedCandidates = 100
)

// busiest returns the topics with the most unfinished jobs. Most jobs of a topic wait,
// evenly spread over the shards, so one of the busiest topics is among the first of some
// shard.
func (s *Store) busiest(ctx context.Context, n int) ([]store.TopicStats, error) {
	names, err := s.nextTopics(ctx, "", namedCandidates)
	if err != nil {
		return nil, err
	}
	busiest, err := gather(ctx, s, func(ctx context.Context, sh *shard) ([]string, error) {
		fields, err := s.db.ZRevRange(ctx, sh.busy, 0, busyCandidates-1).Result()
		return fields, s.wrap(err)
	})
	if err != nil {
		return nil, err
	}
	for _, field := range slices.Concat(busiest...) {
		topic, _, _ := strings.Cut(field, "|")
		names = append(names, topic)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	counts, err := s.counts(ctx, names)
	if err != nil {
		return nil, err
	}
	var busy []store.TopicStats
	for i := range counts {
		if t := (store.TopicStats{Topic: names[i], States: counts[i]}); t.Unfinished() > 0 {
			busy = append(busy, t)
		}
	}
	slices.SortStableFunc(busy, func(a, b store.TopicStats) int { return cmp.Compare(b.Unfinished(), a.Unfinished()) })
	return busy[:min(n, len(busy))], nil
}

// Now returns the time of the first shard's server.
func (s *Store) Now(ctx context.Context) (job.Instant, error) { return s.askNow(ctx, s.shards[0]) }

// Depth returns the sums of all shards.
func (s *Store) Depth(ctx context.Context) (store.Depth, error) {
	counts, err := s.counts(ctx, []string{ofAll})
	if err != nil {
		return store.Depth{}, err
	}
	d := store.Depth{States: counts[0]}
	perShard, err := gather(ctx, s, s.depthOf)
	for _, of := range perShard {
		d.ReadyList += of.ReadyList
		d.OrderKeys, d.Behind = d.OrderKeys+of.OrderKeys, d.Behind+of.Behind
		d.Now, d.OpenCircuits = max(d.Now, of.Now), max(d.OpenCircuits, of.OpenCircuits)
		if d.OldestDue == 0 || of.OldestDue != 0 && of.OldestDue < d.OldestDue {
			d.OldestDue = of.OldestDue
		}
	}
	return d, err
}

// depthOf is the depth of one shard, without its counts.
func (s *Store) depthOf(ctx context.Context, sh *shard) (d store.Depth, err error) {
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
	d.ReadyList, d.OpenCircuits = ready.Val(), openAt(circuits.Val(), d.Now)
	d.OrderKeys, d.Behind = orderKeys.Val(), behind.Val()
	if len(head.Val()) > 0 {
		if at := job.Instant(head.Val()[0].Score); at < parked {
			d.OldestDue = at
		}
	}
	return d, nil
}
