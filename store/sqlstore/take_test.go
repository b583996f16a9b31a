package sqlstore

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

// terms are generous terms of a take.
func terms(most int) store.TakeOptions {
	return store.TakeOptions{Max: most, Lease: time.Hour, LeaseMargin: time.Second, By: "test", Limits: store.FlightLimits{HalfOpenLimit: 1000}}
}

var uids atomic.Int64

// due are n registrations of jobs that are due.
func due(topic, endpoint string, n int) []store.Registration {
	all := make([]store.Registration, n)
	for i := range all {
		key := job.Key{Topic: topic, ID: fmt.Sprint("job-", i)}
		all[i] = store.Registration{Key: key, UID: store.BindUID(fmt.Sprintf("%019d%07d", uids.Add(1), 0), key), Spec: job.Spec{
			Destination: job.Destination(endpoint), Body: []byte(`{}`),
		}}
	}
	return all
}

func register(t *testing.T, s *Store, regs []store.Registration) {
	t.Helper()
	done, err := s.Register(t.Context(), regs)
	must.OK(t, err)
	for _, r := range done {
		if r.Outcome != store.Created {
			t.Fatalf("the outcome is %d", r.Outcome)
		}
	}
}

// take takes up to so many jobs.
func take(t *testing.T, s *Store, o store.TakeOptions) store.Taken {
	t.Helper()
	taken, err := s.Take(t.Context(), 0, o)
	must.OK(t, err)
	return taken
}

func TestTake(t *testing.T) {
	s := openStore(t, newOptions())
	register(t, s, due("t", "http://a.example/", 5))
	taken := take(t, s, terms(3))
	if len(taken.Claims) != 3 || taken.Wait != 0 {
		t.Fatalf("%d claims, wait %v", len(taken.Claims), taken.Wait)
	}
	taken2 := take(t, s, terms(10))
	if len(taken2.Claims) != 2 || taken2.Wait < 59*time.Minute {
		t.Fatalf("%d claims, wait %v", len(taken2.Claims), taken2.Wait)
	}
	var settlements []job.Settlement
	for _, c := range slices.Concat(taken.Claims, taken2.Claims) {
		if c.From != job.Waiting || c.Job.State != job.Running || c.Job.Token == 0 || string(c.Job.Spec.Body) != "{}" {
			t.Errorf("a claim of %+v", c)
		}
		settlements = append(settlements, job.Settle(&c.Job, job.Outcome{Kind: job.OutcomeDelivered, Attempt: &job.Attempt{Number: 1, Status: 200}}, nil))
	}
	settled, err := s.Settle(t.Context(), settlements)
	must.OK(t, err)
	for _, done := range settled {
		if done.Status != store.Applied {
			t.Errorf("settled with %v", done.Status)
		}
	}
	if taken := take(t, s, terms(10)); len(taken.Claims) != 0 || taken.Wait >= 0 {
		t.Errorf("%d claims of nothing, wait %v", len(taken.Claims), taken.Wait)
	}
}

// statement is how pgx names a prepared statement on the wire.
func statement(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "stmtcache_" + hex.EncodeToString(sum[:24])
}

// A take whose COMMIT has no answer finds out what became of it.
func TestTakeWithoutAnswerToCommit(t *testing.T) {
	proxy := testenv.StartProxy(t, server.Addr())
	o := newOptions()
	o.URL = strings.Replace(o.URL, server.Addr(), proxy.Addr(), 1)
	s := openStore(t, o)
	register(t, s, due("t", "http://a.example/", 4))
	if taken := take(t, s, terms(1)); len(taken.Claims) != 1 { // its statements are prepared then
		t.Fatalf("%d claims", len(taken.Claims))
	}
	proxy.DropReplies(testenv.First(1, statement("COMMIT")))
	taken := take(t, s, terms(2))
	if proxy.Dropped() != 1 || len(taken.Claims) != 2 {
		t.Fatalf("%d claims after %d lost answers", len(taken.Claims), proxy.Dropped())
	}
	var settlements []job.Settlement
	for _, c := range taken.Claims {
		settlements = append(settlements, delivered(&c.Job))
	}
	done, err := s.Settle(t.Context(), settlements)
	must.OK(t, err)
	for _, d := range done {
		if d.Status != store.Applied {
			t.Errorf("settled with %v", d.Status)
		}
	}
}

// A take that loses its connection before COMMIT has claimed nothing, and the jobs are due at once.
func TestTakeWithoutConnection(t *testing.T) {
	proxy := testenv.StartProxy(t, server.Addr())
	o := newOptions()
	o.URL = strings.Replace(o.URL, server.Addr(), proxy.Addr(), 1)
	s := openStore(t, o)
	register(t, s, due("t", "http://a.example/", 3))
	take(t, s, terms(1))
	proxy.DropReplies(testenv.First(1, statement(s.sql(foldDeltas))))
	if taken, err := s.Take(t.Context(), 0, terms(2)); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("%d claims, %v", len(taken.Claims), err)
	}
	if taken := take(t, s, terms(10)); len(taken.Claims) != 2 {
		t.Errorf("%d claims after that", len(taken.Claims))
	}
}

// Nodes that take at the same time get each job once, and a topic's limit holds.
func TestTakersTogether(t *testing.T) {
	const jobs, limit = 300, 40
	o := newOptions()
	first := openStore(t, o)
	stores := []*Store{first, first, openStore(t, o), openStore(t, o)}
	register(t, first, due("free", "http://a.example/", jobs))
	register(t, first, due("limited", "http://b.example/", jobs))
	must.OK(t, first.SetLimits(t.Context(), "limited", store.Limits{Concurrency: limit}))
	var mu sync.Mutex
	claimed := map[job.Key]int{}
	var wg sync.WaitGroup
	for _, s := range stores {
		wg.Go(func() {
			for {
				taken, err := s.Take(t.Context(), 0, terms(16))
				if err != nil {
					t.Errorf("take: %v", err)
				}
				if len(taken.Claims) == 0 {
					return
				}
				mu.Lock()
				for _, c := range taken.Claims {
					claimed[c.Job.Key]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	topics := map[string]int{}
	for key, n := range claimed {
		topics[key.Topic]++
		if n != 1 {
			t.Errorf("%s was claimed %d times", key, n)
		}
	}
	if topics["free"] != jobs || topics["limited"] != limit {
		t.Errorf("claimed: %v", topics)
	}
}

// While a topic has its share of workers, a take reads and writes none of its lanes, and returns soon, so that the caller asks again.
func TestTakeBesideCrowd(t *testing.T) {
	s := openStore(t, newOptions())
	var crowd []store.Registration
	for n := range 40 {
		one := due("crowd", fmt.Sprintf("http://a-%d.example/", n), 1)
		one[0].Key.ID = fmt.Sprint("job-", n)
		crowd = append(crowd, one...)
	}
	register(t, s, crowd)
	folding(t, s)
	o := terms(10)
	o.Workers = &store.Workers{Free: 10, Has: map[string]int{"crowd": 80}}
	const lanes = `SELECT sum(rev) FROM duehook.lane WHERE topic = 'crowd'`
	before := one[int64](t, s, lanes)
	register(t, s, due("other", "http://b.example/", 3))
	must.Equal(t, "claims of the other topic", len(take(t, s, o).Claims), 3)
	register(t, s, func() []store.Registration {
		later := due("other", "http://b.example/", 1)
		later[0].Key.ID, later[0].Spec.When.Delay = "later", time.Hour
		return later
	}())
	waits := o
	waits.Wait = time.Hour
	must.Equal(t, "claims beside the crowd", len(take(t, s, waits).Claims), 0)
	must.Equal(t, "versions of lanes in the crowd", one[int64](t, s, lanes), before)
	o.Workers.Has["crowd"] = 71 // one of them has ended
	taken := take(t, s, o)
	must.Equal(t, "claims of the crowd", len(taken.Claims), 1)
	must.Equal(t, "the wait, while others wait for workers", taken.Wait, 0)
}

// A registration wakes a take that waits, also one of another node.
func TestTakeIsWoken(t *testing.T) {
	o := newOptions()
	s, other := openStore(t, o), openStore(t, o)
	for _, registrar := range []*Store{s, other} {
		got := make(chan error, 1)
		waits := terms(1)
		waits.Wait = time.Minute
		go func() {
			taken, err := s.Take(t.Context(), 0, waits)
			if err == nil && len(taken.Claims) != 1 {
				err = fmt.Errorf("%d claims", len(taken.Claims))
			}
			got <- err
		}()
		register(t, registrar, due(fmt.Sprint("t", uids.Load()), "http://a.example/", 1))
		must.OK(t, <-got)
	}
}

// After the clock went back, leases end within the longest one, and circuits are half-open.
func TestTakeAfterTheClockWentBack(t *testing.T) {
	s := openStore(t, newOptions())
	register(t, s, due("t", "http://a.example/", 2))
	o := terms(1)
	o.Lease = 24 * time.Hour
	take(t, s, o)
	must.OK(t, s.SetCircuit(t.Context(), "http://a.example:80", store.CircuitOpen, 24*time.Hour))
	exec(t, s, `UPDATE duehook.total SET at = at + 3600000`)
	o = terms(10)
	o.Limits.Longest = time.Millisecond
	o.Wait = time.Minute
	taken := take(t, s, o)
	for len(taken.Claims) < 2 {
		taken.Claims = append(taken.Claims, take(t, s, o).Claims...)
	}
	from := map[job.State]int{}
	for _, c := range taken.Claims {
		from[c.From]++
	}
	must.Same(t, "claimed from", from, map[job.State]int{job.Waiting: 1, job.Running: 1})
}
