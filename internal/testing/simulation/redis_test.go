//go:build !race

// With the race detector, a world on miniredis takes 20 s, most of it in Lua. Tests of dispatcher and nodes
// of e2e with a real Redis run with it.

package simulation

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/redisstore"
)

// TestSeedsOnRedis simulates worlds on redisstore and miniredis, fewer of them:
// each takes as long as thirty on diskstore.
func TestSeedsOnRedis(t *testing.T) { runSeeds(t, newPlan, 3, max(1, *seeds/30), inRedis) }

// TestSchedulesOnRedis is TestSchedules on redisstore and miniredis, whose clock does not step.
func TestSchedulesOnRedis(t *testing.T) {
	runSeeds(t, func(seed uint64, shards int) *plan {
		p := newSchedulePlan(seed, shards)
		p.steps = false
		return p
	}, 3, max(1, *seeds/100), inRedis)
}

// mini is a miniredis of a bubble's own. It is reached over pipes: sockets would
// keep the bubble's time from going on. Its TIME is the bubble's.
type mini struct {
	t      *testing.T
	p      *plan
	server *miniredis.Miniredis
}

func inRedis(t *testing.T, p *plan) backend {
	// go-redis keeps timers for the whole process, in a sync.Pool. Those of
	// another bubble must not come into this one; the second collection drops them.
	runtime.GC()
	runtime.GC()
	m := &mini{t, p, miniredis.NewMiniRedis()}
	m.server.ClockTTL(true)
	first, err := m.server.Dial() // starts it
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	m.server.Server().SetPreHook(adapt())
	return m
}

func (m *mini) connect() store.Store {
	s, err := redisstore.Open(context.Background(), redisstore.Options{
		URL: "redis://192.0.2.1:6379?pool_size=1000", Shards: m.p.shards, Retention: m.p.retention,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return m.server.Dial() },
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

func (m *mini) close() { m.server.Close() }

// adapt gives miniredis what it lacks: scripts that begin with a line of flags,
// and the commands by which a blocked pop is called off. Nothing is called off
// here, so such a pop times out some seconds later.
func adapt() server.Hook {
	var mu sync.Mutex
	known := map[string]string{} // hashes of scripts, with and without their first line
	return func(c *server.Peer, cmd string, args ...string) bool {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case cmd == "CLIENT" && strings.EqualFold(args[0], "id"):
			c.WriteInt(1)
			return true
		case cmd == "CLIENT" && strings.EqualFold(args[0], "unblock"):
			c.WriteInt(0)
			return true
		case cmd == "EVAL" && strings.HasPrefix(args[0], "#!"):
			whole := hash(args[0])
			// args is what the command gets, so this is how to change it.
			_, args[0], _ = strings.Cut(args[0], "\n")
			known[whole] = hash(args[0])
		case cmd == "EVALSHA" && known[args[0]] != "":
			args[0] = known[args[0]]
		}
		return false
	}
}

func hash(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}
