package redisstore

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/storetest"
)

func TestMain(m *testing.M) {
	// The client library's look-out for a server that is away ends by itself,
	// within a second after its client was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// namespaces keeps the stores that tests open on one server apart.
var namespaces atomic.Int64

func open(t testing.TB, url string, o storetest.Options) *Store {
	t.Helper()
	return openAs(t, Options{URL: url, Shards: o.Shards, Retention: o.Retention})
}

// openAs opens a store in a namespace of its own.
func openAs(t testing.TB, o Options) *Store {
	t.Helper()
	o.Namespace = fmt.Sprintf("test%d", namespaces.Add(1))
	s, err := prepare(o, true)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestConformanceOnCluster runs where a script may use the keys of one shard only.
// Each script runs again behind the caller's back: the second run must change nothing.
// `make test` runs it without the race detector: calls have one caller each, and
// TestRaceAnyCommandMayFail fans all of them out over shards.
func TestConformanceOnCluster(t *testing.T) {
	t.Parallel()
	nodes := testenv.StartRedisCluster(t, 3)
	storetest.Run(t, storetest.Harness{ReadyList: true, Open: func(t testing.TB, o storetest.Options) store.Store {
		s := open(t, "redis-cluster://"+nodes[0].Addr()+","+nodes[1].Addr(), o)
		s.db.AddHook(twice{})
		return s
	}})
}

type twice struct{}

func (twice) DialHook(next redis.DialHook) redis.DialHook { return next }

func (twice) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err != nil || !repeatable(cmd) {
			return err
		}
		return next(ctx, redis.NewCmd(ctx, cmd.Args()...))
	}
}

func (twice) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// repeatable: all scripts but carrying, which by its nature goes on with the
// next jobs, and claims whose lease may have expired before the second run. The first run
// on a server is an EVAL, which names no script.
func repeatable(cmd redis.Cmder) bool {
	args := cmd.Args()
	if strings.ToLower(cmd.Name()) != "evalsha" || args[1] == carryScript.Hash() {
		return false
	}
	if args[1] != claimScript.Hash() {
		return true
	}
	keys, _ := args[2].(int)
	lease, _ := args[3+keys+1].(int64)
	return lease >= time.Minute.Milliseconds()
}

// TestModel compares the store with a model of the rules on random calls.
func TestModel(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	storetest.RunModel(t, storetest.Harness{ReadyList: true, Open: func(t testing.TB, o storetest.Options) store.Store {
		return open(t, r.URL(), o)
	}})
}
