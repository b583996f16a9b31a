package redisstore

import (
	"context"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// standingsBatch bounds one reply: a record may hold a body of 256 KiB.
const standingsBatch = 100

// Standings tells how jobs stand.
func (s *Store) Standings(ctx context.Context, keys []job.Key) ([]store.Standing, error) {
	all := make([]store.Standing, len(keys))
	perShard := make([][]int, len(s.shards))
	for i, key := range keys {
		n := s.shardOf(key)
		perShard[n] = append(perShard[n], i)
	}
	for n, indexes := range perShard {
		for len(indexes) > 0 {
			batch := indexes[:min(len(indexes), standingsBatch)]
			indexes = indexes[len(batch):]
			if err := s.standings(ctx, s.shards[n], keys, batch, all); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func (s *Store) standings(ctx context.Context, sh *shard, keys []job.Key, batch []int, all []store.Standing) error {
	some := make([]job.Key, len(batch))
	for n, i := range batch {
		some[n] = keys[i]
	}
	records, err := s.records(ctx, sh, some)
	if err != nil {
		return err
	}
	for n, i := range batch {
		if r := records[n]; r != nil {
			all[i] = store.StandingOf(&r.Job)
		}
	}
	return nil
}

// SwapMarks leaves a text in each shard and gives those before. Each shard is
// asked at once what it had, so that what it loses meanwhile is not hidden. A
// server that was started since, or has taken over, may lack what came after the
// text before, so it gives none.
func (s *Store) SwapMarks(ctx context.Context, mark string) ([]string, error) {
	before := make([]string, len(s.shards))
	for i, sh := range s.shards {
		had, err := swapScript.Run(ctx, s.db, []string{sh.swept}, mark).Text()
		if err != nil {
			return nil, s.wrap(err)
		}
		before[i] = had
	}
	return before, nil
}
