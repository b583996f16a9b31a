package redisstore

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store/rules"
)

// Bounds of what purging asks of Redis at once.
const (
	purgeTopics   = 100 // of which the first ended jobs are looked for
	purgeJobs     = 200 // forgotten by one script call
	purgeCircuits = 500 // looked at by one call of Purge
	purgeRounds   = 20  // of a call of Purge, for each shard
	// purgeBytes is how much of registrations is read for their biz_keys, unless one
	// alone is larger.
	purgeBytes = 1 << 20
)

// Purge forgets finished jobs past their retention, and circuits of endpoints that
// stand open.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	purged := 0
	for _, sh := range s.shards {
		err := circuitsScript.Run(ctx, s.db, []string{sh.held}, millis(rules.RampTime), purgeCircuits).Err()
		if err != nil {
			return purged, s.wrap(err)
		}
		for range purgeRounds {
			if purged == limit {
				break
			}
			old, err := s.oldJobs(ctx, sh, limit-purged)
			if err != nil {
				return purged, err
			}
			n, err := s.forgetOld(ctx, sh, old)
			purged += n
			if err != nil {
				return purged, err
			}
			if len(old) == 0 {
				break
			}
		}
	}
	return purged, nil
}

// oldTopic is a topic with ids of jobs that ended longer ago than the retention;
// there may be none any more.
type oldTopic struct {
	name string
	ids  []string
}

// oldJobs finds up to limit jobs to be forgotten, of the topics whose jobs ended first.
func (s *Store) oldJobs(ctx context.Context, sh *shard, limit int) ([]oldTopic, error) {
	now, err := s.serverNow(ctx, sh)
	if err != nil {
		return nil, err
	}
	before := strconv.FormatInt(int64(now.Add(-s.retention))+1, 10)
	upTo := func(key string, n int) redis.ZRangeArgs {
		return redis.ZRangeArgs{Key: key, ByScore: true, Start: "-inf", Stop: before, Count: int64(n)}
	}
	topics, err := s.db.ZRangeArgs(ctx, upTo(sh.ends, min(limit, purgeTopics))).Result()
	if err != nil || len(topics) == 0 {
		return nil, s.wrap(err)
	}
	pipe := s.db.Pipeline()
	ids := make([]*redis.StringSliceCmd, len(topics))
	for i, topic := range topics {
		ids[i] = pipe.ZRangeArgs(ctx, upTo(sh.ended(topic), limit/len(topics)))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, s.wrap(err)
	}
	old := make([]oldTopic, len(topics))
	for i, topic := range topics {
		old[i] = oldTopic{topic, ids[i].Val()}
	}
	return old, nil
}

// forgetOld forgets jobs, and returns how many.
func (s *Store) forgetOld(ctx context.Context, sh *shard, old []oldTopic) (int, error) {
	var jobs []job.Key
	for _, t := range old {
		for _, id := range t.ids {
			jobs = append(jobs, job.Key{Topic: t.name, ID: id})
		}
	}
	biz, err := s.bizKeys(ctx, sh, jobs)
	if err != nil {
		return 0, err
	}
	purged := 0
	for len(old) > 0 {
		keys, names := sh.own(purgeScript), []any{}
		var jobKeys []string
		var jobArgs []any
		for room := purgeJobs; room > 0 && len(old) > 0; {
			t := &old[0]
			some := t.ids[:min(room, len(t.ids))]
			keys, names = append(keys, sh.ended(t.name)), append(names, t.name)
			for i, id := range some {
				jobKeys = append(jobKeys, sh.page(job.Key{Topic: t.name, ID: id}), sh.biz(biz[i]))
				jobArgs = append(jobArgs, len(names), id, biz[i] != "")
			}
			biz = biz[len(some):]
			if t.ids = t.ids[len(some):]; len(t.ids) == 0 {
				old = old[1:]
			}
			room -= max(1, len(some))
		}
		args := append([]any{millis(s.retention), len(names)}, append(names, jobArgs...)...)
		n, err := purgeScript.Run(ctx, s.db, append(keys, jobKeys...), args...).Int()
		if err != nil {
			return purged, s.wrap(err)
		}
		purged += n
	}
	return purged, nil
}

// bizKeys reads the biz_keys of jobs, empty for none, from so many records at once as
// their size allows.
func (s *Store) bizKeys(ctx context.Context, sh *shard, jobs []job.Key) ([]string, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	pipe := s.db.Pipeline()
	sizes := make([]*redis.Cmd, len(jobs))
	for i, key := range jobs {
		sizes[i] = pipe.Do(ctx, "hstrlen", sh.page(key), key.String())
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, s.wrap(err)
	}
	found := make([]string, 0, len(jobs))
	for from := 0; from < len(jobs); {
		to, bytes := from, int64(0)
		for to < len(jobs) && to-from < maxRead {
			size, _ := sizes[to].Val().(int64)
			if bytes += size; bytes > purgeBytes && to > from {
				break
			}
			to++
		}
		records, err := s.records(ctx, sh, jobs[from:to])
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if r == nil {
				found = append(found, "")
			} else {
				found = append(found, r.Spec.BizKey)
			}
		}
		from = to
	}
	return found, nil
}
