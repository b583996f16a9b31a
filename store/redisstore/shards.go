package redisstore

import (
	"context"

	batches "github.com/duehook/duehook/internal/kit/batch"
)

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
	return batches.Each(ctx, len(shards), func(ctx context.Context, i int) (err error) {
		for left := items[shards[i]]; len(left) > 0; {
			if left, err = send(ctx, s.shards[shards[i]], left); err != nil {
				return err
			}
		}
		return nil
	})
}
