package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
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
	names := make([]any, len(lanes))
	for i, l := range lanes {
		names[i] = l.Member
	}
	return s.carryFrom(ctx, sh, names, o)
}

// maxAsks is how often the script may answer that lanes are missing. What it is
// told of then may have rivals, too.
const maxAsks = 2

// carryFrom carries from lanes that are due, and from those that go before them.
func (s *Store) carryFrom(ctx context.Context, sh *shard, lanes []any, o store.CarryOptions) (store.CarryResult, error) {
	for asks := 0; ; asks++ {
		keys := []string{sh.lanes, sh.counts, sh.out, sh.held, sh.ready, sh.topics, sh.tokens, sh.places, sh.ranks, sh.index, sh.busy}
		args := []any{
			o.Cap, maxBatch, millis(o.Visibility), rules.EqualShare(o.EndpointLimit, len(s.shards)), rules.EqualShare(o.HalfOpenLimit, len(s.shards)), asks < maxAsks,
		}
		for _, l := range lanes {
			lane, _ := l.(string)
			topic, _, _ := strings.Cut(lane, "|")
			keys = append(keys, sh.bucket(lane))
			args = append(args, lane, rules.EqualShare(o.TopicLimits[topic], len(s.shards)))
		}
		reply, err := s.eval(ctx, carryScript, keys, args)
		if err != nil {
			return store.CarryResult{}, err
		}
		if len(reply) <= 3 || reply[2] != int64(2) || asks == maxAsks {
			return sh.carried(reply)
		}
		lanes = append(lanes, reply[3:]...)
	}
}

func (sh *shard) carried(reply []any) (store.CarryResult, error) {
	if len(reply) < 3 || len(reply)%2 == 0 {
		return store.CarryResult{}, fmt.Errorf("redisstore: carry answered %d values", len(reply))
	}
	now := sh.clock.observe(reply[0])
	head, _ := reply[1].(int64)
	full, _ := reply[2].(int64)
	r := store.CarryResult{Wait: -1, Full: full == 1, Carried: make([]store.Carried, 0, len(reply)/2-1)}
	if head >= 0 {
		r.Wait = max(0, job.Instant(head).Sub(now))
	}
	for i := 3; i < len(reply); i += 2 {
		raw, _ := reply[i].(string)
		state, _ := reply[i+1].(int64)
		hint, err := parseHint(raw)
		if err != nil {
			return r, fmt.Errorf("redisstore: carry answered %q: %w", raw, err)
		}
		r.Carried = append(r.Carried, store.Carried{Hint: hint, From: job.State(state)})
	}
	return r, nil
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
	reply, err := s.eval(ctx, readScript, []string{sh.lock}, []any{0, false})
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

// OpenCircuit keeps an endpoint from being carried. When that ends an earlier hold,
// lanes that were put off to its end are called back.
func (s *Store) OpenCircuit(ctx context.Context, endpoint string, d time.Duration) error {
	for _, sh := range s.shards {
		err := holdScript.Run(ctx, s.db, []string{sh.held}, endpoint, millis(max(d, 0)), millis(rules.HalfOpenTime(d))).Err()
		if err != nil {
			return s.wrap(err)
		}
		if d > 0 {
			continue
		}
		if err := s.callBack(ctx, sh, endpoint); err != nil {
			return err
		}
	}
	return nil
}

// CloseCircuit lets an endpoint be carried again, at first with restraint. Its lanes may have been put off to
// the hold's end, so they are called back.
func (s *Store) CloseCircuit(ctx context.Context, endpoint string) error {
	for _, sh := range s.shards {
		if err := unholdScript.Run(ctx, s.db, []string{sh.held}, endpoint).Err(); err != nil {
			return s.wrap(err)
		}
		if err := s.callBack(ctx, sh, endpoint); err != nil {
			return err
		}
	}
	return nil
}

// callBack has the endpoint's lanes looked at now.
func (s *Store) callBack(ctx context.Context, sh *shard, endpoint string) error {
	return s.callLanes(ctx, sh, sh.lanesAt(endpoint, ""))
}

// callLanes has lanes looked at that may have been put off.
func (s *Store) callLanes(ctx context.Context, sh *shard, of section) error {
	for {
		lanes, err := s.names(ctx, of, maxBatch)
		if err != nil || len(lanes) == 0 {
			return err
		}
		if _, err := s.lookAt(ctx, sh, lanes, "", 0); err != nil {
			return err
		}
		of = of.from(lanes[len(lanes)-1] + "\x00")
	}
}
