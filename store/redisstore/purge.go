package redisstore

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Bounds of one call of Purge.
const (
	purgeTopics   = 100 // whose first ended jobs are read
	purgeCircuits = 500 // examined by one call of Purge
	purgeRounds   = 20  // of a call of Purge, for each shard
)

// Purge deletes ended jobs past their retention, and circuits that have closed.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	purged := 0
	for _, sh := range s.shards {
		if err := s.forgetCircuits(ctx, sh); err != nil {
			return purged, err
		}
		for range purgeRounds {
			if purged == limit {
				break
			}
			old, err := s.oldJobs(ctx, sh, limit-purged)
			if err != nil {
				return purged, err
			}
			if len(old) == 0 {
				break
			}
			n, err := s.forgetOld(ctx, sh, old)
			purged += n
			if err != nil {
				return purged, err
			}
		}
	}
	return purged, nil
}

// oldJobs finds up to limit jobs that ended longer ago than the retention, of the topics
// whose jobs ended first.
func (s *Store) oldJobs(ctx context.Context, sh *shard, limit int) ([]job.Key, error) {
	now, err := s.askNow(ctx, sh)
	if err != nil {
		return nil, err
	}
	before := strconv.FormatInt(int64(now.Add(-s.retention))+1, 10)
	upTo := func(key string, n int) redis.ZRangeArgs {
		return redis.ZRangeArgs{Key: key, ByScore: true, Start: "-inf", Stop: "(" + before, Count: int64(n)}
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
	if err := s.exec(ctx, pipe); err != nil {
		return nil, err
	}
	var old []job.Key
	for i, topic := range topics {
		for _, id := range ids[i].Val() {
			old = append(old, job.Key{Topic: topic, ID: id})
		}
	}
	return old, nil
}

// forgetOld deletes ended jobs that need not be kept, and returns their number.
func (s *Store) forgetOld(ctx context.Context, sh *shard, old []job.Key) (purged int, err error) {
	for len(old) > 0 {
		raws, now, err := s.readRaw(ctx, sh, old[:min(len(old), maxBatch)], store.BatchBytes, wholeRecords)
		if err != nil {
			return purged, err
		}
		changes := make([]change, 0, len(raws))
		forwards, forgotten := map[job.Key]gone{}, []gone(nil)
		for i, w := range raws {
			c := change{key: old[i], was: w, from: position{lane: job.Lane{Topic: old[i].Topic}, state: int(job.Delivered)}}
			if r, err := decodeRecord(old[i], w); err == nil {
				if r.MustKeep(now) {
					continue
				}
				at := r.position()
				c.from.names, c.from.uid, c.from.turn = at.names, at.uid, at.turn
				forwards[old[i]] = gone{key: old[i], uid: r.UID, orderKey: r.Spec.OrderKey}
			}
			changes = append(changes, c.forgetting())
		}
		if old = old[len(raws):]; len(changes) == 0 {
			continue
		}
		done, err := s.change(ctx, s.run, changeScript, sh, false, changes)
		if err != nil {
			return purged, err
		}
		for i, w := range done {
			switch w {
			case stored:
				purged++
				if g, is := forwards[changes[i].key]; is {
					forgotten = append(forgotten, g)
				}
			case left:
				old = append(old, changes[i].key)
			}
		}
		s.unforward(ctx, forgotten)
	}
	return purged, nil
}
