package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// What counts are of, in front of the bar and the state.
const (
	ofAll      = ""
	ofEndpoint = "=" // followed by its name
)

// countsAtOnce is of how many topics or endpoints one command reads the counts.
const countsAtOnce = 100

// counts reads how many jobs there are by state, over all shards: of topics, of
// endpoints behind ofEndpoint, or ofAll.
func (s *Store) counts(ctx context.Context, of []string) ([]map[job.State]int64, error) {
	sums := make([]map[job.State]int64, len(of))
	for i := range sums {
		sums[i] = make(map[job.State]int64)
	}
	for _, sh := range s.shards {
		for from := 0; from < len(of); from += countsAtOnce {
			to := min(from+countsAtOnce, len(of))
			if err := s.addCounts(ctx, sh, of[from:to], sums[from:to]); err != nil {
				return nil, err
			}
		}
	}
	return sums, nil
}

func (s *Store) addCounts(ctx context.Context, sh *shard, of []string, sums []map[job.State]int64) error {
	fields := make([]string, 0, len(of)*len(job.States))
	for _, name := range of {
		for _, state := range job.States {
			fields = append(fields, name+"|"+strconv.Itoa(int(state)))
		}
	}
	values, err := s.db.HMGet(ctx, sh.counts, fields...).Result()
	if err != nil {
		return s.wrap(err)
	}
	if len(values) != len(fields) {
		return fmt.Errorf("redisstore: %d values for %d counts", len(values), len(fields))
	}
	for i, v := range values {
		text, ok := v.(string)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			s.log.Error("the counts hold something that is no count", "field", fields[i])
			continue
		}
		sums[i/len(job.States)][job.States[i%len(job.States)]] += n
	}
	return nil
}

// Topics pages through topics.
func (s *Store) Topics(ctx context.Context, q store.TopicQuery) (store.TopicPage, error) {
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

// manyJobs is from how many jobs of a topic that wait in one state it stands in busy.
const manyJobs = 16

// Busiest looks at that many topics of each shard for the busiest: those of which many
// jobs wait, and the first by name, since few topics may have many.
const (
	busyCandidates  = 100
	namedCandidates = 100
)

// Busiest gives the topics with the most unfinished jobs. Most of a topic's jobs wait,
// and are spread evenly, so one that is among the first of all is so in some shard.
func (s *Store) Busiest(ctx context.Context, n int) ([]store.BusyTopic, error) {
	names, err := s.nextTopics(ctx, "", namedCandidates)
	if err != nil {
		return nil, err
	}
	for _, sh := range s.shards {
		fields, err := s.db.ZRevRange(ctx, sh.busy, 0, busyCandidates-1).Result()
		if err != nil {
			return nil, s.wrap(err)
		}
		for _, field := range fields {
			topic, _, _ := strings.Cut(field, "|")
			names = append(names, topic)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	counts, err := s.counts(ctx, names)
	if err != nil {
		return nil, err
	}
	var busy []store.BusyTopic
	for i := range counts {
		t := store.TopicStats{Topic: names[i], States: counts[i]}
		if sum := t.Unfinished(); sum > 0 {
			busy = append(busy, store.BusyTopic{Topic: t.Topic, Unfinished: sum})
		}
	}
	slices.SortStableFunc(busy, func(a, b store.BusyTopic) int { return cmp.Compare(b.Unfinished, a.Unfinished) })
	return busy[:min(n, len(busy))], nil
}

// Topic gives one topic, its unfinished jobs counted by time to due.
func (s *Store) Topic(ctx context.Context, topic string) (store.TopicStats, error) {
	t := store.TopicStats{Topic: topic, DueIn: make([]int64, len(store.DueRanges))}
	if topic == ofAll {
		return t, store.ErrNotFound
	}
	counts, err := s.counts(ctx, []string{topic})
	if err != nil {
		return t, err
	}
	if t.States = counts[0]; len(t.States) == 0 {
		return t, store.ErrNotFound
	}
	for _, sh := range s.shards {
		lanes, more, err := s.allNames(ctx, sh.lanesOf(topic), store.MaxLanes)
		if err != nil {
			return t, err
		}
		t.DuePartial = t.DuePartial || more
		for some := range slices.Chunk(lanes, countsAtOnce) {
			if err := s.addDueIn(ctx, sh, some, t.DueIn); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

func (s *Store) addDueIn(ctx context.Context, sh *shard, lanes []string, dueIn []int64) error {
	now, err := s.serverNow(ctx, sh)
	if err != nil {
		return err
	}
	pipe := s.db.Pipeline()
	var counts []*redis.IntCmd
	for _, lane := range lanes {
		// What is out sorts below zero, and so into the first range.
		from := "-inf"
		for _, r := range store.DueRanges {
			to := "+inf"
			if r.Below != 0 {
				to = strconv.FormatInt(int64(now.Add(r.Below)), 10)
			}
			upTo := to
			if r.Below != 0 {
				upTo = "(" + to
			}
			counts = append(counts, pipe.ZCount(ctx, sh.bucket(lane), from, upTo))
			from = to
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return s.wrap(err)
	}
	for i, c := range counts {
		dueIn[i%len(dueIn)] += c.Val()
	}
	return nil
}

// Depth sums all shards up.
func (s *Store) Depth(ctx context.Context) (store.Depth, error) {
	counts, err := s.counts(ctx, []string{ofAll})
	if err != nil {
		return store.Depth{}, err
	}
	d := store.Depth{States: counts[0]}
	for _, sh := range s.shards {
		pipe := s.db.Pipeline()
		ready := pipe.LLen(ctx, sh.ready)
		circuits := pipe.HVals(ctx, sh.held)
		head := pipe.ZRangeWithScores(ctx, sh.lanes, 0, 0)
		if _, err := pipe.Exec(ctx); err != nil {
			return d, s.wrap(err)
		}
		d.ReadyList += ready.Val()
		if len(head.Val()) > 0 {
			if due := job.Instant(head.Val()[0].Score); d.OldestDue == 0 || due < d.OldestDue {
				d.OldestDue = due
			}
		}
		now, err := s.serverNow(ctx, sh)
		if err != nil {
			return d, err
		}
		d.Now = max(d.Now, now)
		d.Held = max(d.Held, heldAt(circuits.Val(), now))
	}
	return d, nil
}
