package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/listing"
)

// noRetries is what a fake needs that holds no retrying jobs.
type noRetries struct{ store.Reader }

func (noRetries) Names(context.Context, store.NameQuery) ([]string, error) { return nil, nil }

func (noRetries) Update(context.Context, job.Key, func(*job.Job, job.Instant) error) (job.Job, error) {
	return job.Job{}, store.ErrNotFound
}

// noMessages is what a fake needs that passes none.
type noMessages struct{}

func (noMessages) Publish(context.Context, string, []byte) error { return nil }

func (noMessages) Listen(ctx context.Context, _ string, _ func([]byte)) error {
	<-ctx.Done()
	return nil
}

// outageCosts has an endpoint fail 30 jobs for three hours, which brings them
// high on the default ladder, and then take them. It returns how long after the
// end of the outage the last one was delivered.
func outageCosts(t *testing.T, catchUpRate int) (cost time.Duration, brought float64) {
	t.Helper()
	const jobs, lasts = 30, 3 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		s := testenv.Store(t, diskstore.Options{Retention: 1000 * time.Hour})
		var up atomic.Bool
		policy := retrypolicy.Default()
		policy.Jitter = 0
		d := withTransport(t, Options{Store: s, Policy: policy, CatchUpRate: catchUpRate},
			roundTripper(func(*http.Request) (*http.Response, error) {
				if !up.Load() {
					return nil, errors.New("no route")
				}
				return status(200), nil
			}))
		launch(t, d)
		for i := range jobs {
			register(t, s, fmt.Sprintf("job-%d", i), job.Spec{Destination: anyURL})
		}
		pass(t, lasts)
		up.Store(true)
		ended := job.InstantOf(time.Now())
		register(t, s, "fresh", job.Spec{Destination: anyURL}) // its success ends the outage
		pass(t, 12*time.Hour)
		var last job.Instant
		for i := range jobs {
			j, err := s.Get(t.Context(), job.Key{Topic: "orders", ID: fmt.Sprintf("job-%d", i)})
			if err != nil || j.State != job.Delivered {
				t.Errorf("job %d: %v, %v", i, j.State, err)
			}
			last = max(last, j.EndedAt)
		}
		cost, brought = last.Sub(ended), testutil.ToFloat64(d.metrics.broughtForward)
	})
	return cost, brought
}

func TestPlainOutageOfHoursCostsMinutesAfterIt(t *testing.T) {
	cost, brought := outageCosts(t, 100)
	// A retry keeps 10 minutes from the failure before it.
	if cost > 11*time.Minute || brought < 10 {
		t.Errorf("the last job was delivered %v after the outage, %v were brought forward", cost, brought)
	}
	without, none := outageCosts(t, -1)
	if without < time.Hour || none != 0 {
		t.Errorf("left to their ladder the jobs took %v, and %v were brought forward", without, none)
	}
}

// retryingJobs puts n jobs into a store that failed a minute ago and are due
// again in hours.
func retryingJobs(t *testing.T, s store.Store, n int) {
	t.Helper()
	for i := range n {
		register(t, s, fmt.Sprint(i), job.Spec{Destination: anyURL})
	}
	taken, err := s.Take(t.Context(), 0, store.TakeOptions{Max: n, Lease: time.Minute, Limits: store.FlightLimits{HalfOpenLimit: 3}})
	claims := taken.Claims
	if err != nil || len(claims) != n {
		t.Fatalf("claimed %d of %d: %v", len(claims), n, err)
	}
	for i := range claims {
		c := &claims[i]
		failed := job.Outcome{Kind: job.OutcomeFailed, Attempt: &job.Attempt{Number: 1, StartedAt: c.Now, Status: 500, Reason: job.ReasonLadder}}
		later := func(int) (time.Duration, bool) { return time.Hour + time.Duration(i)*time.Second, true }
		if settled, err := s.Settle(t.Context(), []job.Settlement{job.Settle(&c.Job, failed, later)}); err != nil || settled[0].Status != store.Applied {
			t.Fatalf("settled %+v: %v", settled, err)
		}
	}
	pass(t, time.Minute)
}

// due lists the ids of jobs that are due.
func due(t *testing.T, s store.Store) (n int) {
	t.Helper()
	page, err := listing.List(t.Context(), s, store.Query{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range page.Jobs {
		if j.NextAt <= job.InstantOf(time.Now()) {
			n++
		}
	}
	return n
}

// lateListing fails its first listings.
type lateListing struct {
	store.Store
	failures int
}

func (s *lateListing) Names(ctx context.Context, q store.NameQuery) ([]string, error) {
	if s.failures > 0 {
		s.failures--
		return nil, errDown
	}
	return s.Store.Names(ctx, q)
}

func TestCatchUpKeepsItsRateAndStopsInTheNextOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testenv.Store(t, diskstore.Options{})
		retryingJobs(t, s, 100)
		var fails atomic.Bool
		brought := prometheus.NewCounter(prometheus.CounterOpts{})
		c := newCatchUp(Options{Store: &lateListing{Store: s, failures: 3}, CatchUpRate: 4}.withDefaults(),
			func(string) bool { return fails.Load() }, brought)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.run(ctx)
		}()
		c.recovered(shop, time.Now().Add(-2*time.Minute))
		c.recovered("http://other.example:80", time.Now().Add(-2*time.Minute)) // has none
		pass(t, 10*time.Second)
		if n := due(t, s); n < 30 || n > 40 {
			t.Errorf("%d jobs were brought forward in 10 seconds at 4 a second", n)
		}
		fails.Store(true)
		pass(t, time.Second)
		n := due(t, s)
		pass(t, time.Minute)
		if due(t, s) != n || testutil.ToFloat64(brought) != float64(n) {
			t.Errorf("%d jobs, then %d, counted %v", n, due(t, s), testutil.ToFloat64(brought))
		}
		// It comes back once more: all the rest.
		fails.Store(false)
		c.recovered(shop, time.Now().Add(-10*time.Minute))
		pass(t, time.Minute)
		if due(t, s) != 100 {
			t.Errorf("%d jobs of 100 were brought forward", due(t, s))
		}
		cancel()
		<-done
	})
}

// downForOne fails the update of one job. All others take until they are cancelled.
type downForOne struct {
	store.Store
	key job.Key
}

func (s *downForOne) Update(ctx context.Context, key job.Key, _ func(*job.Job, job.Instant) error) (job.Job, error) {
	if key == s.key {
		return job.Job{}, errDown
	}
	<-ctx.Done()
	return job.Job{}, ctx.Err()
}

// A batch does not wait for its other jobs when the store fails one of them.
func TestCatchUpEndsWithTheFirstError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs := make([]job.Job, 3)
		for i := range jobs {
			jobs[i].Key = job.Key{Topic: "orders", ID: fmt.Sprint(i)}
		}
		c := newCatchUp(Options{Store: &downForOne{key: jobs[1].Key}}.withDefaults(), func(string) bool { return false }, nil)
		if n, err := c.bring(t.Context(), jobs, time.Now()); n != 0 || !errors.Is(err, errDown) {
			t.Errorf("%d jobs were brought forward, %v", n, err)
		}
	})
}

func TestShortOutageLeavesTheLadderAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testenv.Store(t, diskstore.Options{})
		retryingJobs(t, s, 3)
		c := newCatchUp(Options{Store: s, Policy: exact(5*time.Minute, time.Hour)}.withDefaults(),
			func(string) bool { return false }, prometheus.NewCounter(prometheus.CounterOpts{}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.run(ctx)
		}()
		c.recovered(shop, time.Now().Add(-2*time.Minute))
		pass(t, time.Minute)
		if n := due(t, s); n != 0 {
			t.Errorf("%d jobs were brought forward", n)
		}
		cancel()
		<-done
	})
}
