package sqlstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/encoding"
)

// soakServer is a server that waits for its disk.
func soakServer(t *testing.T) *testenv.SQLServer {
	t.Helper()
	s, err := testenv.StartPostgres(true, "-c", "shared_buffers=256MB", "-c", "max_wal_size=4GB")
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, s.Close()) })
	return s
}

// soakTopics is how many topics the jobs of a soak have.
const soakTopics = 20

// soakJob is a job of a soak.
func soakJob(n int64, when job.When) store.Registration {
	key := job.Key{Topic: fmt.Sprint("topic-", n%soakTopics), ID: fmt.Sprint("job-", n)}
	return store.Registration{Key: key, UID: store.BindUID(fmt.Sprintf("%026d", n), key), Spec: job.Spec{
		Destination: "http://a.example/", Body: []byte(`"` + strings.Repeat("x", 298) + `"`), When: when,
	}}
}

// fillWaiting adds jobs that wait for a day and longer.
func fillWaiting(t *testing.T, s *Store, n int) {
	t.Helper()
	r := soakJob(0, job.When{})
	j := job.Job{Key: r.Key, Spec: r.Spec}
	endpoint := j.Lane().Endpoint
	exec(t, s, `INSERT INTO duehook.job (topic, id, uid, state, lane, bucket, wake, next_at, created_at, updated_at, due_at, expires_at, version, timeout, keeps_end, spec)
		SELECT topic, id, uid, 0, substr(encode(sha256(convert_to(topic || '|M|' || $2, 'UTF8')), 'hex'), 1, 32)::uuid, 1, at, at, at, at, at, 0, 1, 0, false, $3
		FROM generate_series(1, $1::int) AS n, LATERAL (SELECT 'topic-' || n % $4 AS topic, md5(n::text) AS id, md5('uid' || n) AS uid,
			(extract(epoch FROM now()) * 1000)::bigint + 86400000 + n AS at) AS v`, n, endpoint, encoding.AppendSpec(nil, &r.Spec), soakTopics)
	exec(t, s, `INSERT INTO duehook.delta (lane, name, waiting, retrying, running, delivered, dead, cancelled, expired, parked, order_keys, wake)
		SELECT lane, topic || '|M|' || $1, count(*), 0, 0, 0, 0, 0, 0, 0, 0, min(wake) FROM duehook.job GROUP BY lane, topic`, endpoint)
	exec(t, s, `VACUUM ANALYZE duehook.job`)
	folding(t, s)
}

// oneConnection leaves the store one connection: its process is what calls cost.
func oneConnection(t *testing.T, s *Store) {
	t.Helper()
	config := s.pool.Config()
	config.MaxConns = 1
	s.pool.Close()
	var err error
	s.pool, err = pgxpool.NewWithConfig(t.Context(), config)
	must.OK(t, err)
}

// A take costs the server about as much beside 2,000,000 waiting jobs (TAKE_WAITING) as beside 10,000.
func TestSoakTakeBesideWaiting(t *testing.T) {
	const jobs, rounds, bar = 10_000, 3, 1.5
	server := soakServer(t)
	sizes := []int{10_000, setting(t, "TAKE_WAITING", 2_000_000)}
	costs := map[int]time.Duration{}
	stores := map[int]*Store{}
	var last int64
	for _, n := range sizes {
		o := newOptions()
		o.URL = server.URL("postgres")
		s := openStore(t, o)
		fillWaiting(t, s, n)
		oneConnection(t, s)
		stores[n] = s
	}
	for range rounds {
		for _, n := range sizes {
			s := stores[n]
			for range jobs / maxRegister {
				regs := make([]store.Registration, maxRegister)
				for i := range regs {
					last++
					regs[i] = soakJob(last, job.When{})
				}
				register(t, s, regs)
			}
			pid := one[int](t, s, `SELECT pg_backend_pid()`)
			before, err := testenv.CPUTime(pid)
			must.OK(t, err)
			for taken := 0; taken < jobs; {
				claims := take(t, s, terms(200)).Claims
				if taken += len(claims); len(claims) == 0 {
					t.Fatalf("%d of %d jobs were taken", taken, jobs)
				}
			}
			after, err := testenv.CPUTime(pid)
			must.OK(t, err)
			costs[n] += after - before
		}
	}
	per := func(n int) time.Duration { return costs[n] / (jobs * rounds) }
	ratio := float64(costs[sizes[1]]) / float64(costs[sizes[0]])
	t.Logf("a claim costs the server %v beside %d jobs, %v beside %d: %.2f", per(sizes[0]), sizes[0], per(sizes[1]), sizes[1], ratio)
	if ratio > bar {
		t.Errorf("takes cost %.2f times as much, at most %v", ratio, bar)
	}
}

// setting is a number from the environment.
func setting(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text, ok := os.LookupEnv(name)
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	must.OK(t, err)
	return n
}

// The settings of the steady load, unless the environment has others.
const (
	steadyMinutes = 6         // STEADY_MINUTES
	steadyRate    = 2_000     // STEADY_RATE, jobs a second
	steadyWaiting = 1_000_000 // STEADY_WAITING
	steadyKept    = 20 * time.Second
)

// Jobs that come, go and are deleted cost the server the same after hours, and take the same place.
func TestSoakSteadyLoad(t *testing.T) {
	l := newSteady(t)
	l.run(t)
	third, last := l.minutes[min(2, len(l.minutes)-2)], l.minutes[len(l.minutes)-1]
	if ratio := float64(last.perJob()) / float64(third.perJob()); ratio > 1.2 {
		t.Errorf("a job costs the server %.2f times as much in the last minute as in the third", ratio)
	}
	if grown := float64(last.size) / float64(third.size); grown > 1.05 {
		t.Errorf("the tables have grown to %.2f times their size in the third minute", grown)
	}
}

// While another program holds a transaction open, jobs come late by a bounded time, and the holder is named.
func TestSoakSteadyLoadWithHeldTransaction(t *testing.T) {
	const late = 2 * time.Second
	l := newSteady(t)
	other, err := pgx.Connect(t.Context(), l.server.URL("postgres")+"&application_name=report")
	must.OK(t, err)
	defer func() { must.OK(t, other.Close(context.WithoutCancel(t.Context()))) }()
	_, err = other.Exec(t.Context(), `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1`)
	must.OK(t, err)
	l.run(t)
	for n, m := range l.minutes {
		if p99 := m.late(0.99); p99 > late {
			t.Errorf("minute %d: %v late at the 99th percentile, at most %v", n+1, p99, late)
		}
	}
	facts, err := l.nodes[0].Facts(t.Context())
	must.OK(t, err)
	must.Equal(t, "holder", facts.Holder, fmt.Sprintf("a transaction of postgres (pid %d, report)", other.PgConn().PID()))
	t.Logf("%s holds old versions of rows for %v and %d transactions; troubles: %v", facts.Holder, facts.Held, facts.HeldXIDs, facts.Troubles())
}

// steady is nodes that register, take, settle and delete jobs at a rate.
type steady struct {
	server *testenv.SQLServer
	nodes  []*Store
	rate   int

	mu      sync.Mutex
	minutes []*minute
}

// minute is what happened in a minute.
type minute struct {
	settled int
	lates   []time.Duration
	cpu     time.Duration
	size    int64
	dead    int64
}

func (m *minute) perJob() time.Duration { return m.cpu / time.Duration(max(m.settled, 1)) }

func (m *minute) late(share float64) time.Duration {
	if len(m.lates) == 0 {
		return 0
	}
	slices.Sort(m.lates)
	return m.lates[int(share*float64(len(m.lates)-1))]
}

func newSteady(t *testing.T) *steady {
	t.Helper()
	l := &steady{server: soakServer(t), rate: setting(t, "STEADY_RATE", steadyRate)}
	o := newOptions()
	o.URL, o.Retention = l.server.URL("postgres"), steadyKept
	for range 2 {
		l.nodes = append(l.nodes, openStore(t, o))
	}
	fillWaiting(t, l.nodes[0], setting(t, "STEADY_WAITING", steadyWaiting))
	return l
}

func (l *steady) run(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	clock := job.SystemClock()
	l.minutes = []*minute{{}}
	loop := func(do func() error) {
		work.Go(func() {
			for ctx.Err() == nil {
				if err := do(); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var last atomic.Int64
	began := clock.Now()
	for n := range l.nodes {
		s := l.nodes[n]
		loop(func() error { // registers what the rate asks for by now
			behind := int(clock.Now().Sub(began).Seconds()*float64(l.rate)) - int(last.Load())
			if behind < l.rate/50 {
				return job.Sleep(ctx, clock, 20*time.Millisecond)
			}
			regs := make([]store.Registration, min(behind, maxRegister))
			for i := range regs {
				regs[i] = soakJob(last.Add(1), job.When{Delay: rand.N(2 * time.Second)})
			}
			_, err := s.Register(ctx, regs)
			return err
		})
		loop(func() error { return l.deliver(ctx, s) })
		loop(func() error {
			purged, err := s.Purge(ctx, 1_000)
			if err == nil && purged < 1_000 {
				err = job.Sleep(ctx, clock, time.Second)
			}
			return err
		})
	}
	for n := range setting(t, "STEADY_MINUTES", steadyMinutes) {
		before, err := testenv.CPUTime(l.server.PID())
		must.OK(t, err)
		must.OK(t, job.Sleep(ctx, clock, time.Minute))
		after, err := testenv.CPUTime(l.server.PID())
		must.OK(t, err)
		l.mu.Lock()
		m := l.minutes[n]
		l.minutes = append(l.minutes, &minute{})
		l.mu.Unlock()
		m.cpu = after - before
		must.OK(t, l.nodes[0].pool.QueryRow(ctx, `SELECT sum(pg_total_relation_size(oid))::bigint, (SELECT sum(n_dead_tup)::bigint FROM pg_stat_user_tables)
			FROM pg_class WHERE relkind = 'r' AND relnamespace = $1::regnamespace`, l.nodes[0].schema).Scan(&m.size, &m.dead))
		t.Logf("minute %d: %d jobs, %v of the server each; p50 %v, p99 %v, at most %v late; %d MB, %d dead rows",
			n+1, m.settled, m.perJob(), m.late(0.5), m.late(0.99), m.late(1), m.size>>20, m.dead)
	}
	l.minutes = l.minutes[:len(l.minutes)-1]
}

// deliver takes and settles jobs.
func (l *steady) deliver(ctx context.Context, s *Store) error {
	o := terms(500)
	o.Wait = time.Second
	taken, err := s.Take(ctx, 0, o)
	if err != nil || len(taken.Claims) == 0 {
		return err
	}
	settlements := make([]job.Settlement, len(taken.Claims))
	lates := make([]time.Duration, len(taken.Claims))
	for i := range taken.Claims {
		c := &taken.Claims[i]
		settlements[i], lates[i] = delivered(&c.Job), c.Now.Sub(c.Job.DueAt)
	}
	if _, err := s.Settle(ctx, settlements); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.minutes[len(l.minutes)-1]
	m.settled += len(settlements)
	m.lates = append(m.lates, lates...)
	return nil
}
