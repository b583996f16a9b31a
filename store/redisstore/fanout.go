package redisstore

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// shardsAtOnce bounds the shards that one call asks at a time.
const shardsAtOnce = 16

// fanOut runs do for 0 to n-1, at most shardsAtOnce at a time. The first error cancels the
// others and is returned after all have ended.
func fanOut(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	if n == 1 {
		return do(ctx, 0)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(shardsAtOnce)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// gather asks every shard and returns the answers in the order of shards.
func gather[T any](ctx context.Context, s *Store, ask func(ctx context.Context, sh *shard) (T, error)) ([]T, error) {
	all := make([]T, len(s.shards))
	err := fanOut(ctx, len(s.shards), func(ctx context.Context, i int) (err error) {
		all[i], err = ask(ctx, s.shards[i])
		return err
	})
	return all, err
}

// toShards sends n items to their shards, in batches. send gets the numbers of a shard's
// items and returns those that need another call.
func (s *Store) toShards(ctx context.Context, n int, shardOf func(i int) int, send func(ctx context.Context, sh *shard, items []int) (left []int, err error)) error {
	items := make([][]int, len(s.shards))
	var shards []int // with items
	for i := range n {
		shard := shardOf(i)
		if items[shard] == nil {
			shards = append(shards, shard)
		}
		items[shard] = append(items[shard], i)
	}
	return fanOut(ctx, len(shards), func(ctx context.Context, i int) (err error) {
		for left := items[shards[i]]; len(left) > 0; {
			if left, err = send(ctx, s.shards[shards[i]], left); err != nil {
				return err
			}
		}
		return nil
	})
}
