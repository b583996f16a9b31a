package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Get reads one job.
func (s *Store) Get(ctx context.Context, key job.Key) (job.Job, error) {
	sh := s.shards[s.shardOf(key)]
	r, err := s.load(ctx, sh, key)
	if err != nil {
		return job.Job{}, err
	}
	if err := s.refine(ctx, sh, r); err != nil {
		return job.Job{}, err
	}
	return s.whole(r), nil
}

// whole is the job with its last attempt, without if the log cannot be read.
func (s *Store) whole(r *record) job.Job {
	j, err := r.whole()
	if err != nil {
		s.log.Error("a job's log cannot be read", "error", err)
	}
	return j
}

// Attempts reads a job's log.
func (s *Store) Attempts(ctx context.Context, key job.Key) ([]job.Attempt, error) {
	r, err := s.load(ctx, s.shards[s.shardOf(key)], key)
	if err != nil {
		return nil, err
	}
	return r.attempts()
}

func (s *Store) load(ctx context.Context, sh *shard, key job.Key) (*record, error) {
	values, err := s.db.HMGet(ctx, sh.page(key), fieldsOf(key)...).Result()
	if err != nil {
		return nil, s.wrap(err)
	}
	w, err := rawOf(values)
	if err != nil {
		return nil, err
	}
	if w.missing() {
		return nil, store.ErrNotFound
	}
	return decodeRecord(key, w)
}

// records reads several records of a shard at once; nil for those that are
// missing or cannot be read: the others must not suffer for those.
func (s *Store) records(ctx context.Context, sh *shard, keys []job.Key) ([]*record, error) {
	pipe := s.db.Pipeline()
	values := make([]*redis.SliceCmd, len(keys))
	for i, key := range keys {
		values[i] = pipe.HMGet(ctx, sh.page(key), fieldsOf(key)...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	out := make([]*record, len(keys))
	for i, key := range keys {
		if err := values[i].Err(); err != nil {
			return nil, s.wrap(err)
		}
		w, err := rawOf(values[i].Val())
		if err != nil {
			return nil, err
		}
		if w.missing() {
			continue
		}
		if out[i], err = decodeRecord(key, w); err != nil {
			s.log.Error("a job's record cannot be read", "error", err)
		}
	}
	return out, nil
}

func isNil(err error) bool { return errors.Is(err, redis.Nil) }

// countsOf reads a shard's counts by topic and state.
func (s *Store) countsOf(ctx context.Context, sh *shard) (map[string]map[job.State]int64, error) {
	fields, err := s.db.HGetAll(ctx, sh.counts).Result()
	if err != nil {
		return nil, s.wrap(err)
	}
	topics := make(map[string]map[job.State]int64)
	for field, value := range fields {
		topic, code, _ := strings.Cut(field, "|")
		state, err := strconv.ParseUint(code, 10, 8)
		n, err2 := strconv.ParseInt(value, 10, 64)
		if err != nil || err2 != nil {
			s.log.Error("the counts hold something that is no count", "field", field)
			continue
		}
		if topics[topic] == nil {
			topics[topic] = make(map[job.State]int64)
		}
		topics[topic][job.State(state)] = n
	}
	return topics, nil
}

// Topics lists the topics of all shards.
func (s *Store) Topics(ctx context.Context) ([]store.TopicStats, error) {
	all := make(map[string]map[job.State]int64)
	for _, sh := range s.shards {
		topics, err := s.countsOf(ctx, sh)
		if err != nil {
			return nil, err
		}
		for topic, states := range topics {
			if all[topic] == nil {
				all[topic] = make(map[job.State]int64)
			}
			for state, n := range states {
				all[topic][state] += n
			}
		}
	}
	out := make([]store.TopicStats, 0, len(all))
	for _, topic := range slices.Sorted(maps.Keys(all)) {
		out = append(out, store.TopicStats{Topic: topic, States: all[topic]})
	}
	return out, nil
}

// Topic gives one topic, its unfinished jobs counted by time to due.
func (s *Store) Topic(ctx context.Context, topic string) (store.TopicStats, error) {
	t := store.TopicStats{
		Topic: topic, States: make(map[job.State]int64), DueIn: make([]int64, len(store.DueRanges)),
	}
	for _, sh := range s.shards {
		fields := make([]string, len(job.States))
		for i, state := range job.States {
			fields[i] = topic + "|" + strconv.Itoa(int(state))
		}
		values, err := s.db.HMGet(ctx, sh.counts, fields...).Result()
		if err != nil {
			return t, s.wrap(err)
		}
		if len(values) != len(fields) {
			return t, fmt.Errorf("redisstore: %d values for %d counts", len(values), len(fields))
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
			t.States[job.States[i]] += n
		}
		if err := s.addDueIn(ctx, sh, topic, t.DueIn); err != nil {
			return t, err
		}
	}
	if len(t.States) == 0 {
		return t, store.ErrNotFound
	}
	return t, nil
}

func (s *Store) addDueIn(ctx context.Context, sh *shard, topic string, dueIn []int64) error {
	lanes, err := s.lanes(ctx, sh)
	if err != nil {
		return err
	}
	lanes = slices.DeleteFunc(lanes, func(l string) bool { return !strings.HasPrefix(l, topic+"|") })
	if len(lanes) == 0 {
		return nil
	}
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
	d := store.Depth{States: make(map[job.State]int64)}
	for _, sh := range s.shards {
		topics, err := s.countsOf(ctx, sh)
		if err != nil {
			return d, err
		}
		for _, states := range topics {
			for state, n := range states {
				d.States[state] += n
			}
		}
		pipe := s.db.Pipeline()
		ready := pipe.LLen(ctx, sh.ready)
		gates := pipe.HVals(ctx, sh.held)
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
		d.Held = max(d.Held, heldAt(gates.Val(), now))
	}
	return d, nil
}

// heldAt counts the gates of endpoints that are held at now.
func heldAt(gates []string, now job.Instant) (n int64) {
	for _, gate := range gates {
		till, _, holds := strings.Cut(gate, " ")
		if ms, err := strconv.ParseInt(till, 10, 64); holds && err == nil && job.Instant(ms) > now {
			n++
		}
	}
	return n
}
