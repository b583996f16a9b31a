package redisstore

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// lanesAtOnce is how many lanes one script call visits.
const lanesAtOnce = 64

// Carry looks at the earliest lanes and, if one is due, carries from those due.
// An idle shard costs one command.
func (s *Store) Carry(ctx context.Context, n int, o store.CarryOptions) (store.CarryResult, error) {
	sh := s.shards[n]
	lanes, err := s.db.ZRangeWithScores(ctx, sh.lanes, 0, lanesAtOnce-1).Result()
	if err != nil {
		return store.CarryResult{}, s.wrap(err)
	}
	if len(lanes) == 0 {
		return store.CarryResult{Wait: -1}, nil
	}
	now, err := s.serverNow(ctx, sh)
	if err != nil {
		return store.CarryResult{}, err
	}
	if by := sh.clock.wentBack(); by > 0 {
		// The lanes are read anew in the next round.
		return store.CarryResult{}, s.afterStep(ctx, sh, by, o)
	}
	if wait := job.Instant(lanes[0].Score).Sub(now); wait > 0 {
		return store.CarryResult{Wait: wait}, nil
	}
	later := slices.IndexFunc(lanes, func(l redis.Z) bool { return job.Instant(l.Score) > now })
	if later >= 0 {
		lanes = lanes[:later]
	}
	// Lanes of one endpoint take its last places in turn.
	rand.Shuffle(len(lanes), func(i, j int) { lanes[i], lanes[j] = lanes[j], lanes[i] }) //nolint:gosec // no secret
	names := make([]string, len(lanes))
	for i, l := range lanes {
		names[i], _ = l.Member.(string)
	}
	return s.carryFrom(ctx, n, now, names, o)
}

// serverNow is the server's time: estimated, or asked for when there is no
// fresh estimate.
func (s *Store) serverNow(ctx context.Context, sh *shard) (job.Instant, error) {
	if now, ok := sh.clock.now(); ok {
		return now, nil
	}
	return s.askNow(ctx, sh)
}

// askNow asks the server for its time.
func (s *Store) askNow(ctx context.Context, sh *shard) (job.Instant, error) {
	// By a script with a key of the shard: in a Cluster a bare TIME may ask
	// any node.
	reply, err := s.eval(ctx, readScript, []string{sh.lock}, []any{0, wholeRecords})
	if err != nil {
		return 0, err
	}
	return sh.clock.observe(reply[0]), nil
}

// Wakeups listens for the scripts' word that an earlier job arrived.
func (s *Store) Wakeups(ctx context.Context, wake func(shard int)) error {
	channels := make(map[string]int, len(s.shards))
	names := make([]string, 0, len(s.shards))
	for i, sh := range s.shards {
		channels[sh.wake] = i
		names = append(names, sh.wake)
	}
	// What came before the subscription may have been missed.
	return s.subscribe(ctx, names, func(channel string, _ *redis.Message) { wake(channels[channel]) })
}

func isTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}
