package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// DeadGroups pages through the groups of dead letters.
func (s *Store) DeadGroups(ctx context.Context, topic string, limit int, cursor string) (store.DeadPage, error) {
	names := func(ctx context.Context, from string, n int) ([]string, error) {
		return s.merged(ctx, n, func(ctx context.Context, sh *shard) ([]string, error) {
			return s.names(ctx, sh.deadsOf(topic).from(from), n)
		})
	}
	return listing.DeadGroups(ctx, topic, limit, cursor, names, s.deadGroups)
}

// deadGroups reads groups, which may have parts on several shards.
func (s *Store) deadGroups(ctx context.Context, names []string) ([]store.DeadGroup, error) {
	perShard, err := gather(ctx, s, func(ctx context.Context, sh *shard) ([]store.DeadGroup, error) { return s.deadParts(ctx, sh, names) })
	groups := make([]store.DeadGroup, len(names))
	for _, parts := range perShard {
		for i, part := range parts {
			g := &groups[i]
			if part.Count > 0 && (g.Count == 0 || part.Oldest < g.Oldest) {
				g.Oldest = part.Oldest
			}
			g.Count, g.Newest = g.Count+part.Count, max(g.Newest, part.Newest)
		}
	}
	return groups, err
}

// deadParts reads the parts of groups in one shard.
func (s *Store) deadParts(ctx context.Context, sh *shard, names []string) ([]store.DeadGroup, error) {
	if len(names) == 0 {
		return nil, nil
	}
	pipe := s.db.Pipeline()
	counts := make([]*redis.IntCmd, len(names))
	oldest, newest := make([]*redis.ZSliceCmd, len(names)), make([]*redis.ZSliceCmd, len(names))
	for i, name := range names {
		key := sh.dead(name)
		counts[i] = pipe.ZCard(ctx, key)
		oldest[i], newest[i] = pipe.ZRangeWithScores(ctx, key, 0, 0), pipe.ZRangeWithScores(ctx, key, -1, -1)
	}
	if err := s.exec(ctx, pipe); err != nil {
		return nil, err
	}
	parts := make([]store.DeadGroup, len(names))
	for i := range parts {
		if first, last := oldest[i].Val(), newest[i].Val(); len(first) > 0 && len(last) > 0 {
			_, from := place(first[0].Score)
			_, to := place(last[0].Score)
			parts[i] = store.DeadGroup{Count: counts[i].Val(), Oldest: from, Newest: to}
		}
	}
	return parts, nil
}
