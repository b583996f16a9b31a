package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

const (
	// turnLen is the length of a turn in lua/lib/turns.lua.
	turnLen = 1 + 13 + 13 + uidLen
	// parked is added to the score of a waiting job that is not the head of its order key:
	// PARK in Lua. The sum lies beyond all times, so the job is not due. It is in its
	// bucket all the same.
	parked = 4_000_000_000_000
)

// orderOf is the name of an order key; empty without one.
func orderOf(topic, orderKey string) string {
	if orderKey == "" {
		return ""
	}
	return topic + "/" + orderKey
}

// turnText is the record's order key and turn as lua/change.lua reads them; empty without a
// key, and for jobs that have ended and stop no key.
func (r *record) turnText() string {
	if r.Spec.OrderKey == "" || r.State.Final() && r.State != job.Dead {
		return ""
	}
	t := r.Turn()
	uid, _ := ulid.ParseStrict(t.UID) // an unusable one cannot be encoded either
	return fmt.Sprintf("%s %d%013d%013d", orderOf(r.Topic, r.Spec.OrderKey), t.Stage, t.Due, t.Created) + string(uid[:])
}

// head returns the job that a waiting job waits for because both have the same order key;
// nil if it has its turn.
func (s *Store) head(ctx context.Context, sh *shard, r *record) (*job.Job, error) {
	if r.Spec.OrderKey == "" || r.State.Final() {
		return nil, nil
	}
	text, err := s.db.HGet(ctx, sh.prefix+"heads", orderOf(r.Topic, r.Spec.OrderKey)).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, s.wrap(err)
	}
	if len(text) < turnLen {
		return nil, fmt.Errorf("redisstore: the head of the order key of %s cannot be read", r.Key)
	}
	hint, err := parseHint(text[turnLen:])
	if err != nil || hint.ID == r.ID {
		return nil, err
	}
	j, err := s.load(ctx, sh, hint.Key())
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil // it has ended since
	}
	if err == nil {
		err = s.refine(ctx, sh, j)
	}
	if err != nil {
		return nil, err
	}
	head := s.whole(j)
	return &head, nil
}

// isWhole reports whether a shard lacks no job; see store.Restorable.SwapEpoch.
func (s *Store) isWhole(ctx context.Context, sh *shard) (bool, error) {
	whole, err := wholeScript.Run(ctx, s.db, []string{sh.whole}).Bool()
	return whole, s.wrap(err)
}
