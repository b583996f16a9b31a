package redisstore

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// Backlogs counts the jobs that are due and wait, lane by lane.
func (s *Store) Backlogs(ctx context.Context) (store.Backlogs, error) {
	var b store.Backlogs
	topics := map[string]*store.Backlog{}
	perShard, err := gather(ctx, s, s.backlogsOf)
	for _, of := range perShard {
		b.Now, b.Partial = max(b.Now, of.Now), b.Partial || of.Partial
		for _, t := range of.Topics {
			if known := topics[t.Topic]; known != nil {
				t.Jobs, t.Oldest = t.Jobs+known.Jobs, min(t.Oldest, known.Oldest)
			}
			topics[t.Topic] = &t
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		b.Topics = append(b.Topics, *topics[topic])
	}
	return b, err
}

// backlogsOf counts the jobs of one shard.
func (s *Store) backlogsOf(ctx context.Context, sh *shard) (b store.Backlogs, err error) {
	if b.Now, err = s.askNow(ctx, sh); err != nil {
		return b, err
	}
	lanes, more, err := s.lanesDue(ctx, sh, b.Now)
	b.Partial = more
	topics := map[string]*store.Backlog{}
	for some := range slices.Chunk(lanes, maxBatch) {
		if err := s.addBacklogs(ctx, sh, some, b.Now, topics); err != nil {
			return b, err
		}
	}
	for _, t := range topics {
		b.Topics = append(b.Topics, *t)
	}
	return b, err
}

// lanesDue returns up to store.MaxLanes lanes that may have due jobs, and whether there are
// more: lanes due for a visit, and lanes put off because of an open circuit or a limit of
// their topic. Other lanes are put off for at most rules.LaneLook.
func (s *Store) lanesDue(ctx context.Context, sh *shard, now job.Instant) (lanes []string, more bool, err error) {
	all := map[string]struct{}{}
	add := func(names []string) {
		for _, name := range names {
			all[name] = struct{}{}
		}
	}
	due, err := s.db.ZRangeArgs(ctx, redis.ZRangeArgs{
		Key: sh.lanes, ByScore: true, Start: "-inf", Stop: int64(now.Add(rules.LaneLook)), Count: store.MaxLanes + 1,
	}).Result()
	if err != nil {
		return nil, false, s.wrap(err)
	}
	add(due)
	sections, err := s.putOff(ctx, sh, now)
	if err != nil {
		return nil, false, err
	}
	for _, of := range sections {
		if len(all) > store.MaxLanes {
			break
		}
		names, cut, err := s.allNames(ctx, of, store.MaxLanes)
		if err != nil {
			return nil, false, err
		}
		add(names)
		more = more || cut
	}
	lanes = slices.Sorted(maps.Keys(all))
	return lanes[:min(len(lanes), store.MaxLanes)], more || len(lanes) > store.MaxLanes, nil
}

// putOff returns the lanes of endpoints with open circuits, and of topics with limits.
func (s *Store) putOff(ctx context.Context, sh *shard, now job.Instant) ([]section, error) {
	circuits, err := s.circuitsOf(ctx, sh, now)
	if err != nil {
		return nil, err
	}
	var all []section
	for endpoint, circuit := range circuits {
		if circuit.OpenUntil > 0 {
			all = append(all, sh.lanesAt(endpoint, ""))
		}
	}
	topics, err := s.db.HKeys(ctx, sh.topics).Result()
	for _, topic := range topics {
		all = append(all, sh.lanesOf(topic))
	}
	return all, s.wrap(err)
}

// addBacklogs adds the backlogs of lanes. Waiting jobs have a score from zero up.
func (s *Store) addBacklogs(ctx context.Context, sh *shard, lanes []string, now job.Instant, topics map[string]*store.Backlog) error {
	after := "(" + strconv.FormatInt(int64(now+1), 10)
	pipe := s.db.Pipeline()
	counts := make([]*redis.IntCmd, len(lanes))
	for i, lane := range lanes {
		counts[i] = pipe.ZCount(ctx, sh.bucket(lane), "0", after)
	}
	if err := s.exec(ctx, pipe); err != nil {
		return err
	}
	firsts := map[*store.Backlog][]*redis.ZSliceCmd{}
	for i, lane := range lanes {
		n := counts[i].Val()
		if n == 0 {
			continue
		}
		topic, _, _ := strings.Cut(lane, "|")
		if topics[topic] == nil {
			topics[topic] = &store.Backlog{Topic: topic, Oldest: now}
		}
		b := topics[topic]
		b.Jobs += n
		firsts[b] = append(firsts[b], pipe.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
			Key: sh.bucket(lane), ByScore: true, Start: "0", Stop: after, Count: 1,
		}))
	}
	if err := s.exec(ctx, pipe); err != nil {
		return err
	}
	for b, replies := range firsts {
		for _, reply := range replies {
			for _, first := range reply.Val() { // none, if it was carried meanwhile
				_, at := place(first.Score)
				b.Oldest = min(b.Oldest, at)
			}
		}
	}
	return nil
}

// circuits reads the circuits that are not closed, by endpoint, and the latest time of a
// shard. Shards differ only for the moment in which a circuit changes.
func (s *Store) circuits(ctx context.Context) (map[string]store.Circuit, job.Instant, error) {
	type answer struct {
		now job.Instant
		of  map[string]store.Circuit
	}
	perShard, err := gather(ctx, s, func(ctx context.Context, sh *shard) (a answer, err error) {
		if a.now, err = s.askNow(ctx, sh); err == nil {
			a.of, err = s.circuitsOf(ctx, sh, a.now)
		}
		return a, err
	})
	merged, now := map[string]store.Circuit{}, job.Instant(0)
	for _, a := range perShard {
		now = max(now, a.now)
		for endpoint, c := range a.of {
			m := merged[endpoint]
			merged[endpoint] = store.Circuit{
				OpenUntil: max(c.OpenUntil, m.OpenUntil), HalfOpenUntil: max(c.HalfOpenUntil, m.HalfOpenUntil), RampFrom: max(c.RampFrom, m.RampFrom),
			}
		}
	}
	return merged, now, err
}

// circuitsOf returns the circuits of a shard that are not closed, by endpoint.
func (s *Store) circuitsOf(ctx context.Context, sh *shard, now job.Instant) (map[string]store.Circuit, error) {
	texts, err := s.db.HGetAll(ctx, sh.circuits).Result()
	if err != nil {
		return nil, s.wrap(err)
	}
	circuits := map[string]store.Circuit{}
	for endpoint, text := range texts {
		if circuit := circuitAt(text, now); circuit != (store.Circuit{}) {
			circuits[endpoint] = circuit
		}
	}
	return circuits, nil
}
