package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/store"
)

// takenKeys are the keys of a shard that a registration may write, and takenTypes their types.
const (
	takenKeys  = "lanes counts circuits topics tokens places ranks index busy heads turns calls lasts ready"
	takenTypes = "zset hash hash hash hash zset zset zset zset hash zset zset hash list"
)

// Takes returns why a registration would not be stored: Redis is full, its disk is, it follows another server, or another
// program has written a key of duehook.
func (s *Store) Takes(ctx context.Context) error {
	types := strings.Fields(takenTypes)
	for range pages {
		types = append(types, "hash")
	}
	for _, sh := range s.shards {
		keys := append(slices.Clone(sh.own[takesScript]), sh.jobs[:]...)
		wrong, err := takesScript.Run(ctx, s.db, keys, types).StringSlice()
		if err != nil {
			return s.wrap(err)
		}
		if len(wrong) == 2 {
			return fmt.Errorf("%w: the key %s of Redis is a %s of another program: remove it", store.ErrUnavailable, wrong[0], wrong[1])
		}
	}
	return nil
}

// policyEvery is how often the memory policy of Redis is looked at, in reads of the layout.
const policyEvery = 12

// lookAgain warns if a server has begun to evict since it was checked.
func (i *inspector) lookAgain(ctx context.Context, db redis.UniversalClient) {
	look := func(ctx context.Context, c *redis.Client) error {
		facts, err := c.InfoMap(ctx, "server", "memory").Result()
		if err == nil {
			i.policy(facts["Server"]["run_id"], facts["Memory"]["maxmemory_policy"], i.log.With("redis", c.Options().Addr))
		}
		return nil // the next look tries again
	}
	switch c := db.(type) {
	case *redis.ClusterClient:
		_ = c.ForEachMaster(ctx, look)
	case *redis.Client:
		_ = look(ctx, c)
	}
}
