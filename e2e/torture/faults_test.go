package torture

import (
	"bytes"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/duehook/duehook/e2e/rig"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// topology is how Redis is run.
type topology int

const (
	single    topology = iota
	sentinels          // a master, two replicas and three sentinels
	cluster            // three masters, each with a replica
)

// row is one fault, and so one row of the table.
type row struct {
	name  string
	about string
	nodes int // on one server; 0: one node on the embedded store
	// postgres: the server is a PostgreSQL, not a Redis. replica: with a synchronous replica.
	postgres, replica bool
	redis             []testenv.RedisOption
	topology
	flags []string // of the nodes
	// proxied: each node reaches the server through a proxy of its own.
	proxied bool
	// skewed: the server's clock can be stepped, so that times cannot be compared.
	skewed bool
	// lossy: replies of the server get lost, so that a node's own repetition of a
	// change can meet a job that the first one has moved on. The client is then
	// told of a conflict, although its change was made.
	lossy bool
	// short: a part of every `make test`.
	short bool
	// failpoint is where the first node crashes.
	failpoint string
	inject    func(r *run)
}

// rows are all faults. Redis writes its append-only file before it answers, and PostgreSQL its log.
var rows = slices.Concat(redisRows, postgresRows)

// redisRows are those of embedded nodes and of nodes on Redis.
var redisRows = []*row{
	{name: "kill-embedded", about: "SIGKILL of the embedded node, twice or three times", short: true, inject: kills},
	{name: "kill-nodes", about: "SIGKILL of random nodes of three on Redis", nodes: 3, short: true, inject: kills},
	{name: "crash-accepted-embedded", about: "crash before the answer to a registration", failpoint: "accepted", inject: crashes},
	{name: "crash-claimed-embedded", about: "crash after claiming", failpoint: "claimed", inject: crashes},
	{name: "crash-posted-embedded", about: "crash between the receiver's answer and settling", failpoint: "posted", short: true, inject: crashes},
	{name: "crash-settled-embedded", about: "crash after settling", failpoint: "settled", inject: crashes},
	{name: "crash-accepted", about: "the same on Redis, one of two nodes", nodes: 2, failpoint: "accepted", inject: crashes},
	{name: "crash-carried", about: "crash after carrying", nodes: 2, failpoint: "carried", inject: crashes},
	{name: "crash-claimed", about: "", nodes: 2, failpoint: "claimed", short: true, inject: crashes},
	{name: "crash-posted", about: "", nodes: 2, failpoint: "posted", inject: crashes},
	{name: "crash-settled", about: "", nodes: 2, failpoint: "settled", inject: crashes},
	{name: "sigstop", about: "a node frozen for longer than the lease", nodes: 2, short: true, inject: sigstop},
	{name: "sigterm", about: "rolling restarts of three nodes, four in each run", nodes: 3, short: true, inject: rollingRestarts},
	{name: "sigterm-embedded", about: "two restarts in good order", inject: rollingRestarts},
	{name: "proxy-cut", about: "connections to Redis reset, over and over", nodes: 2, proxied: true, lossy: true, inject: proxyCut},
	{name: "proxy-drop", about: "replies of Redis swallowed at random", nodes: 2, proxied: true, lossy: true, short: true, inject: proxyDrop},
	{name: "proxy-delay", about: "replies of Redis delayed by up to 0.8 s", nodes: 2, proxied: true, lossy: true, inject: proxyDelay},
	{name: "partition", about: "a node cut off from Redis, at times for longer than the lease", nodes: 2, proxied: true, lossy: true, inject: partition},
	{name: "redis-kill", about: "SIGKILL of Redis, and a restart from its file", nodes: 2, lossy: true, short: true, inject: redisKill},
	{name: "redis-freeze", about: "Redis frozen for up to 8 s", nodes: 2, lossy: true, inject: redisFreeze},
	{name: "redis-slow", about: "DEBUG SLEEP and CLIENT PAUSE", nodes: 2, redis: []testenv.RedisOption{testenv.WithArgs("--enable-debug-command", "local")}, lossy: true, inject: redisSlow},
	{name: "redis-busy", about: "slow scripts: Redis answers BUSY to everybody else", nodes: 2, inject: redisBusy},
	{name: redisIsFull, about: "maxmemory reached", nodes: 2, redis: []testenv.RedisOption{testenv.WithMaxMemory("0")}, short: true, inject: redisFull},
	{name: "script-flush", about: "SCRIPT FLUSH", nodes: 2, short: true, inject: scriptFlush},
	{name: "client-kill", about: "CLIENT KILL of all connections, subscribers too", nodes: 2, lossy: true, inject: clientKill},
	{name: "sentinel-failover", about: "the master killed or frozen; Sentinel promotes a replica", nodes: 2, topology: sentinels, flags: confirmed, lossy: true, inject: failover},
	{name: "cluster-failover", about: "a master of a Cluster killed or frozen; its replica takes over", nodes: 2, topology: cluster, flags: append([]string{"--shards", "8"}, confirmed...), lossy: true, inject: failover},
	{name: "disk-full", about: "the embedded store cannot write", short: true, inject: diskFull},
	{name: "clock-forward", about: "Redis' clock steps ahead by up to an hour", nodes: 2, skewed: true, inject: clockForward},
	{name: "clock-back", about: "Redis' clock steps back by up to an hour, and to the right time again", nodes: 2, skewed: true, short: true, inject: clockBack},
}

func kills(r *run) {
	for range 2 + r.rnd.IntN(2) {
		n := r.pick()
		r.cuts.Kill(n)
		r.pause(0, 300*time.Millisecond)
		n.Start()
		r.pause(300*time.Millisecond, 900*time.Millisecond)
	}
}

// crashes waits for the first node to die at its failpoint, twice.
func crashes(r *run) {
	n := r.nodes[0]
	for life := range 2 {
		if !n.AwaitExit(exitLimit) {
			r.t.Errorf("life %d of the node did not reach %s", life+1, n.Env[len(n.Env)-1])
			return
		}
		at := clock.Now()
		r.cuts.Add(rig.Cut{What: r.row.failpoint, From: at, To: at, Node: true})
		n.Env = n.Env[:len(n.Env)-1]
		if life == 0 {
			r.arm(n)
		}
		n.Start()
	}
}

// sigstop ends while other workers have the frozen one's jobs.
func sigstop(r *run) {
	n := r.pick()
	r.cuts.During("freeze "+n.Name, false, func() {
		n.Freeze()
		r.pause(lease+100*time.Millisecond, lease+1300*time.Millisecond)
		n.Thaw()
	})
}

// rollingRestarts leaves no excuse for a repetition: it notes no cut.
func rollingRestarts(r *run) {
	times := 4
	if len(r.nodes) == 1 {
		times = 2
	}
	first := r.rnd.IntN(len(r.nodes))
	for i := range times {
		n := r.nodes[(first+i)%len(r.nodes)]
		if code := n.Stop(); code != 0 {
			r.t.Errorf("SIGTERM: exit code %d", code)
		}
		n.Start()
		r.pause(100*time.Millisecond, 400*time.Millisecond)
	}
}

func (r *run) proxy() *testenv.Proxy { return r.proxies[r.rnd.IntN(len(r.proxies))] }

func proxyCut(r *run) {
	r.cuts.During("connections cut", false, func() {
		for range 8 {
			r.proxy().CutAll()
			r.pause(100*time.Millisecond, 400*time.Millisecond)
		}
	})
}

func proxyDrop(r *run) {
	share := 0.02 + 0.2*r.rnd.Float64()
	r.cuts.During("replies dropped", false, func() {
		for _, p := range r.proxies {
			rnd := rand.New(rand.NewPCG(r.rnd.Uint64(), 0))
			p.DropReplies(func(request []byte) bool {
				// Each of a node's scripts, and pops.
				return bytes.HasPrefix(request, []byte("*")) && rnd.Float64() < share
			})
		}
		r.pause(1500*time.Millisecond, 2500*time.Millisecond)
		for _, p := range r.proxies {
			p.DropReplies(nil)
		}
	})
}

func proxyDelay(r *run) {
	r.cuts.During("replies delayed", false, func() {
		for range 3 {
			p := r.proxy()
			p.Delay(time.Duration(50+r.rnd.IntN(750)) * time.Millisecond)
			r.pause(300*time.Millisecond, 1200*time.Millisecond)
			p.Delay(0)
		}
	})
}

func partition(r *run) {
	p := r.proxy()
	r.cuts.During("partition", false, func() {
		p.Refuse(true)
		p.CutAll()
		r.pause(time.Second, lease+2*time.Second)
		p.Refuse(false)
	})
}

func redisKill(r *run) {
	r.cuts.During("Redis down", false, func() {
		r.redis.Kill()
		r.pause(200*time.Millisecond, 2*time.Second)
		r.redis.Start()
	})
}

func redisFreeze(r *run) {
	r.cuts.During("Redis frozen", false, func() {
		r.redis.Pause()
		r.pause(time.Second, 8*time.Second)
		r.redis.Resume()
	})
}

// redisSlow is shorter than any lease: it notes no cut.
func redisSlow(r *run) {
	for range 2 {
		ms := 300 + r.rnd.IntN(1500)
		if r.rnd.IntN(2) == 0 {
			r.command("DEBUG", "SLEEP", strconv.FormatFloat(float64(ms)/1000, 'f', 3, 64))
		} else {
			r.command("CLIENT", "PAUSE", ms, "ALL")
		}
		r.pause(300*time.Millisecond, 900*time.Millisecond)
	}
}

// redisBusy has endless scripts run until they are killed. Nodes are answered
// BUSY, and nothing of what they want is done: it notes no cut.
func redisBusy(r *run) {
	r.command("CONFIG", "SET", "busy-reply-threshold", 20)
	for range 3 {
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			_ = r.admin.Eval(r.t.Context(), "while true do end", nil).Err() // that it was killed
		}()
		r.pause(200*time.Millisecond, 1200*time.Millisecond)
		testenv.Eventually(r.t, exitLimit, func() bool {
			_ = r.admin.ScriptKill(r.t.Context()).Err() // it may not have begun
			select {
			case <-killed:
				return true
			default:
				return false
			}
		}, "a script is killed")
		r.pause(100*time.Millisecond, 700*time.Millisecond)
	}
}

// redisIsFull is the fault during which Redis leaves out what may be large.
const redisIsFull = "redis-full"

func redisFull(r *run) {
	r.command("CONFIG", "SET", "maxmemory", "1")
	r.pause(500*time.Millisecond, 2*time.Second)
	r.command("CONFIG", "SET", "maxmemory", "0")
}

// confirmed makes nodes acknowledge what a replica has confirmed, so that a
// failover takes nothing back.
var confirmed = []string{"--redis-min-replicas", "1"}

// failover ends when another server has taken over, and the old one is back
// and has been told so. A Cluster's master has one replica: until the old one
// is its replica, nothing can be confirmed.
func failover(r *run) {
	r.cuts.During("failover", false, func() {
		strike, heal := r.redis.Pause, r.redis.Resume
		if r.rnd.IntN(2) == 0 {
			strike, heal = r.redis.Kill, r.redis.Start
		}
		strike()
		r.pause(5*time.Second, 7*time.Second)
		heal()
		for _, n := range r.nodes {
			n.AwaitReady()
		}
	})
}

func scriptFlush(r *run) {
	for range 4 {
		r.command("SCRIPT", "FLUSH")
		r.pause(100*time.Millisecond, 700*time.Millisecond)
	}
}

func clientKill(r *run) {
	for range 3 {
		r.cuts.During("connections killed", false, func() {
			r.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			r.command("CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes")
		})
		r.pause(200*time.Millisecond, 900*time.Millisecond)
	}
}

// diskFull lets no file of the node grow: what a file system without space
// does, as far as a process can be made to feel it without the right to mount
// one.
func diskFull(r *run) {
	limit := func(fsize string) {
		out, err := exec.CommandContext(r.t.Context(), "prlimit", "--pid", strconv.Itoa(r.nodes[0].PID()), "--fsize="+fsize).CombinedOutput()
		if err != nil {
			r.t.Errorf("prlimit: %v\n%s", err, out)
		}
	}
	limit("0:unlimited")
	r.pause(500*time.Millisecond, 2*time.Second)
	limit("unlimited:unlimited")
}

// clockForward ends all leases at once, so that jobs in flight are sent
// again.
func clockForward(r *run) {
	r.cuts.During("clock steps ahead", false, func() { r.skew.set(r.step()) })
	r.pause(500*time.Millisecond, 1500*time.Millisecond)
}

// clockBack puts leases and due times off; when the clock is right again they
// end at once.
func clockBack(r *run) {
	r.cuts.During("clock steps back", false, func() {
		r.skew.set(-r.step())
		r.pause(500*time.Millisecond, 1500*time.Millisecond)
		r.skew.set(0)
	})
}

// step is from seconds to an hour.
func (r *run) step() time.Duration {
	most := []time.Duration{10 * time.Second, time.Minute, time.Hour}[r.rnd.IntN(3)]
	return time.Second + time.Duration(r.rnd.Int64N(int64(most)))
}
