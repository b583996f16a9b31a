package redisstore

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/duehook/duehook/internal/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// namespaces keeps the stores that tests open on one server apart.
var namespaces atomic.Int64

func open(t testing.TB, url string, o storetest.Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), Options{
		URL: url, Namespace: fmt.Sprintf("test%d", namespaces.Add(1)), Shards: o.Shards, Retention: o.Retention,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	r := testenv.StartRedis(t)
	storetest.Run(t, storetest.Harness{Open: func(t testing.TB, o storetest.Options) store.Store {
		return open(t, r.URL(), o)
	}})
}

// TestEveryScriptRunsTwice answers with the second run's reply, as after a
// reply that was lost.
func TestEveryScriptRunsTwice(t *testing.T) {
	r := testenv.StartRedis(t)
	storetest.Run(t, storetest.Harness{Open: func(t testing.TB, o storetest.Options) store.Store {
		s := open(t, r.URL(), o)
		s.db.AddHook(twice{})
		return s
	}})
}

type twice struct{}

func (twice) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (twice) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(strings.ToLower(cmd.Name()), "eval") && !isCarry(cmd) {
			if err := next(ctx, cmd); err != nil {
				return err
			}
		}
		return next(ctx, cmd)
	}
}

func (twice) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook { return next }

// isCarry: what a lost reply to a carry carried is on the ready list all the
// same; only the report of it is lost, which the suite looks at.
func isCarry(cmd redis.Cmder) bool {
	args := cmd.Args()
	return len(args) > 1 && args[1] == carryScript.Hash()
}

// TestLostReplies cuts the connection instead of passing on the reply of every
// seventh request that runs a script. The client sends it again.
func TestLostReplies(t *testing.T) {
	r := testenv.StartRedis(t)
	p := testenv.StartProxy(t, r.Addr())
	var n atomic.Int64
	p.DropReplies(func(request []byte) bool {
		text := string(request)
		return strings.Contains(text, "evalsha") && !strings.Contains(text, carryScript.Hash()) && n.Add(1)%7 == 0
	})
	storetest.Run(t, storetest.Harness{Open: func(t testing.TB, o storetest.Options) store.Store {
		return open(t, "redis://"+p.Addr(), o)
	}})
	t.Cleanup(func() {
		if p.Dropped() == 0 {
			t.Error("no reply was dropped")
		}
	})
}
