package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The epoch of resharded jobs. Without it, the nodes would compare all jobs with the ledger
// first, and jobs with order keys would wait for that.

// copyEpoch gives new shards the epoch of the old ones if those lack no job. A shard
// that loses jobs later loses the epoch, too. Otherwise no shard is whole: it may get jobs
// whose predecessors are missing.
func (m *mover) copyEpoch(ctx context.Context) (err error) {
	if !m.report.Resumed { // otherwise jobs that were moved may be lost
		if m.epoch, err = m.from.wholeEpoch(ctx); err != nil {
			return err
		}
	}
	if m.epoch == "" {
		return m.forgetEpoch(ctx)
	}
	_, err = m.to.SwapEpoch(ctx, m.epoch, m.epoch)
	return err
}

func (m *mover) forgetEpoch(ctx context.Context) error {
	_, err := m.to.SwapEpoch(ctx, rand.Text(), "")
	return err
}

// confirmEpoch marks the new shards as whole: all jobs of whole shards are there.
func (m *mover) confirmEpoch(ctx context.Context) error {
	if m.epoch == "" {
		return nil
	}
	before, err := m.to.SwapEpoch(ctx, m.epoch, m.epoch)
	lost := slices.ContainsFunc(before, func(had string) bool { return had != m.epoch })
	if err == nil && (lost || m.report.After != m.report.Before) {
		return m.forgetEpoch(ctx)
	}
	return err
}

// wholeEpoch returns the epoch of all shards, or an empty text if one may lack a job.
func (s *Store) wholeEpoch(ctx context.Context) (epoch string, err error) {
	for i, sh := range s.shards {
		whole, err := s.isWhole(ctx, sh)
		if err != nil || !whole {
			return "", err
		}
		text, err := s.db.Get(ctx, sh.epoch).Result()
		if errors.Is(err, redis.Nil) {
			return "", nil
		}
		if err != nil {
			return "", s.wrap(err)
		}
		its, run, _ := strings.Cut(text, " ")
		marked, err := s.db.Get(ctx, sh.whole).Result()
		switch {
		case err != nil && !errors.Is(err, redis.Nil):
			return "", s.wrap(err)
		case marked != run, i > 0 && its != epoch:
			return "", nil
		}
		epoch = its
	}
	return epoch, nil
}
