package ledger_test

import (
	"context"
	"flag"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/ledger"
	"github.com/duehook/duehook/store/redisstore"
	"github.com/duehook/duehook/store/storetest"
)

// conforming opens a ledger around a store that has lost no job. When it is closed, the ledger must have the
// jobs as the store has them, and no other that may be restored.
func conforming(t testing.TB, b *backend, inner store.Restorable, retention time.Duration) store.Store {
	t.Helper()
	url := b.Empty(t)
	s, err := ledger.Open(t.Context(), ledger.Options{
		URL: url, Store: inner, StoreRetention: retention + time.Hour, // so that comparing may take its time
		Pace: ledger.Pace{SecondLook: time.Millisecond},
	})
	noError(t, "Open", err)
	for _, whole := range []string{"", "epoch"} {
		_, err := inner.SwapEpoch(t.Context(), "epoch", whole)
		noError(t, "SwapEpoch", err)
	}
	return sweptFirst{s, &rig{Store: s, T: lasting{t}, B: b, URL: url}}
}

// lasting is a test whose store is closed after its context has ended.
type lasting struct{ testing.TB }

func (lasting) Context() context.Context { return context.Background() }

// sweptFirst compares all jobs before it forgets any, as has to be.
type sweptFirst struct {
	*ledger.Store
	rig *rig
}

func (s sweptFirst) Close() error {
	noError(s.rig.T, "Flush", s.rig.Flush())
	s.rig.agree(cmp.Comparer(func(a, b job.State) bool {
		return a == b || !a.Final() && !b.Final() // a job that was carried after its lease expired
	}))
	return s.Store.Close()
}

func (s sweptFirst) Purge(ctx context.Context, limit int) (int, error) {
	if _, err := s.CompareOnce(ctx); err != nil {
		return 0, err
	}
	return s.Store.Purge(ctx, limit)
}

func onRedis(redis *testenv.Redis, b *backend) storetest.Harness {
	return storetest.Harness{Open: func(t testing.TB, o storetest.Options) store.Store {
		t.Helper()
		inner, err := redisstore.Open(t.Context(), redisstore.Options{URL: redis.URL(), Namespace: newName(), Retention: o.Retention})
		noError(t, "open Redis", err)
		return conforming(t, b, inner, o.Retention)
	}}
}

// TestConformanceOn tests the whole contract once, and on MariaDB what its SQL can break. Go
// decides the rest, and the other tests of this package write their other rows. `make test`
// runs it without the race detector.
func TestConformanceOn(t *testing.T) {
	redis := testenv.StartRedis(t)
	t.Run(postgres.Name, func(t *testing.T) { storetest.RunKept(t, onRedis(redis, postgres)) })
	t.Run(mariadb.Name, func(t *testing.T) { storetest.RunWritten(t, onRedis(redis, mariadb)) })
}

// TestModel makes fewer runs than diskstore's own test, which it repeats for the most part.
func TestModel(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	defer func() { noError(t, "set rapid.checks", checks.Value.Set(before)) }()
	noError(t, "set rapid.checks", checks.Value.Set("5"))
	for _, b := range servers {
		t.Run(b.Name, func(t *testing.T) {
			storetest.RunModel(t, storetest.Harness{Bubble: synctest.Test, Open: func(t testing.TB, o storetest.Options) store.Store {
				t.Helper()
				return conforming(t, b, newStore(t, o.Retention), o.Retention)
			}})
		})
	}
}
