package metered_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/metered"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
)

var errBroken = errors.New("broken")

// stub answers every call with something of its own, and with err.
type stub struct {
	store.Store // nil: every method that the wrapper calls stands below

	err    error
	closed bool
}

var (
	key     = job.Key{Topic: "t", ID: "1"}
	regs    = []store.Registration{{Key: key}}
	carry   = store.CarryOptions{Cap: 3}
	settles = []job.Settlement{{Key: key}}
)

func (s *stub) Register(_ context.Context, r []store.Registration) ([]store.Registered, error) {
	return []store.Registered{{Job: job.Job{Key: r[0].Key}}}, s.err
}

func (s *stub) Update(_ context.Context, k job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	j := job.Job{Key: k}
	if err := change(&j, 5); err != nil {
		return j, fmt.Errorf("not changed: %w", err)
	}
	return j, s.err
}

func (s *stub) Get(_ context.Context, k job.Key) (job.Job, error) { return job.Job{Key: k}, s.err }

func (s *stub) Outlook(_ context.Context, k job.Key) (store.Outlook, error) {
	return store.Outlook{Worker: k.String()}, s.err
}

func (s *stub) Count(_ context.Context, c store.Count) (store.Counted, error) {
	return store.Counted{Job: job.Job{Key: c.Key, Counted: 3}}, s.err
}

func (s *stub) Shards() int { return 7 }

func (s *stub) Names(_ context.Context, q store.NameQuery) ([]string, error) {
	return []string{q.From}, s.err
}

func (s *stub) Entries(_ context.Context, of store.Index, span store.Span) ([]store.Entry, *store.Position, error) {
	return make([]store.Entry, span.N), &store.Position{ID: of.Name}, s.err
}

func (s *stub) Read(_ context.Context, q store.ReadQuery) (store.Records, error) {
	return store.Records{Jobs: make([]*job.Job, len(q.Keys))}, s.err
}

func (s *stub) Figures(_ context.Context, q store.FigureQuery) (store.Figures, error) {
	return store.Figures{Now: 7, Cost: q.Shard}, s.err
}

func (s *stub) Carry(_ context.Context, shard int, o store.CarryOptions) (store.CarryResult, error) {
	return store.CarryResult{Wait: time.Duration(shard + o.Cap)}, s.err
}

func (s *stub) Publish(_ context.Context, _ string, _ []byte) error { return s.err }

func (s *stub) Listen(_ context.Context, channel string, receive func([]byte)) error {
	receive([]byte(channel))
	return s.err
}

func (s *stub) SetLimits(context.Context, string, store.Limits) error { return s.err }

func (s *stub) Locker(shard int) store.Locker { return stubLocker{s, shard} }

func (s *stub) Take(_ context.Context, shard int, o store.TakeOptions) (store.Taken, error) {
	return store.Taken{Wait: time.Duration(shard + o.Max)}, s.err
}

func (s *stub) Settle(_ context.Context, set []job.Settlement) ([]store.Settled, error) {
	return []store.Settled{{Reason: set[0].Key.String()}}, s.err
}

func (s *stub) SetCircuit(context.Context, string, store.CircuitState, time.Duration) error {
	return s.err
}

func (s *stub) Purge(_ context.Context, limit int) (int, error) { return limit, s.err }
func (s *stub) Ping(context.Context) error                      { return s.err }

func (s *stub) ListDocuments(_ context.Context, q store.DocumentQuery) ([]store.Document, error) {
	return []store.Document{{Kind: q.Kind}}, s.err
}

func (s *stub) PutDocuments(_ context.Context, docs []store.Document) ([]uint64, error) {
	return make([]uint64, len(docs)), s.err
}

func (s *stub) Close() error {
	s.closed = true
	return s.err
}

type stubLocker struct {
	*stub
	shard int
}

func (l stubLocker) TryLock(_ context.Context, ttl time.Duration) (bool, error) {
	return l.shard == 2 && ttl == time.Second, l.err
}

func (l stubLocker) Extend(context.Context) (bool, error) {
	return l.shard == 2, l.err
}

func (l stubLocker) Unlock(context.Context) error { return l.err }

// calls makes one call of each operation, and returns its answer and error.
var calls = map[string]func(ctx context.Context, s store.Store) (any, error){
	"register": func(ctx context.Context, s store.Store) (any, error) { return s.Register(ctx, regs) },
	"count":    func(ctx context.Context, s store.Store) (any, error) { return s.Count(ctx, store.Count{Key: key}) },
	"update": func(ctx context.Context, s store.Store) (any, error) {
		return s.Update(ctx, key, func(j *job.Job, now job.Instant) error {
			j.DueAt = now
			return nil
		})
	},
	"get":     func(ctx context.Context, s store.Store) (any, error) { return s.Get(ctx, key) },
	"outlook": func(ctx context.Context, s store.Store) (any, error) { return s.Outlook(ctx, key) },
	"names":   func(ctx context.Context, s store.Store) (any, error) { return s.Names(ctx, store.NameQuery{From: "f"}) },
	"entries": func(ctx context.Context, s store.Store) (any, error) {
		entries, next, err := s.Entries(ctx, store.Index{Name: "n"}, store.Span{N: 3})
		return []any{entries, next}, err
	},
	"read": func(ctx context.Context, s store.Store) (any, error) {
		return s.Read(ctx, store.ReadQuery{Keys: []job.Key{key}})
	},
	"figures": func(ctx context.Context, s store.Store) (any, error) {
		return s.Figures(ctx, store.FigureQuery{Shard: 3})
	},
	"set_limits": func(ctx context.Context, s store.Store) (any, error) {
		return nil, s.SetLimits(ctx, "t", store.Limits{Paused: true})
	},
	"publish": func(ctx context.Context, s store.Store) (any, error) { return nil, s.Publish(ctx, "c", nil) },
	"listen": func(ctx context.Context, s store.Store) (any, error) {
		var received []string
		err := s.Listen(ctx, "c", func(m []byte) { received = append(received, string(m)) })
		return received, err
	},
	"take": func(ctx context.Context, s store.Store) (any, error) {
		return s.Take(ctx, 1, store.TakeOptions{Max: 3})
	},
	"settle": func(ctx context.Context, s store.Store) (any, error) { return s.Settle(ctx, settles) },
	"set_circuit": func(ctx context.Context, s store.Store) (any, error) {
		return nil, s.SetCircuit(ctx, "e", store.CircuitOpen, time.Second)
	},
	"purge": func(ctx context.Context, s store.Store) (any, error) { return s.Purge(ctx, 500) },
	"list_documents": func(ctx context.Context, s store.Store) (any, error) {
		return s.ListDocuments(ctx, store.DocumentQuery{Kind: "k"})
	},
	"put_documents": func(ctx context.Context, s store.Store) (any, error) {
		return s.PutDocuments(ctx, []store.Document{{Kind: "k", Name: "n"}})
	},
	"ping": func(ctx context.Context, s store.Store) (any, error) { return nil, s.Ping(ctx) },
}

// listCalls are those of ready lists.
var listCalls = map[string]func(ctx context.Context, l store.ReadyList) (any, error){
	"carry": func(ctx context.Context, l store.ReadyList) (any, error) { return l.Carry(ctx, 1, carry) },
	"lock": func(ctx context.Context, l store.ReadyList) (any, error) {
		return l.Locker(2).TryLock(ctx, time.Second)
	},
	"extend": func(ctx context.Context, l store.ReadyList) (any, error) { return l.Locker(2).Extend(ctx) },
	"unlock": func(ctx context.Context, l store.ReadyList) (any, error) { return nil, l.Locker(2).Unlock(ctx) },
}

func TestObserve(t *testing.T) {
	for _, tc := range []struct {
		name   string
		err    error
		failed float64
	}{
		{name: "success"},
		{name: "failure", err: fmt.Errorf("%w: %w", store.ErrUnavailable, errBroken), failed: 1},
		{name: "timeout", err: context.DeadlineExceeded, failed: 1},
		{name: "no such job", err: fmt.Errorf("get: %w", store.ErrNotFound)},
		{name: "bad cursor", err: store.ErrBadCursor},
		{name: "conflict", err: store.ErrConflict},
		{name: "given up", err: fmt.Errorf("%w: %w", store.ErrUnavailable, context.Canceled)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plain := &stub{err: tc.err}
			observed, lists, registry := observe(t, plain)
			want := make(map[string]counts)
			check := func(op string, wantAnswer, answer any, err error) {
				t.Helper()
				if diff := cmp.Diff(wantAnswer, answer); diff != "" || !errors.Is(err, tc.err) {
					t.Errorf("%s was changed: error %v, answer (-want +got):\n%s", op, err, diff)
				}
				want[op] = counts{Measured: 1, Failed: tc.failed}
			}
			for op, call := range calls {
				wantAnswer, _ := call(t.Context(), plain)
				answer, err := call(t.Context(), observed)
				check(op, wantAnswer, answer, err)
			}
			for op, call := range listCalls {
				wantAnswer, _ := call(t.Context(), plain)
				answer, err := call(t.Context(), lists)
				check(op, wantAnswer, answer, err)
			}
			for _, op := range []string{"take", "listen"} { // they wait by design
				want[op] = counts{Failed: tc.failed}
			}
			if diff := cmp.Diff(want, gather(t, registry)); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
}

func TestObserveCoversTheInterface(t *testing.T) {
	// Shards and Close are not measured.
	if n := reflect.TypeFor[store.Store]().NumMethod() - len([]string{"Shards", "Close"}); n != len(calls) {
		t.Errorf("%d methods, but the test knows %d operations", n, len(calls))
	}
	// Of a lock's three calls, one comes for the method that gives it.
	lists := reflect.TypeFor[store.ReadyList]().NumMethod() - len([]string{"Shards"})
	if lists += reflect.TypeFor[store.Locker]().NumMethod() - len([]string{"Locker"}); lists != len(listCalls) {
		t.Errorf("%d methods of ready lists, but the test knows %d operations", lists, len(listCalls))
	}
}

func TestObserveWithoutReadyLists(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	if _, lists, err := metered.Store(&stub{}, nil, registry); err != nil || lists != nil {
		t.Errorf("ready lists %v, error %v", lists, err)
	}
	got := gather(t, registry)
	for op := range listCalls {
		if _, known := got[op]; known {
			t.Errorf("there are metrics about %s", op)
		}
	}
}

func TestObserveRefusedChange(t *testing.T) {
	observed, _, registry := observe(t, &stub{})
	refused := errors.New("the job has ended")
	_, err := observed.Update(t.Context(), key, func(*job.Job, job.Instant) error { return refused })
	if !errors.Is(err, refused) {
		t.Errorf("error %v, want that of the change", err)
	}
	if got := gather(t, registry)["update"]; got.Failed != 0 || got.Measured != 1 {
		t.Errorf("a refused change was counted as %+v", got)
	}
}

func TestObservePassesTheRest(t *testing.T) {
	s := &stub{err: errBroken}
	observed, lists, _ := observe(t, s)
	if n, of := observed.Shards(), lists.Shards(); n != 7 || of != 7 {
		t.Errorf("%d and %d shards, want 7", n, of)
	}
	if err := observed.Close(); !errors.Is(err, errBroken) || !s.closed {
		t.Errorf("Close: %v, closed: %v", err, s.closed)
	}
}

func TestObserveRegistration(t *testing.T) {
	s := &stub{}
	if observed, lists, err := metered.Store(s, s, nil); err != nil || observed != store.Store(s) || lists != store.ReadyList(s) {
		t.Errorf("without a registerer: %v, %v; want the store itself", observed, err)
	}
	_, _, registry := observe(t, s)
	if _, _, err := metered.Store(s, s, registry); err == nil {
		t.Error("the same metrics were registered twice")
	}
}

func BenchmarkObserve(b *testing.B) {
	s, _, err := metered.Store(&stub{}, nil, prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Ping(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func observe(t *testing.T, s *stub) (store.Store, store.ReadyList, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	observed, lists, err := metered.Store(s, s, registry)
	if err != nil {
		t.Fatal(err)
	}
	return observed, lists, registry
}

type counts struct {
	Measured uint64
	Failed   float64
}

// gather reads the metrics by operation.
func gather(t *testing.T, registry *prometheus.Registry) map[string]counts {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"duehook_store_errors_total", "duehook_store_seconds"}
	got := make(map[string]counts)
	for _, f := range families {
		if f.GetName() == "duehook_leases_expired_total" { // see TestLeasesExpired
			continue
		}
		if !slices.Contains(names, f.GetName()) {
			t.Errorf("unknown metric %s", f.GetName())
		}
		for _, m := range f.GetMetric() {
			op := m.GetLabel()[0].GetValue()
			c := got[op]
			c.Measured += m.GetHistogram().GetSampleCount()
			c.Failed += m.GetCounter().GetValue()
			got[op] = c
		}
	}
	return got
}

// taker answers Take with claims from some states.
type taker struct {
	store.Store
	from []job.State
}

func (t *taker) Take(context.Context, int, store.TakeOptions) (store.Taken, error) {
	var taken store.Taken
	for _, from := range t.from {
		taken.Claims = append(taken.Claims, store.Claimed{From: from})
	}
	return taken, nil
}

// Claims of jobs whose leases expired are counted, whatever the store.
func TestLeasesExpired(t *testing.T) {
	registry := prometheus.NewRegistry()
	s, _, err := metered.Store(&taker{from: []job.State{job.Waiting, job.Running, job.Ready, job.Running}}, nil, registry)
	must.OK(t, err)
	_, err = s.Take(t.Context(), 0, store.TakeOptions{})
	must.OK(t, err)
	const want = `# HELP duehook_leases_expired_total Jobs claimed again because the lease of an earlier claim had expired.
# TYPE duehook_leases_expired_total counter
duehook_leases_expired_total 2
`
	must.OK(t, testutil.GatherAndCompare(registry, strings.NewReader(want), "duehook_leases_expired_total"))
}
