package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// control is a connection of the test's own to Redis.
func control(t testing.TB, r *testenv.Redis) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: r.Addr(), PoolSize: 1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func command(t testing.TB, c *redis.Client, args ...any) {
	t.Helper()
	if err := c.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// TestRedisFaultsUnderLoad: scripts forgotten, every connection cut, and Redis
// killed and started again, while 100 jobs/s flow. Nothing is lost, and no
// node has to be restarted.
func TestRedisFaultsUnderLoad(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	r := receiver.Start(t, slowly)
	server := testenv.StartRedis(t, testenv.WithAOF())
	admin := control(t, server)
	nodes := startNodes(t, shipped, "a b", server.URL(), quickTakeover...)
	up := &bases{nodes: nodes}
	over, pauses := sized(10*time.Second, 3*time.Minute), sized(time.Second, 2*time.Second)
	l := &load{topic: "faults", url: r.URL(), jobs: int(over.Seconds()) * perSecond(), over: over, maxDelay: time.Second, pick: up.pick}
	wait := l.start(t, rnd)
	pids := [2]int{nodes[0].pid(), nodes[1].pid()}

	var c cuts
	for range sized(1, 10) {
		pause(t, pauses)
		command(t, admin, "SCRIPT", "FLUSH")
		pause(t, pauses)
		command(t, admin, "CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes")
		pause(t, pauses)
		c.during("connections cut", false, func() {
			command(t, admin, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		})
		pause(t, pauses)
		c.during("Redis down", false, func() {
			server.Kill()
			before := len(l.refusals())
			testenv.Eventually(t, testenv.Patience, func() bool { return len(l.refusals()) >= before+5 }, "registrations are refused")
			pause(t, time.Second)
			server.Start()
			for _, n := range nodes {
				n.awaitReady()
			}
		})
		pause(t, 2*pauses)
	}
	wait()
	audit(t, l, r, &c, nodes[0].base())
	for i, n := range nodes {
		if !n.alive() || n.pid() != pids[i] {
			t.Errorf("node %s did not live through it", n.Name)
		}
	}
	for _, a := range l.refusals() {
		checkRefusal(t, a)
	}
}

// checkRefusal checks that a 503 has the cause and a Retry-After.
func checkRefusal(t *testing.T, a answer) {
	t.Helper()
	var problem struct{ Code string }
	a.into(t, &problem)
	seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
	if problem.Code != "store_unavailable" || err != nil || seconds < 1 {
		t.Errorf("refusal with code %q, Retry-After %q", problem.Code, a.header.Get("Retry-After"))
	}
}

// TestFullRedisDrains: a Redis without memory refuses new jobs, delivers those
// that it has, and takes new ones again when it has room.
func TestFullRedisDrains(t *testing.T) {
	t.Parallel()
	r := receiver.Start(t, receiver.Accept)
	server := testenv.StartRedis(t, testenv.WithMaxMemory("0"))
	admin := control(t, server)
	n := startNodes(t, raced, "a", server.URL(), quickTakeover...)[0]
	const jobs = 500
	for i := range jobs {
		register(t, n.base(), registration{Topic: "full", ID: strconv.Itoa(i), URL: r.URL(), Delay: "4s"})
	}
	command(t, admin, "CONFIG", "SET", "maxmemory", "1")
	delivered := r.Jobs()
	for range 20 {
		a, err := call(t.Context(), "POST", n.base()+"/v1/jobs", nil, registration{Topic: "full", ID: "late", URL: r.URL()})
		if err != nil || a.status != http.StatusServiceUnavailable {
			t.Fatalf("full, but registering gives %d, %v", a.status, err)
		}
		checkRefusal(t, a)
	}
	if delivered == jobs {
		t.Fatal("nothing was left to deliver while full: the machine is too slow for this test's delay")
	}
	testenv.Eventually(t, deliverLimit, func() bool { return r.Jobs() == jobs }, "a full Redis drains")
	testenv.Eventually(t, deliverLimit, func() bool {
		return getTopic(t, n.base(), "full").States["delivered"] == jobs
	}, "the deliveries are written down")
	if r.Count() != jobs {
		t.Errorf("%d deliveries of %d jobs", r.Count(), jobs)
	}
	command(t, admin, "CONFIG", "SET", "maxmemory", "0")
	register(t, n.base(), registration{Topic: "full", ID: "late", URL: r.URL()})
	testenv.Eventually(t, deliverLimit, func() bool { return r.Jobs() == jobs+1 }, "it goes on when there is room")
}

// TestIdleCostsRedisLittle: a node with 10,000 waiting jobs does not poll.
func TestIdleCostsRedisLittle(t *testing.T) {
	t.Parallel()
	const (
		jobs    = 10_000
		batch   = 1_000
		seconds = 10
		most    = 4 * seconds
	)
	server := testenv.StartRedis(t)
	admin := control(t, server)
	n := startNodes(t, shipped, "a", server.URL())[0]
	for from := 0; from < jobs; from += batch {
		var b struct {
			Jobs []registration `json:"jobs"`
		}
		for i := range batch {
			b.Jobs = append(b.Jobs, registration{
				Topic: "idle-" + strconv.Itoa(i%20), ID: strconv.Itoa(from + i), URL: "https://example.com/hook",
				Delay: strconv.Itoa(3600+i) + "s",
			})
		}
		must(t, http.StatusOK, "POST", n.base()+"/v1/jobs/batch", b)
	}
	if got := info(t, admin, "keyspace"); !strings.Contains(got, "db0:") {
		t.Fatalf("no job in Redis: %s", got)
	}
	pause(t, time.Second) // the wake-ups by the registrations
	before := commands(t, admin)
	pause(t, seconds*time.Second)
	got := commands(t, admin) - before - 1 // the INFO that counts
	t.Logf("%.1f commands/s with %d waiting jobs", float64(got)/seconds, jobs)
	if got >= most {
		t.Errorf("%d commands in %d s, want fewer than %d:\n%s", got, seconds, most, info(t, admin, "commandstats"))
	}
}

func commands(t *testing.T, c *redis.Client) int {
	t.Helper()
	for line := range strings.Lines(info(t, c, "stats")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "total_commands_processed:"); ok {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("INFO does not count commands")
	return 0
}

func info(t *testing.T, c *redis.Client, section string) string {
	t.Helper()
	s, err := c.Info(context.Background(), section).Result()
	if err != nil {
		t.Fatal(fmt.Errorf("INFO %s: %w", section, err))
	}
	return s
}
