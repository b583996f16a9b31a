package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/storetest"
)

// TestRaceAnyCommandMayFail lets each call send so many commands, and has Redis
// refuse all that follow. Wherever that happens, the call says that the store
// is unavailable, and works when it is made again.
func TestRaceAnyCommandMayFail(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	refused := refusal("MISCONF Errors writing to the AOF file: No space left on device")
	for _, c := range calls {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := startLiar(t, r)
			next := c.scenes(t, r, l)
			for n := 0; ; n++ {
				l.tell(nil)
				sc := next()
				answered := l.answerAll(n, refused)
				err := c.run(t.Context(), sc)
				if answered() == 0 {
					ok(t, "with all commands answered", err)
					break
				}
				// A pop that has a hint already keeps it.
				if !errors.Is(err, store.ErrUnavailable) && (err != nil || c.name != "Pop" || n == 0) {
					t.Errorf("%d commands answered: %v, want ErrUnavailable", n, err)
				}
				l.tell(nil)
				if err := c.run(t.Context(), sc); err != nil {
					t.Errorf("called again after %d commands: %v", n, err)
				}
			}
		})
	}
}

// TestRaceAConnectionMayBreak breaks the connection once, at each command in turn.
// Nobody is bothered with that but who waits on a connection of its own.
func TestRaceAConnectionMayBreak(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	for _, c := range calls {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := startLiar(t, r)
			next := c.scenes(t, r, l)
			for n := 0; ; n++ {
				l.tell(nil)
				sc := next()
				answered := l.answerSome(n, n+1, cut)
				err := c.run(t.Context(), sc)
				waits := c.name == "Pop" || c.name == "Wakeups"
				if err != nil && (!waits || !errors.Is(err, store.ErrUnavailable)) {
					t.Errorf("cut after %d commands: %v", n, err)
				}
				if answered() == 0 {
					break
				}
			}
		})
	}
}

// TestRaceEveryRefusalMayPass: whatever a Redis refuses with, it is its state that
// is wrong and not the call.
func TestRaceEveryRefusalMayPass(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	for _, reason := range []string{
		"ERR unknown command",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"NOAUTH Authentication required.",
		"NOPERM this user has no permissions",
		"WRONGTYPE Operation against a key holding the wrong kind of value",
		"BUSY Redis is busy running a script.",
		"LOADING Redis is loading the dataset in memory",
		"READONLY You can't write against a read only replica.",
		"CLUSTERDOWN Hash slot not served",
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			l := startLiar(t, r)
			sc := newScene(t, r, l.url())
			l.answerAll(0, refusal(reason))
			for name, err := range sc.atOnce(t.Context()) {
				if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), reason) {
					t.Errorf("%s: %v, want ErrUnavailable because of %s", name, err, reason)
				}
			}
		})
	}
}

// TestScriptsAreForgotten: a Redis that was started again, or a replica that
// took over, knows no scripts.
func TestScriptsAreForgotten(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	sc := newScene(t, r, r.URL())
	for _, c := range calls {
		ok(t, "SCRIPT FLUSH", sc.sure.db.ScriptFlush(t.Context()).Err())
		ok(t, c.name, c.run(t.Context(), sc))
	}
}

// TestRedisIsAway opens stores of every kind on an address where nothing is,
// and asks in every way: by command, pipeline, script, subscription, blocking,
// and for a lock. TestRaceRedisIsKilled makes all the calls.
func TestRedisIsAway(t *testing.T) {
	t.Parallel()
	r, away := testenv.StartRedis(t), testenv.StartRedis(t)
	away.Kill()
	for _, form := range []string{"redis://", "redis-cluster://", "redis-sentinel://main@"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			sc := newScene(t, r, r.URL())
			sc.s = sc.through(t, form+away.Addr())
			for _, name := range []string{"Ping", "Depth", "Register", "Wakeups", "Pop", "TryLock"} {
				if err := callOf(t, name).run(t.Context(), sc); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("%s: %v, want ErrUnavailable", name, err)
				}
			}
		})
	}
}

// TestRaceRedisIsKilled kills it under calls that wait, and starts it again.
func TestRaceRedisIsKilled(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	sc := newScene(t, r, r.URL())
	listening := make(chan int, len(sc.s.shards))
	results := make(chan error, 2)
	go func() { results <- store.Wakeups(t.Context(), sc.s, func(shard int) { listening <- shard }) }()
	go func() { results <- second(sc.s.Pop(t.Context(), 1, 1, maxPopWait)) }()
	for range sc.s.shards {
		<-listening
	}
	testenv.Eventually(t, testenv.Patience, func() bool {
		clients, err := sc.sure.db.ClientList(t.Context()).Result()
		return err == nil && strings.Contains(clients, "cmd=blpop")
	}, "the pop to wait")
	r.Kill()
	for range cap(results) {
		if err := <-results; !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a waiting call: %v, want ErrUnavailable", err)
		}
	}
	for name, err := range sc.atOnce(t.Context()) {
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		}
	}

	r.Start()
	testenv.Eventually(t, testenv.Patience, func() bool { return sc.s.Ping(t.Context()) == nil }, "the store to find Redis again")
	sc.register(t, sc.reg(0, "after"))
	carried, err := sc.s.Carry(t.Context(), 0, carryAll)
	if err != nil || len(carried.Carried) != 1 {
		t.Fatalf("carried %v, %v", carried.Carried, err)
	}
	hints, err := sc.s.Pop(t.Context(), 0, 1, maxPopWait)
	if err != nil || len(hints) != 1 {
		t.Fatalf("popped %v, %v", hints, err)
	}
	if held, err := sc.s.Locker(0).TryLock(t.Context(), time.Hour); !held || err != nil {
		t.Errorf("TryLock: %t, %v", held, err)
	}
}

// TestRaceContextHasEnded: nothing is sent for a caller that has gone.
func TestRaceContextHasEnded(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	l := startLiar(t, r)
	sc := newScene(t, r, l.url())
	sent := l.answerAll(0, refusal("ERR not to be sent"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range sc.atOnce(ctx) {
		if name == "Wakeups" {
			ok(t, name, err) // that is how it ends
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want context.Canceled", name, err)
		}
	}
	if n := sent(); n != 0 {
		t.Errorf("%d commands were sent", n)
	}
}

// TestRaceDeadline: a Redis that does not answer is waited for until the caller's
// deadline, and not asked a second time.
func TestRaceDeadline(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	l := startLiar(t, r)
	sc := newScene(t, r, l.url())
	sent := l.answerAll(0, silent)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for name, err := range sc.atOnce(ctx) {
		// Pop gives the context's error, and Wakeups none, if the context ends
		// before the connection's deadline, which is the same.
		given := errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
		if !given && (err != nil || name != "Wakeups") {
			t.Errorf("%s: %v, want ErrUnavailable or DeadlineExceeded", name, err)
		}
	}
	if n := sent(); n > len(calls) {
		t.Errorf("%d commands were sent for %d calls", n, len(calls))
	}
}

// TestRaceWakeupsUntilDeadline: a deadline is an end like any other.
func TestRaceWakeupsUntilDeadline(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	s := open(t, r.URL(), storetest.Options{})
	t.Cleanup(func() { _ = s.Close() })
	var wg sync.WaitGroup
	for n := range 50 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*time.Millisecond)
			defer cancel()
			if err := store.Wakeups(ctx, s, func(int) {}); err != nil {
				t.Errorf("after %d ms: %v", n, err)
			}
		})
	}
	wg.Wait()
}
