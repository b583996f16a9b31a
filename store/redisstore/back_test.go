package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/storetest"
)

// TestClockSteps moves what is stored instead of the server's clock.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	storetest.RunSteps(t, storetest.Harness{ReadyList: true, Open: func(t testing.TB, o storetest.Options) store.Store {
		return open(t, r.URL(), o)
	}}, func(t testing.TB, s store.Store, by time.Duration) {
		step(t, s.(*Store), by)
	})
}

// step has the server's clock go ahead by so much, or back: all times that it
// gave are as much earlier, or later, than its time now.
func step(t testing.TB, s *Store, by time.Duration) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, sh := range s.shards {
		_, err := s.askNow(ctx, sh) // it was right
		must.OK(t, err)
		lanes, err := s.allNames(ctx, sh.lanesOf(""), 0)
		must.OK(t, err)
		zsets := []string{sh.lanes}
		for _, lane := range lanes {
			zsets = append(zsets, sh.bucket(lane))
		}
		for _, zset := range zsets {
			entries, err := s.db.ZRange(ctx, zset, 0, -1).Result()
			must.OK(t, err)
			for _, e := range entries {
				must.OK(t, s.db.ZIncrBy(ctx, zset, -float64(by.Milliseconds()), e).Err())
			}
		}
		for _, hash := range []string{sh.tokens, sh.circuits} {
			fields, err := s.db.HGetAll(ctx, hash).Result()
			must.OK(t, err)
			for field, text := range fields {
				must.OK(t, s.db.HSet(ctx, hash, field, earlier(t, text, by)).Err())
			}
		}
		sh.clock.mu.Lock()
		sh.clock.server = sh.clock.server.Add(-by) // of the clock that was
		sh.clock.mu.Unlock()
	}
}

// earlier is a text of times, each by so much earlier but those of zero.
func earlier(t testing.TB, text string, by time.Duration) string {
	t.Helper()
	times := strings.Fields(text)
	for i, old := range times {
		ms, err := strconv.ParseFloat(old, 64)
		ok(t, "ParseFloat", err)
		if ms != 0 {
			times[i] = fmt.Sprintf("%.0f", ms-float64(by.Milliseconds()))
		}
	}
	return strings.Join(times, " ")
}
