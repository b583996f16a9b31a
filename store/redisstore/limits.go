package redisstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// SetLimits replaces the limits of a topic, shard by shard.
func (s *Store) SetLimits(ctx context.Context, topic string, l store.Limits) error {
	for n, sh := range s.shards {
		text, err := s.limitsText(l, n)
		if err != nil {
			return err
		}
		var before store.Limits
		err = s.updateField(ctx, sh, sh.topics, topic, func(was string) (string, error) {
			before, _ = parseLimits(was) // none or unreadable: zero
			return text, nil
		})
		if err != nil {
			return err
		}
		if before.Rate != l.Rate {
			if err := s.db.HDel(ctx, sh.tokens, topic).Err(); err != nil {
				return s.wrap(err)
			}
		}
		// The limits before may have put lanes off, also if an earlier run of this call
		// ended here.
		if err := s.callLanes(ctx, sh, sh.lanesOf(topic)); err != nil {
			return err
		}
		if err := s.db.Publish(ctx, sh.wake+pullChannel, store.PullMessage(topic, 0)).Err(); err != nil {
			return s.wrap(err)
		}
	}
	return nil
}

// storedLimits are a topic's limits as lua/lib/limits.lua reads them. Share is the shard's share
// of Capacity.
type storedLimits struct {
	store.Limits
	Share int `json:",omitempty"`
}

// limitsText is the text that the n-th shard stores; empty for no limits.
func (s *Store) limitsText(l store.Limits, n int) (string, error) {
	if l == (store.Limits{}) {
		return "", nil
	}
	text, err := json.Marshal(storedLimits{l, rules.Share(l.Capacity, n, len(s.shards))})
	if err != nil {
		return "", fmt.Errorf("redisstore: encode limits: %w", err)
	}
	return string(text), nil
}

func parseLimits(text string) (store.Limits, error) {
	var l storedLimits
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return store.Limits{}, fmt.Errorf("redisstore: unreadable limits: %w", err)
	}
	return l.Limits, nil
}

// limitsOf returns the limits of topics; zero for those that cannot be read.
func (s *Store) limitsOf(ctx context.Context, sh *shard) (map[string]store.Limits, error) {
	texts, err := s.db.HGetAll(ctx, sh.topics).Result()
	all := make(map[string]store.Limits, len(texts))
	for topic, text := range texts {
		all[topic], _ = parseLimits(text)
	}
	return all, s.wrap(err)
}
