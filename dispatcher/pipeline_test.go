package dispatcher

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/store"
)

const anyURL = "http://shop.example/hook"

// always answers every request the same.
func always(code int) roundTripper {
	return func(*http.Request) (*http.Response, error) { return status(code), nil }
}

// logs collects log lines.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), s)
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func TestDeliveryIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		launch(t, withTransport(t, Options{Store: s, ID: "node-1"}, always(200)))
		j := newJob("a", anyURL)
		s.add(j)
		got := next(t, s.settled, "settlement")
		if got.Claimed == nil || got.Claimed.Key != j.Key {
			t.Errorf("the settlement is of %v", got.Claimed)
		}
		got.Claimed = nil
		want := job.Settlement{
			Key: j.Key, Lane: j.Lane(), Token: 1, Due: j.NextAt, CreatedAt: j.CreatedAt, To: job.Delivered, Reason: job.ReasonDelivered,
			IfCancelled: job.Delivered, Attempts: 1,
			Attempt: &job.Attempt{Number: 1, StartedAt: j.DueAt, Status: 200, Reason: job.ReasonDelivered, Node: "node-1"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("settlement (-want +got):\n%s", diff)
		}
		call := next(t, s.claims, "claim")
		wantOptions := store.ClaimOptions{Lease: 25 * time.Second, LeaseMargin: 10 * time.Second, By: "node-1"}
		if diff := cmp.Diff(wantOptions, call.o, cmpopts.IgnoreFields(store.ClaimOptions{}, "Nonce", "Left")); diff != "" {
			t.Errorf("claim options (-want +got):\n%s", diff)
		}
		if n := len(call.o.Nonce); n < 16 || n > 64 {
			t.Errorf("nonce %q", call.o.Nonce)
		}
	})
}

func TestFailureFollowsTheLadderOfTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		launch(t, withTransport(t, Options{Store: s, Policy: exact(time.Minute)}, always(500)))
		j := newJob("server's", anyURL)
		s.add(j)
		if got := next(t, s.settled, "settlement"); got.To != job.Retrying || got.Delay != time.Minute {
			t.Errorf("%+v", got)
		}
		j = newJob("own", anyURL)
		j.Attempts = 1
		j.Spec.Retry = &job.Retry{Steps: []time.Duration{time.Second, 2 * time.Second}}
		s.add(j)
		if got := next(t, s.settled, "settlement"); got.To != job.Retrying || got.Delay != 2*time.Second {
			t.Errorf("%+v", got)
		}
		j = newJob("last", anyURL)
		j.Attempts = 1
		s.add(j)
		if got := next(t, s.settled, "settlement"); got.To != job.Dead || got.Reason != job.ReasonRetryLimit || got.Attempts != 2 {
			t.Errorf("%+v", got)
		}
	})
}

func TestJobsThatNeedNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		launch(t, withTransport(t, Options{Store: s}, roundTripper(func(r *http.Request) (*http.Response, error) {
			t.Errorf("a request was made for %s", r.Header.Get("Duehook-Job-Id"))
			return status(200), nil
		})))
		expired, cancelled, crashing := newJob("expired", anyURL), newJob("cancelled", anyURL), newJob("crashing", anyURL)
		expired.ExpiresAt = expired.DueAt
		cancelled.CancelRequested = true
		crashing.ExpiredLeases = job.MaxExpiredLeases
		for _, tt := range []struct {
			job    job.Job
			to     job.State
			reason string
		}{
			{expired, job.Expired, job.ReasonTTL},
			{cancelled, job.Cancelled, job.ReasonCancelled},
			{crashing, job.Dead, job.ReasonLeaseExpired},
		} {
			s.add(tt.job)
			if got := next(t, s.settled, "settlement"); got.To != tt.to || got.Reason != tt.reason || got.Attempts != 0 {
				t.Errorf("%s: %+v", tt.job.ID, got)
			}
		}
	})
}

func TestClaimIsRepeatedWithItsNonce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newFakeStore(), &logs{}
		s.claimHook = func(_ context.Context, call int, _ []store.Hint) (before, after error) {
			switch {
			case call == 1: // refused
				return errDown, nil
			case call < 6: // the reply is lost
				return nil, errDown
			}
			return nil, nil
		}
		launch(t, withTransport(t, Options{Store: s, Logger: l.logger()}, always(200)))
		s.add(newJob("a", anyURL))
		got := next(t, s.settled, "settlement")
		if got.To != job.Delivered || got.Token != 1 {
			t.Errorf("%+v; the job must have been claimed once", got)
		}
		first := next(t, s.claims, "claim").o.Nonce
		for range 5 {
			if nonce := next(t, s.claims, "claim").o.Nonce; nonce != first {
				t.Errorf("nonce %q, want %q", nonce, first)
			}
		}
		s.add(newJob("b", anyURL))
		next(t, s.settled, "settlement")
		if nonce := next(t, s.claims, "claim").o.Nonce; nonce == first {
			t.Error("another claim has the same nonce")
		}
		if l.count("failing; retrying") != 1 || l.count("working again") != 1 {
			t.Errorf("want one line for the outage and one for its end:\n%s", l.buf.String())
		}
	})
}

func TestJobThatCannotBeClaimedHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.claimHook = func(_ context.Context, _ int, hints []store.Hint) (before, after error) {
			if slices.ContainsFunc(hints, func(h store.Hint) bool { return h.ID == "poison" }) {
				return nil, errStore // after the others were claimed
			}
			return nil, nil
		}
		for _, id := range []string{"before", "poison", "after"} {
			s.add(newJob(id, anyURL))
		}
		launch(t, withTransport(t, Options{Store: s}, always(200)))
		for range 2 {
			if got := next(t, s.settled, "settlement"); got.Key.ID == "poison" || got.To != job.Delivered || got.Token != 1 {
				t.Errorf("%+v", got)
			}
		}
		s.add(newJob("later", anyURL))
		next(t, s.settled, "settlement")
	})
}

func TestTakingGoesOnAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newFakeStore(), &logs{}
		var up atomic.Bool
		var calls atomic.Int32
		s.popHook = func(context.Context) error {
			calls.Add(1)
			if !up.Load() {
				return errStore
			}
			return nil
		}
		s.add(newJob("a", anyURL))
		began := time.Now()
		launch(t, withTransport(t, Options{Store: s, Logger: l.logger()}, always(200)))
		pass(t, time.Minute)
		if n := calls.Load(); n < 55 || n > 120 {
			t.Errorf("%d tries in a minute", n)
		}
		up.Store(true)
		next(t, s.settled, "settlement")
		if took := time.Since(began) - time.Minute; took > loops.LongPause {
			t.Errorf("resumed after %v", took)
		}
		if l.count("failing; retrying") != 1 || l.count("working again") != 1 {
			t.Errorf("want one line for the outage and one for its end:\n%s", l.buf.String())
		}
	})
}

func TestLateClaimIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.claimHook = func(ctx context.Context, call int, _ []store.Hint) (before, after error) {
			if call == 1 { // the reply takes so long that the lease could end during the request
				_ = job.Sleep(ctx, job.SystemClock(), 8*time.Second)
			}
			return nil, nil
		}
		launch(t, withTransport(t, Options{Store: s}, always(200)))
		s.add(newJob("late", anyURL))
		if got := next(t, s.settled, "settlement"); got.To != job.Waiting || got.Reason != job.ReasonLeaseExpired || got.Attempts != 0 || got.Delay != 0 {
			t.Errorf("%+v", got)
		}
		s.add(newJob("in time", anyURL))
		if got := next(t, s.settled, "settlement"); got.To != job.Delivered {
			t.Errorf("%+v", got)
		}
	})
}

func TestSettlingGoesOnWhileTheStoreIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newFakeStore(), &logs{}
		began := time.Now()
		s.settle = func(_ context.Context, _ int, batch []job.Settlement) ([]store.Settled, error) {
			if time.Since(began) < time.Hour { // far beyond the lease
				return nil, fmt.Errorf("%w: down", store.ErrUnavailable)
			}
			return s.apply(batch), nil
		}
		launch(t, withTransport(t, Options{Store: s, Logger: l.logger()}, always(200)))
		s.add(newJob("a", anyURL))
		pass(t, time.Hour)
		if got := next(t, s.settled, "settlement"); got.To != job.Delivered {
			t.Errorf("%+v", got)
		}
		if l.count("failing; retrying") != 1 {
			t.Errorf("want one line for the outage:\n%s", l.buf.String())
		}
	})
}

func TestOutcomeThatTheStoreCannotTakeHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newFakeStore(), &logs{}
		blocked := make(chan struct{})
		s.settle = func(_ context.Context, call int, batch []job.Settlement) ([]store.Settled, error) {
			if call == 1 {
				<-blocked // so that the next batch gathers
			}
			for _, st := range batch {
				if st.Key.ID == "poison" {
					return nil, errStore
				}
			}
			return s.apply(batch), nil
		}
		d := withTransport(t, Options{Store: s, Logger: l.logger()}, always(200))
		launch(t, d)
		s.add(newJob("first", anyURL))
		synctest.Wait()
		for _, id := range []string{"before", "poison", "after"} {
			s.add(newJob(id, anyURL))
		}
		synctest.Wait()
		unblocked := time.Now()
		close(blocked)
		settled := map[string]bool{}
		for range 3 {
			settled[next(t, s.settled, "settlement").Key.ID] = true
		}
		if took := time.Since(unblocked); took > time.Second {
			t.Errorf("the others were settled after %v", took)
		}
		if diff := cmp.Diff(map[string]bool{"first": true, "before": true, "after": true}, settled); diff != "" {
			t.Errorf("settled (-want +got):\n%s", diff)
		}
		pass(t, time.Second)
		if n := testutil.ToFloat64(d.metrics.dropped); n != 1 || l.count("cannot settle outcomes") != 1 {
			t.Errorf("%v outcomes dropped:\n%s", n, l.buf.String())
		}
	})
}

func TestSettlementsGatherWhileOneIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		var sizes []int
		release := make(chan struct{})
		s.settle = func(_ context.Context, _ int, batch []job.Settlement) ([]store.Settled, error) {
			sizes = append(sizes, len(batch))
			<-release
			return s.apply(batch), nil
		}
		launch(t, withTransport(t, Options{Store: s}, always(200)))
		s.add(newJob("first", anyURL))
		synctest.Wait()
		for i := range 300 {
			s.add(newJob(fmt.Sprint(i), anyURL))
		}
		synctest.Wait()
		close(release)
		synctest.Wait()
		if diff := cmp.Diff([]int{1, maxSettle, 300 - maxSettle}, sizes); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
	})
}

func TestStaleAndMissingOutcomesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newFakeStore(), &logs{}
		s.settle = func(_ context.Context, _ int, batch []job.Settlement) ([]store.Settled, error) {
			s.apply(batch)
			results := make([]store.Settled, len(batch))
			for i, st := range batch {
				switch st.Key.ID {
				case "stale":
					results[i].Status = store.Stale
				case "missing":
					results[i].Status = store.Missing
				default:
					results[i] = store.Settled{Status: store.Applied, To: job.Dead, Reason: job.ReasonGone}
				}
			}
			return results, nil
		}
		d := withTransport(t, Options{Store: s, Logger: l.logger()}, always(410))
		launch(t, d)
		for _, id := range []string{"stale", "missing", "gone"} {
			s.add(newJob(id, anyURL))
			next(t, s.settled, "settlement")
		}
		synctest.Wait()
		if n := testutil.ToFloat64(d.metrics.stale); n != 1 {
			t.Errorf("%v stale, want 1", n)
		}
		for _, line := range []string{"rejected a late outcome", "no longer exists", "a job is dead"} {
			if l.count(line) != 1 {
				t.Errorf("no line %q:\n%s", line, l.buf.String())
			}
		}
	})
}

func TestPanicCostsOneLeaseOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newFakeStore(), &logs{}
		d := withTransport(t, Options{Store: s, Logger: l.logger(), Workers: 1, BreakerFailures: 1},
			roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Header.Get("Duehook-Job-Id") == "bomb" {
					panic("boom")
				}
				return status(200), nil
			}))
		launch(t, d)
		s.add(newJob("bomb", anyURL))
		s.add(newJob("fine", anyURL))
		if got := next(t, s.settled, "settlement"); got.Key.ID != "fine" || got.To != job.Delivered {
			t.Errorf("%+v", got)
		}
		synctest.Wait()
		if len(s.settled) != 0 {
			t.Error("the job that panicked was settled")
		}
		if l.count("panic while delivering") != 1 {
			t.Errorf("no line about the panic:\n%s", l.buf.String())
		}
		if n := testutil.ToFloat64(d.metrics.inFlight); n != 0 {
			t.Errorf("%v in flight", n)
		}
	})
}

func TestNoMoreIsTakenThanWorkersAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		finish := make(chan struct{})
		d := withTransport(t, Options{Store: s, Workers: 3}, roundTripper(func(*http.Request) (*http.Response, error) {
			<-finish
			return status(200), nil
		}))
		launch(t, d)
		for i := range 10 {
			j := newJob(fmt.Sprint(i), anyURL)
			j.Topic = fmt.Sprint("topic-", i)
			s.add(j)
		}
		synctest.Wait()
		if n := len(s.hints); n != 7 {
			t.Errorf("%d hints left on the list, want 7", n)
		}
		if n := testutil.ToFloat64(d.metrics.inFlight); n != 3 {
			t.Errorf("%v in flight, want 3", n)
		}
		finish <- struct{}{}
		synctest.Wait()
		if n := len(s.hints); n != 6 {
			t.Errorf("%d hints left on the list, want 6", n)
		}
		close(finish)
		for range 10 {
			next(t, s.settled, "settlement")
		}
	})
}

func TestWorkersAreDividedOverShards(t *testing.T) {
	for _, tt := range []struct{ workers, shards, want int }{{512, 1, 512}, {512, 3, 171}, {2, 4, 1}} {
		if got := share(tt.workers, tt.shards); got != tt.want {
			t.Errorf("%d over %d: %d, want %d", tt.workers, tt.shards, got, tt.want)
		}
	}
}

func TestDrainLetsRequestsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		began := make(chan struct{}, 1)
		r := launch(t, withTransport(t, Options{Store: s}, roundTripper(func(*http.Request) (*http.Response, error) {
			began <- struct{}{}
			// Longer than the store waits for a job, shorter than Grace.
			if err := job.Sleep(context.Background(), job.SystemClock(), 9*time.Second); err != nil {
				return nil, err
			}
			return status(200), nil
		})))
		s.add(newJob("a", anyURL))
		next(t, began, "request")
		stopped := time.Now()
		r.stop()
		if took := time.Since(stopped); took != 9*time.Second {
			t.Errorf("stopping took %v", took)
		}
		if got := next(t, s.settled, "settlement"); got.To != job.Delivered {
			t.Errorf("%+v", got)
		}
		s.add(newJob("b", anyURL))
		synctest.Wait()
		if len(s.hints) != 1 {
			t.Error("a stopped dispatcher took a job")
		}
	})
}

func TestDrainGivesBackWhatIsClaimedButNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		claiming, claim := make(chan struct{}), make(chan struct{})
		s.claimHook = func(context.Context, int, []store.Hint) (before, after error) {
			close(claiming)
			<-claim
			return nil, nil
		}
		r := launch(t, withTransport(t, Options{Store: s}, roundTripper(func(*http.Request) (*http.Response, error) {
			t.Error("a request was made after the stop")
			return status(200), nil
		})))
		j := newJob("a", anyURL)
		j.Attempts = 4
		s.add(j)
		<-claiming
		r.cancel()
		synctest.Wait()
		close(claim)
		r.stop()
		got := next(t, s.settled, "settlement")
		if got.Claimed == nil || got.Claimed.Key != j.Key {
			t.Errorf("the settlement is of %v", got.Claimed)
		}
		got.Claimed = nil
		want := job.Settlement{
			Key: j.Key, Lane: j.Lane(), Token: 1, Due: j.NextAt, At: j.NextAt, CreatedAt: j.CreatedAt, To: job.Retrying, Reason: job.ReasonShutdown,
			IfCancelled: job.Cancelled, Attempts: 4,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("settlement (-want +got):\n%s", diff)
		}
	})
}

func TestGraceEndsWithoutUsingAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		began := make(chan struct{}, 1)
		r := launch(t, withTransport(t, Options{Store: s, Timeout: time.Minute, Grace: 15 * time.Second},
			roundTripper(func(r *http.Request) (*http.Response, error) {
				began <- struct{}{}
				<-r.Context().Done()
				return nil, r.Context().Err()
			})))
		s.add(newJob("a", anyURL))
		next(t, began, "request")
		stopped := time.Now()
		r.stop()
		if took := time.Since(stopped); took != 13*time.Second {
			t.Errorf("stopping took %v", took)
		}
		got := next(t, s.settled, "settlement")
		if got.To != job.Waiting || got.Reason != job.ReasonShutdown || got.Attempts != 0 || got.Attempt != nil || got.Delay != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestStopEndsEvenIfTheStoreDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newFakeStore(), &logs{}
		s.settle = func(context.Context, int, []job.Settlement) ([]store.Settled, error) {
			return nil, store.ErrUnavailable
		}
		r := launch(t, withTransport(t, Options{Store: s, Logger: l.logger(), Grace: time.Second}, always(200)))
		s.add(newJob("a", anyURL))
		synctest.Wait()
		stopped := time.Now()
		r.stop()
		if took := time.Since(stopped); took != time.Second {
			t.Errorf("stopping took %v", took)
		}
		if l.count("cannot settle outcomes") != 1 {
			t.Errorf("no line about what was lost:\n%s", l.buf.String())
		}
	})
}

func TestStopDuringAFailingClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.claimHook = func(context.Context, int, []store.Hint) (before, after error) { return errDown, nil }
		r := launch(t, withTransport(t, Options{Store: s}, always(200)))
		s.add(newJob("a", anyURL))
		next(t, s.claims, "claim")
		r.stop()
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reg := newFakeStore(), prometheus.NewRegistry()
		o := Options{Store: s, Metrics: reg}
		launch(t, withTransport(t, o, always(200)))
		first, retry := newJob("first", anyURL), newJob("retry", anyURL)
		first.NextAt = first.NextAt.Add(-3 * time.Millisecond)
		retry.NextAt = retry.NextAt.Add(-time.Hour)
		retry.Attempts = 1
		for _, j := range []job.Job{first, retry} {
			s.add(j)
			next(t, s.settled, "settlement")
		}
		synctest.Wait()
		want := `
# HELP duehook_attempts_total Claimed jobs by topic and outcome. Topics beyond the busiest 1,000 count as other.
# TYPE duehook_attempts_total counter
duehook_attempts_total{outcome="cancelled",topic="other"} 0
duehook_attempts_total{outcome="delivered",topic="other"} 0
duehook_attempts_total{outcome="delivered",topic="orders"} 2
duehook_attempts_total{outcome="expired",topic="other"} 0
duehook_attempts_total{outcome="failed",topic="other"} 0
duehook_attempts_total{outcome="lease_expired",topic="other"} 0
duehook_attempts_total{outcome="refused",topic="other"} 0
duehook_attempts_total{outcome="released",topic="other"} 0
duehook_attempts_total{outcome="rescheduled",topic="other"} 0
duehook_attempts_total{outcome="snoozed",topic="other"} 0
# HELP duehook_breakers Endpoints by the state of their circuit breaker.
# TYPE duehook_breakers gauge
duehook_breakers{state="closed"} 1
duehook_breakers{state="half-open"} 0
duehook_breakers{state="open"} 0
# HELP duehook_in_flight Deliveries in flight.
# TYPE duehook_in_flight gauge
duehook_in_flight 0
# HELP duehook_settle_dropped_total Outcomes that could not be stored; their jobs are delivered again.
# TYPE duehook_settle_dropped_total counter
duehook_settle_dropped_total 0
# HELP duehook_settle_stale_total Outcomes not stored because the job was leased again or had ended.
# TYPE duehook_settle_stale_total counter
duehook_settle_stale_total 0
`
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "duehook_attempts_total", "duehook_breakers",
			"duehook_in_flight", "duehook_settle_dropped_total", "duehook_settle_stale_total"); err != nil {
			t.Error(err)
		}
		if sums := histogramSums(t, reg, "duehook_lateness_seconds"); sums["first"] != .003 || sums["retry"] != 3600 {
			t.Errorf("lateness %v", sums)
		}
		if sums := histogramSums(t, reg, "duehook_topic_lateness_seconds"); len(sums) != 1 || sums["orders"] != 3600.003 {
			t.Errorf("lateness by topic %v", sums)
		}
		if _, err := newDispatcher(o.withDefaults(), always(200)); err == nil {
			t.Error("registering twice gave no error")
		}
	})
}

// histogramSums gives the sums of a histogram by the value of its only label.
func histogramSums(t *testing.T, reg *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]float64{}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sums[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleSum()
			}
		}
	}
	return sums
}
