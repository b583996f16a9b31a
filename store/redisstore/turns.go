package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

const (
	// turnLen is the length of a turn in lua/lib/turns.lua.
	turnLen = 1 + 13 + 13 + uidLen
	// parked is added to the score of a waiting job that is not the head of its order key:
	// PARK in Lua. The sum lies beyond all times, so the job is not due. It stays in its
	// bucket.
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
// key.
func (r *record) turnText() string {
	if r.Spec.OrderKey == "" {
		return ""
	}
	t := r.Turn()
	uid, _ := ulid.ParseStrict(t.UID) // an unusable one cannot be encoded either
	return fmt.Sprintf("%s %d%013d%013d", orderOf(r.Topic, r.Spec.OrderKey), t.Stage, t.Due, t.Created) + string(uid[:])
}

// addHead adds which job a waiting one waits for because of its order key, and its place.
func (s *Store) addHead(ctx context.Context, sh *shard, r *record, o *store.Outlook) (err error) {
	if o.Head, err = s.head(ctx, sh, r); o.Head == nil {
		return err
	}
	behind, err := s.db.ZLexCount(ctx, sh.prefix+"turns", "["+orderOf(r.Topic, r.Spec.OrderKey)+" ", "("+r.turnText()).Result()
	o.Before = 1 + behind
	return s.wrap(err)
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
	head, err := s.load(ctx, sh, hint.Key())
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil // it has ended since
	}
	if err == nil {
		err = s.complete(ctx, sh, head)
	}
	if err != nil {
		return nil, err
	}
	return &head.Job, nil
}

// turnOf looks for the turn of a job whose record cannot be read, with its order key as
// lua/change.lua reads them, and its lane. It reads all turns of the topic.
func (s *Store) turnOf(ctx context.Context, sh *shard, key job.Key) (lane job.Lane, turn string, err error) {
	match := globbed.Replace(key.Topic) + "/*"
	look := func(orderKey, text string) {
		if len(text) < turnLen {
			return
		}
		if hint, err := parseHint(text[turnLen:]); err == nil && hint.Key() == key {
			lane, turn = hint.Lane, orderKey+" "+text[:turnLen]
		}
	}
	err = s.eachPage(func(cursor uint64) *redis.ScanCmd {
		return s.db.HScan(ctx, sh.prefix+"heads", cursor, match, turnsAtOnce)
	}, func(heads []string) error {
		for i := 0; i+1 < len(heads); i += 2 {
			look(heads[i], heads[i+1])
		}
		return nil
	})
	if err != nil || turn != "" {
		return lane, turn, err
	}
	err = s.eachPage(func(cursor uint64) *redis.ScanCmd {
		return s.db.ZScan(ctx, sh.prefix+"turns", cursor, match, turnsAtOnce)
	}, func(turns []string) error {
		for i := 0; i+1 < len(turns); i += 2 { // each is followed by its score
			orderKey, text, _ := strings.Cut(turns[i], " ")
			look(orderKey, text)
		}
		return nil
	})
	return lane, turn, err
}

// turnsAtOnce is about how many turns one command examines.
const turnsAtOnce = 1000

// globbed escapes the characters of patterns of MATCH.
var globbed = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)
