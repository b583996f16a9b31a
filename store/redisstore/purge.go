package redisstore

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Purge forgets finished jobs past their retention, and gates of endpoints that
// stand open.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	purged := 0
	for _, sh := range s.shards {
		if err := gatesScript.Run(ctx, s.db, []string{sh.held}, millis(store.RampTime)).Err(); err != nil {
			return purged, s.wrap(err)
		}
		topics, err := s.countsOf(ctx, sh)
		if err != nil {
			return purged, err
		}
		for topic, states := range topics {
			if states[job.Delivered]+states[job.Cancelled]+states[job.Expired] == 0 {
				continue
			}
			for purged < limit {
				n, err := s.purgeTopic(ctx, sh, topic, min(limit-purged, maxRead))
				purged += n
				if err != nil {
					return purged, err
				}
				if n == 0 {
					break
				}
			}
		}
	}
	return purged, nil
}

func (s *Store) purgeTopic(ctx context.Context, sh *shard, topic string, limit int) (int, error) {
	now, err := s.serverNow(ctx, sh)
	if err != nil {
		return 0, err
	}
	ended := sh.ended(topic)
	ids, err := s.db.ZRangeArgs(ctx, redis.ZRangeArgs{
		Key: ended, ByScore: true, Start: "-inf", Stop: strconv.FormatInt(int64(now.Add(-s.retention))+1, 10), Count: int64(limit),
	}).Result()
	if err != nil || len(ids) == 0 {
		return 0, s.wrap(err)
	}
	jobs := make([]job.Key, len(ids))
	for i, id := range ids {
		jobs[i] = job.Key{Topic: topic, ID: id}
	}
	records, err := s.records(ctx, sh, jobs)
	if err != nil {
		return 0, err
	}
	keys := []string{sh.counts, ended}
	args := []any{millis(s.retention), topic}
	for i, key := range jobs {
		biz := ""
		if records[i] != nil {
			biz = records[i].Spec.BizKey
		}
		keys = append(keys, sh.page(key), sh.biz(biz))
		args = append(args, key.ID, biz != "")
	}
	n, err := purgeScript.Run(ctx, s.db, keys, args...).Int()
	return n, s.wrap(err)
}
