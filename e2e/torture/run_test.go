package torture

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/e2e/rig"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
)

const (
	// lease is the least that goes with the timeout: it decides how long a dead
	// node's jobs wait.
	timeout = 2 * time.Second
	lease   = 7 * time.Second
	// settleTime is generous, as many runs share the machine.
	settleTime = time.Second
	travelTime = 300 * time.Millisecond
	// quietLimit is how long a run may take to come to rest after its fault.
	quietLimit = time.Minute
	pollEvery  = 100 * time.Millisecond
	exitLimit  = 30 * time.Second
)

// settings of all nodes. A clock that is stepped must not make ended jobs old
// enough to be forgotten.
var settings = []string{
	"--timeout", timeout.String(), "--lease", lease.String(), "--visibility", "2s",
	"--breaker-open", "1s", "--retention", "30d", "--log-level", "info",
}

// run is one seeded run under one fault.
type run struct {
	t    *testing.T
	row  *row
	seed uint64
	rnd  *rand.Rand // of the faults

	redis   *testenv.Redis // the first master, if the nodes are on Redis
	url     string         // of the server
	admin   *redis.Client
	sql     *database        // if the nodes are on PostgreSQL
	proxies []*testenv.Proxy // one for each node, if the row wants them
	skew    *skew            // of the server's clock, if the row wants it
	dataDir string           // of the embedded store

	nodes     []*rig.Node
	endpoints *endpoints
	clients   *clients
	flows     *flows
	cuts      rig.Cuts
}

// newRun starts what the row needs.
func newRun(t *testing.T, row *row, seed uint64) *run {
	t.Helper()
	r := &run{t: t, row: row, seed: seed, rnd: rand.New(rand.NewPCG(seed, 1))}
	r.cuts.SettleTime, r.cuts.TravelTime = settleTime, travelTime
	r.endpoints = startEndpoints(t, 2)
	binary, err := shipped()
	if row.failpoint != "" {
		binary, err = failing()
	}
	if err != nil {
		t.Fatal(err)
	}
	if row.nodes == 0 {
		r.dataDir = t.TempDir()
		r.addNode(binary, "embedded", "--data-dir", r.dataDir)
	} else {
		flag, start := "--redis-url", r.startRedis
		if row.postgres {
			flag, start = "--postgres-url", r.startPostgres
		}
		start()
		for i := range row.nodes {
			r.addNode(binary, string(rune('a'+i)), append([]string{flag, r.urlForNode()}, r.row.flags...)...)
		}
	}
	for i, n := range r.nodes {
		if i == 0 && row.failpoint != "" {
			r.arm(n)
		}
		n.Start()
	}
	r.clients = &clients{nodes: r.nodes, lossy: row.lossy, endpoints: r.endpoints, rnd: rand.New(rand.NewPCG(seed, 2))}
	for _, p := range newPlan(rand.New(rand.NewPCG(seed, 0)), r.endpoints.urls()) {
		r.clients.jobs = append(r.clients.jobs, &told{planned: p})
	}
	return r
}

func (r *run) addNode(binary, name string, flags ...string) {
	r.nodes = append(r.nodes, rig.NewNode(r.t, binary, name, append(flags, settings...)...))
}

func (r *run) startRedis() {
	options := append([]testenv.RedisOption{testenv.WithAOF()}, r.row.redis...)
	if r.row.skewed {
		r.skew = newSkew(r.t)
		options = append(options, testenv.WithEnv(r.skew.env...))
	}
	switch r.row.topology {
	case sentinels:
		r.redis = testenv.StartRedis(r.t, options...)
		for range 2 {
			testenv.StartReplica(r.t, r.redis, slices.Clone(options)...)
		}
		r.url = urlOf("redis-sentinel://main@", testenv.StartSentinels(r.t, 3, "main", r.redis, 2))
	case cluster:
		options = append(options, testenv.WithArgs("--cluster-node-timeout", "1500"))
		masters := testenv.StartRedisCluster(r.t, 3, options...)
		testenv.AddClusterReplicas(r.t, masters, options...)
		r.redis, r.url = masters[r.rnd.IntN(len(masters))], urlOf("redis-cluster://", masters)
	default:
		r.redis = testenv.StartRedis(r.t, options...)
		r.url = r.redis.URL()
	}
	r.admin = redis.NewClient(&redis.Options{Addr: r.redis.Addr(), PoolSize: 2, ReadTimeout: 20 * time.Second})
	r.t.Cleanup(func() { _ = r.admin.Close() })
}

func urlOf(scheme string, servers []*testenv.Redis) string {
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	return scheme + strings.Join(addrs, ",")
}

// urlForNode is the URL by which the next node reaches the server.
func (r *run) urlForNode() string {
	if !r.row.proxied {
		return r.url
	}
	target := r.redis.Addr
	if r.row.postgres {
		target = r.sql.server.Addr
	}
	p := testenv.StartProxy(r.t, target())
	r.proxies = append(r.proxies, p)
	return strings.Replace(r.url, target(), p.Addr(), 1)
}

// arm makes the node die at the row's failpoint in its next life.
func (r *run) arm(n *rig.Node) {
	n.Env = append(n.Env, "FAILPOINT="+r.row.failpoint+":"+strconv.Itoa(1+r.rnd.IntN(8)))
}

// do runs load and faults, waits until all is quiet, and audits.
func (r *run) do() result {
	ctx := r.t.Context()
	watched, stopWatch := r.watch(ctx)
	stalled, stopStalls := watchStalls(ctx)
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		var setting sync.WaitGroup
		setting.Go(func() { r.setSchedules(ctx) })
		setting.Go(func() { r.startFlows(ctx) })
		r.clients.run(ctx)
		setting.Wait()
	}()
	r.pause(300*time.Millisecond, 900*time.Millisecond)
	r.row.inject(r)
	<-loaded
	quiet := r.awaitQuiet(ctx)
	stopWatch()
	a := &audit{run: r, quiet: quiet}
	a.wrong = append(a.wrong, <-watched...)
	a.store(ctx)
	a.schedules(ctx)
	for _, n := range r.nodes {
		// After this nothing can be sent any more.
		if code := n.Stop(); code != 0 {
			a.fail("%s ended with exit code %d", n.Name, code)
		}
	}
	if r.dataDir != "" {
		if err := a.onDisk(ctx); err != nil {
			a.fail("the data of the node: %v", err)
		}
	}
	stopStalls()
	a.result.stall = <-stalled
	return a.conclude()
}

// pause waits within the plan of faults.
func (r *run) pause(least, most time.Duration) {
	r.t.Helper()
	d := least + time.Duration(r.rnd.Int64N(int64(most-least)+1))
	if err := job.Sleep(r.t.Context(), clock, d); err != nil {
		r.t.Fatal(err)
	}
}

// pick is a random node.
func (r *run) pick() *rig.Node { return r.nodes[r.rnd.IntN(len(r.nodes))] }

// command gives Redis a command.
func (r *run) command(args ...any) {
	r.t.Helper()
	if err := r.admin.Do(r.t.Context(), args...).Err(); err != nil {
		r.t.Errorf("%v: %v", args, err)
	}
}

// unfinished are the states of jobs that something will still happen to.
var unfinished = []string{"waiting", "ready", "running", "retrying"}

// awaitQuiet waits until no more jobs are unfinished than those that are due
// much later, and reports whether that came in time.
func (r *run) awaitQuiet(ctx context.Context) bool {
	distant := 1 // the counted job below its target
	for _, j := range r.clients.jobs {
		if j.end == "waiting" && j.then == nothing && j.uid != "" {
			distant++
		}
	}
	ctx, stop := context.WithTimeout(ctx, quietLimit)
	defer stop()
	for {
		if r.rests(ctx, distant) {
			return true
		}
		if job.Sleep(ctx, clock, pollEvery) != nil {
			return false
		}
	}
}

// rests reports whether no more jobs are unfinished than distant.
func (r *run) rests(ctx context.Context, distant int) bool {
	if !r.schedulesRest(ctx) {
		return false
	}
	n, err := r.countUnfinished(ctx)
	return err == nil && n <= distant
}

func (r *run) countUnfinished(ctx context.Context) (int, error) {
	counts, err := r.topics(ctx)
	n := 0
	for _, states := range counts {
		for _, s := range unfinished {
			n += states[s]
		}
	}
	return n, err
}

// topics gives the numbers of jobs by topic and state.
func (r *run) topics(ctx context.Context) (map[string]map[string]int, error) {
	a, err := rig.Call(ctx, "GET", r.nodes[0].Base()+"/v1/topics", nil, nil)
	if err != nil {
		return nil, err
	}
	if a.Status != http.StatusOK {
		return nil, statusError(a.Status)
	}
	var v struct {
		Data []struct {
			Name   string         `json:"name"`
			States map[string]int `json:"states"`
		} `json:"data"`
	}
	if err := a.Decode(&v); err != nil {
		return nil, err
	}
	counts := map[string]map[string]int{}
	for _, t := range v.Data {
		counts[t.Name] = t.States
	}
	return counts, nil
}

// statusError is a status that was not expected.
type statusError int

func (e statusError) Error() string { return "status " + strconv.Itoa(int(e)) }
