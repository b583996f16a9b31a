package redisstore

import (
	"context"
	"errors"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Standings returns the standing of each job.
func (s *Store) Standings(ctx context.Context, keys []job.Key) ([]store.Standing, error) {
	all := make([]store.Standing, len(keys))
	home := func(i int) int { return s.shardOf(keys[i]) }
	err := s.toShards(ctx, len(keys), home, func(ctx context.Context, sh *shard, items []int) ([]int, error) {
		some := make([]job.Key, min(len(items), maxRead))
		for n := range some {
			some[n] = keys[items[n]]
		}
		records, err := s.someRecords(ctx, sh, some)
		if err == nil {
			err = s.followAll(ctx, some, records)
		}
		for n, r := range records {
			if r != nil {
				all[items[n]] = store.StandingOf(&r.Job)
			}
		}
		return items[len(records):], err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// SwapEpoch stores an epoch in each shard and returns the ones before. A server that was
// restarted or has taken over since may lack later data, so it returns none.
func (s *Store) SwapEpoch(ctx context.Context, epoch, whole string) ([]string, error) {
	return gather(ctx, s, func(ctx context.Context, sh *shard) (string, error) {
		had, err := swapScript.Run(ctx, s.db, []string{sh.epoch, sh.whole}, epoch, whole).Text()
		return had, s.wrap(err)
	})
}

// followAll reads the records, missing at their homes, to which forwards may lead.
func (s *Store) followAll(ctx context.Context, keys []job.Key, records []*record) error {
	if len(s.shards) == 1 {
		return nil
	}
	for i, r := range records {
		if r != nil {
			continue
		}
		_, r, err := s.find(ctx, keys[i])
		switch {
		case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrUnreadable):
		case err != nil:
			return err
		default:
			records[i] = r
		}
	}
	return nil
}
