package dispatcher

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/redisstore"
)

// carryOptions are enough for tests.
var carryOptions = store.CarryOptions{Cap: 1000, Visibility: 2 * time.Second, FlightLimits: store.FlightLimits{HalfOpenLimit: 3}}

// carrying carries all the time until the test ends, if the store has a ready list.
func carrying(t testing.TB, s store.Store) {
	t.Helper()
	lists, ok := s.(store.ReadyList)
	if !ok {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for shard := range s.Shards() {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = lists.Carry(ctx, shard, carryOptions) // if it failed, the next may not
				_ = job.Sleep(ctx, job.SystemClock(), time.Millisecond)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

func register(t testing.TB, s store.Store, id string, spec job.Spec) {
	t.Helper()
	_, err := s.Register(t.Context(), []store.Registration{{
		Key: job.Key{Topic: "orders", ID: id}, UID: ulid.Make().String(), Spec: spec,
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func openRedis(t *testing.T, url string, shards int) store.Store {
	t.Helper()
	s, err := redisstore.Open(t.Context(), redisstore.Options{URL: url, Shards: shards, Retention: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
