package redisstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// SetLimits replaces the limits of a topic, shard by shard.
func (s *Store) SetLimits(ctx context.Context, topic string, l store.Limits) error {
	before, err := s.Limits(ctx)
	if err != nil {
		return err
	}
	for n, sh := range s.shards {
		text, err := s.limitsText(l, n)
		if err != nil {
			return err
		}
		if _, err := s.run(ctx, sh, limitScript, []string{sh.topics, sh.tokens}, []any{topic, text, before[topic].Rate != l.Rate}); err != nil {
			return err
		}
		// Lanes may have been put off by what held before, also when an earlier run
		// of this call was broken off here.
		if err := s.callLanes(ctx, sh, sh.lanesOf(topic)); err != nil {
			return err
		}
	}
	return nil
}

// limitsText is what lua/limits.lua reads: the part of the n-th shard, and all
// of it for parseLimits.
func (s *Store) limitsText(l store.Limits, n int) (string, error) {
	if l == (store.Limits{}) {
		return "", nil
	}
	flags := ""
	if l.Paused {
		flags += "p"
	}
	if l.Draining {
		flags += "d"
	}
	if flags == "" {
		flags = "-"
	}
	interval := 0.0
	if l.Rate > 0 {
		interval = rules.PaceOf(l.Rate, len(s.shards), 0).Interval
	}
	weight := l.Weight
	if weight == 0 {
		weight = store.DefaultWeight
	}
	all, err := json.Marshal(l)
	if err != nil {
		return "", fmt.Errorf("redisstore: encode limits: %w", err)
	}
	return fmt.Sprintf("%s %d %.6f %d %d %s", flags, rules.Share(l.Capacity, n, len(s.shards)), interval, rules.Share(l.Concurrency, n, len(s.shards)), weight, all), nil
}

var errLimits = errors.New("redisstore: unreadable limits")

func parseLimits(text string) (store.Limits, error) {
	var l store.Limits
	_, all, ok := strings.Cut(text, "{")
	if !ok {
		return l, errLimits
	}
	if err := json.Unmarshal([]byte("{"+all), &l); err != nil {
		return l, fmt.Errorf("%w: %w", errLimits, err)
	}
	return l, nil
}

// Limits gives the limits of all topics that have some.
func (s *Store) Limits(ctx context.Context) (map[string]store.Limits, error) {
	all, in := map[string]store.Limits{}, map[string]int{}
	for _, sh := range s.shards {
		texts, err := s.db.HGetAll(ctx, sh.topics).Result()
		if err != nil {
			return nil, s.wrap(err)
		}
		for topic, text := range texts {
			l, err := parseLimits(text)
			if known, seen := all[topic]; err != nil || seen && known != l {
				l = store.Limits{}
			}
			all[topic] = l
			in[topic]++
		}
	}
	for topic, n := range in {
		if n < len(s.shards) {
			all[topic] = store.Limits{}
		}
	}
	return all, nil
}
