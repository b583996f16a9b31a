package carrier

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

func TestPurge(t *testing.T) {
	for _, tc := range []struct {
		name        string
		ended       int
		want, calls int
	}{
		{name: "nothing", calls: 1},
		{name: "a few", ended: 3, want: 3, calls: 2},
		{name: "many batches", ended: 5*purgeBatch + 1, want: 5*purgeBatch + 1, calls: 7},
		{name: "more than one run may do", ended: 1 << 30, want: purgeBatches * purgeBatch, calls: purgeBatches},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newFakeStore()
			s.purge = func(_ context.Context, limit int) (int, error) {
				n := min(limit, tc.ended)
				tc.ended -= n
				return n, nil
			}
			c, err := New(Options{Store: s})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.purge(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := int(testutil.ToFloat64(c.metrics.purged)); n != tc.want || s.purges != tc.calls {
				t.Errorf("purged %d in %d calls, want %d in %d", n, s.purges, tc.want, tc.calls)
			}
		})
	}
}

func TestWaitingJobsOfTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		calls := 0
		s.backlog = func() (int64, error) {
			if calls++; calls > 1 {
				return 0, store.ErrUnavailable
			}
			return 7, nil
		}
		samples := make(chan *store.Backlogs, 1)
		start(t, s, func(o *Options) { o.Waiting = func(b *store.Backlogs) { samples <- b } })
		if b := <-samples; b == nil || len(b.Topics) != 1 || b.Topics[0].Jobs != 7 {
			t.Errorf("sampled %v", b)
		}
		if b := <-samples; b != nil {
			t.Errorf("a call that failed gave %v", b)
		}
	})
}

func TestDepthMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		var err error
		s.depth = func(context.Context) (store.Depth, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if err != nil {
				return store.Depth{}, err
			}
			return store.Depth{
				States:    map[job.State]int64{job.Waiting: 10_000, job.Dead: 2},
				ReadyList: 7, OpenCircuits: 1, OldestDue: 1_000_000, OrderKeys: 3, Behind: 40, Now: 1_002_500,
			}, nil
		}
		registry := prometheus.NewPedanticRegistry()
		c := start(t, s, func(o *Options) { o.Metrics = registry })
		synctest.Wait()
		want := `
# HELP duehook_open_circuits Endpoints whose circuit is open or half-open.
# TYPE duehook_open_circuits gauge
duehook_open_circuits 1
# HELP duehook_jobs Jobs in the store, by state.
# TYPE duehook_jobs gauge
duehook_jobs{state="cancelled"} 0
duehook_jobs{state="dead"} 2
duehook_jobs{state="delivered"} 0
duehook_jobs{state="expired"} 0
duehook_jobs{state="ready"} 0
duehook_jobs{state="retrying"} 0
duehook_jobs{state="running"} 0
duehook_jobs{state="waiting"} 10000
# HELP duehook_oldest_due_seconds Time since the oldest due job has been due, in seconds.
# TYPE duehook_oldest_due_seconds gauge
duehook_oldest_due_seconds 2.5
# HELP duehook_order_keys Order keys with unfinished jobs, or stopped by a dead letter.
# TYPE duehook_order_keys gauge
duehook_order_keys 3
# HELP duehook_order_waiting_jobs Jobs that wait for another job of their order key.
# TYPE duehook_order_waiting_jobs gauge
duehook_order_waiting_jobs 40
# HELP duehook_ready_length Hints on the ready lists.
# TYPE duehook_ready_length gauge
duehook_ready_length 7
`
		names := []string{
			"duehook_open_circuits", "duehook_jobs", "duehook_oldest_due_seconds", "duehook_ready_length",
			"duehook_order_keys", "duehook_order_waiting_jobs",
		}
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
			t.Error(err)
		}

		s.set(func() { err = errDown })
		pass(time.Minute)
		if n, _ := testutil.GatherAndCount(registry, names...); n != 0 {
			t.Errorf("%d series of a depth that cannot be sampled any more", n)
		}
		s.set(func() { err = nil })
		pass(time.Minute)
		if n, _ := testutil.GatherAndCount(registry, names...); n != 13 {
			t.Errorf("%d series of the depth, want 13", n)
		}
		for _, line := range []string{
			"WARN failing; retrying: sampling the store's depth", "INFO working again: sampling the store's depth",
		} {
			if n := c.logs.count(line); n != 1 {
				t.Errorf("%q was logged %d times, want once", line, n)
			}
		}
	})
}

func TestOldestDue(t *testing.T) {
	for name, tc := range map[string]struct {
		oldest job.Instant
		want   float64
	}{
		"no unfinished job": {0, 0},
		"not due yet":       {20_000, 0},
		"due now":           {10_000, 0},
		"overdue":           {8_500, 1.5},
	} {
		g := &depthGauges{}
		g.last.Store(&store.Depth{OldestDue: tc.oldest, Now: 10_000})
		registry := prometheus.NewRegistry()
		registry.MustRegister(g)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "duehook_oldest_due_seconds" {
				if got := f.GetMetric()[0].GetGauge().GetValue(); got != tc.want {
					t.Errorf("%s: %v, want %v", name, got, tc.want)
				}
			}
		}
	}
}

func TestSlowChoreIsNotRunTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		running, overlapped := 0, false
		s.depth = func(ctx context.Context) (store.Depth, error) {
			s.set(func() { running++; overlapped = overlapped || running > 1 })
			err := job.Sleep(ctx, s.clock, 40*time.Second)
			s.set(func() { running-- })
			return store.Depth{}, err
		}
		c := start(t, s)
		pass(10 * time.Minute)
		c.stop()
		if overlapped {
			t.Error("two samplings ran at once")
		}
		checkAtMost(t, "samplings of 40s each in 10min", s.depths, 15)
		checkAtMost(t, "purges beside slow samplings", s.purges, 21)
	})
}

func TestChoreThatPanicsIsRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.purge = func(context.Context, int) (int, error) { panic("a bug") }
		c := start(t, s)
		pass(5*time.Minute + time.Second)
		c.stop()
		checkAtMost(t, "purges in 5min", s.purges, 11)
		if n := c.logs.count("WARN failing; retrying: purging ended jobs"); n != 1 {
			t.Errorf("the panics were logged %d times, want once", n)
		}
	})
}

func TestRunWaitsForItsChores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		began, ended := 0, 0
		s.purge = func(ctx context.Context, _ int) (int, error) {
			first := false
			s.set(func() { began++; first = began == 1 })
			if !first {
				<-ctx.Done()
			}
			pass(time.Second)
			s.set(func() { ended++ })
			return 0, ctx.Err()
		}
		c := start(t, s)
		pass(time.Minute)
		c.stop()
		if began != 2 || ended != 2 {
			t.Errorf("%d purges began and %d had ended when Run returned, want 2", began, ended)
		}
		if c.logs.count("WARN failing; retrying: purging ended jobs") != 0 {
			t.Error("the purge that the shutdown gave up was logged as a failure")
		}
	})
}

func TestOptionErrors(t *testing.T) {
	_, err := New(Options{
		CarryOptions: store.CarryOptions{Cap: -1, Visibility: -1, FlightLimits: store.FlightLimits{HalfOpenLimit: -1}},
		LockTTL:      time.Millisecond, Poll: time.Millisecond, Lag: -1, Housekeeping: -1,
	})
	if err == nil {
		t.Fatal("no error")
	}
	want := strings.Join([]string{
		"carrier: a store is required",
		"carrier: the cap of the ready list must be positive, not -1",
		"carrier: the visibility deadline must be positive, not -1ns",
		"carrier: the limit of half-open circuits must be positive, not -1",
		"carrier: the lock's TTL must be at least 100ms, not 1ms",
		"carrier: the poll interval must be at least 10ms, not 1ms",
		"carrier: the lag must be positive, not -1ns",
		"carrier: the housekeeping interval must be at least 1s, not -1ns",
	}, "\n")
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := newFakeStore()
	o := Options{Store: s, Lists: s, Metrics: registry}
	if _, err := New(o); err != nil {
		t.Fatal(err)
	}
	if _, err := New(o); err == nil {
		t.Error("a second carrier's metrics were registered in the same place")
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("problems with the metrics: %v %v", problems, err)
	}
}
