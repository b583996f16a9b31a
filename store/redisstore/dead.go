package redisstore

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// DeadGroups pages through the groups of dead letters. A group may have parts on
// several shards.
func (s *Store) DeadGroups(ctx context.Context, topic string, limit int, cursor string) (store.DeadPage, error) {
	after, err := listing.ParseDeadCursor(topic, cursor)
	if err != nil {
		return store.DeadPage{}, err
	}
	var names []string
	for _, sh := range s.shards {
		more, err := s.deadNames(ctx, sh, topic, after, limit+1)
		if err != nil {
			return store.DeadPage{}, err
		}
		names = append(names, more...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	var page store.DeadPage
	if len(names) > limit {
		names = names[:limit]
		page.Next = listing.DeadCursor(names[limit-1])
	}
	groups := make([]store.DeadGroup, len(names))
	for i, name := range names {
		if groups[i].Lane, groups[i].Reason, err = listing.ParseDeadName(name); err != nil {
			return store.DeadPage{}, err
		}
	}
	for _, sh := range s.shards {
		if err := s.addDead(ctx, sh, names, groups); err != nil {
			return store.DeadPage{}, err
		}
	}
	page.Groups = slices.DeleteFunc(groups, func(g store.DeadGroup) bool { return g.Count == 0 }) // emptied meanwhile
	return page, nil
}

// deadNames are the names of the first n groups of a shard behind a name.
func (s *Store) deadNames(ctx context.Context, sh *shard, topic, after string, n int) ([]string, error) {
	from, to := "-", "+"
	if topic != "" {
		from, to = "["+job.LanePrefix(topic), "("+topic+"}" // the sign behind the bar
	}
	if after != "" {
		from = "(" + after
	}
	names, err := s.db.ZRangeArgs(ctx, redis.ZRangeArgs{
		Key: sh.deads, ByLex: true, Start: from, Stop: to, Count: int64(n),
	}).Result()
	return names, s.wrap(err)
}

// addDead adds what a shard holds of groups.
func (s *Store) addDead(ctx context.Context, sh *shard, names []string, groups []store.DeadGroup) error {
	if len(names) == 0 {
		return nil
	}
	pipe := s.db.Pipeline()
	counts := make([]*redis.IntCmd, len(names))
	oldest, newest := make([]*redis.ZSliceCmd, len(names)), make([]*redis.ZSliceCmd, len(names))
	for i, name := range names {
		key := sh.dead(name)
		counts[i] = pipe.ZCard(ctx, key)
		oldest[i], newest[i] = pipe.ZRangeWithScores(ctx, key, 0, 0), pipe.ZRangeWithScores(ctx, key, -1, -1)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return s.wrap(err)
	}
	for i := range groups {
		g := &groups[i]
		g.Count += counts[i].Val()
		if first := oldest[i].Val(); len(first) > 0 {
			if _, at := place(first[0].Score); g.Oldest == 0 || at < g.Oldest {
				g.Oldest = at
			}
		}
		if last := newest[i].Val(); len(last) > 0 {
			_, at := place(last[0].Score)
			g.Newest = max(g.Newest, at)
		}
	}
	return nil
}
