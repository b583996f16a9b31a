package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sony/gobreaker/v2"

	"github.com/duehook/duehook/internal/job"
)

const shop = "http://shop.example:80"

// changes collects what circuits report.
type changes struct {
	mu   sync.Mutex
	list []string
}

func (c *changes) add(endpoint string, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if until.IsZero() {
		c.list = append(c.list, "closed "+endpoint)
	} else {
		c.list = append(c.list, fmt.Sprintf("open %s %v", endpoint, time.Until(until)))
	}
}

func (c *changes) over(endpoint string, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, fmt.Sprintf("over %s %v", endpoint, time.Since(since)))
}

func testCircuits(c *changes) *circuits {
	return newCircuits(Options{BreakerFailures: 3, BreakerOpen: 10 * time.Second, BreakerProbes: 2}.withDefaults(), c.add, c.over)
}

// try makes one request that turns out like health; it reports whether it was
// allowed.
func try(s *circuits, endpoint string, health error) bool {
	done := s.allow(endpoint)
	if done == nil {
		return false
	}
	done(health)
	return true
}

func pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := job.Sleep(t.Context(), job.SystemClock(), d); err != nil {
		t.Fatal(err)
	}
}

func TestCircuitOpensProbesAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c changes
		s := testCircuits(&c)
		try(s, shop, errEndpoint)
		try(s, shop, errEndpoint)
		try(s, shop, nil) // so the row starts over
		for i := range 3 {
			if !try(s, shop, errEndpoint) {
				t.Fatalf("failure %d was not allowed", i+1)
			}
		}
		pass(t, 4*time.Second)
		if s.allow(shop) != nil {
			t.Error("open, yet allowed")
		}
		if !try(s, "http://other.example:80", nil) {
			t.Error("another endpoint is held up")
		}
		pass(t, 5950*time.Millisecond)
		if s.allow(shop) != nil {
			t.Error("allowed just before the end")
		}
		pass(t, 51*time.Millisecond)

		first := s.allow(shop)
		second := s.allow(shop)
		if first == nil || second == nil {
			t.Fatal("no probes")
		}
		if s.allow(shop) != nil {
			t.Error("a third request was allowed")
		}
		first(errExcluded) // broken off by us: another may take its place
		third := s.allow(shop)
		if third == nil {
			t.Fatal("no probe in place of the one broken off")
		}
		second(nil)
		third(nil)
		for range 5 {
			if !try(s, shop, nil) {
				t.Error("closed, yet not allowed")
			}
		}
		want := []string{"open " + shop + " 10s", "closed " + shop}
		if diff := cmp.Diff(want, c.list); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
	})
}

func TestCircuitOpensAgainWhenAProbeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c changes
		s := testCircuits(&c)
		for range 3 {
			try(s, shop, errEndpoint)
		}
		pass(t, 10*time.Second+time.Millisecond)
		if !try(s, shop, errEndpoint) || try(s, shop, nil) {
			t.Error("want one probe only")
		}
		if diff := cmp.Diff([]string{"open " + shop + " 10s", "open " + shop + " 10s"}, c.list); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
	})
}

func TestSlowFailuresTripToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c changes
		s := testCircuits(&c)
		for range 3 {
			done := s.allow(shop)
			pass(t, time.Hour)
			done(errEndpoint)
		}
		if len(c.list) != 1 {
			t.Errorf("changes %v", c.list)
		}
	})
}

func TestExcludedOutcomesDoNotCount(t *testing.T) {
	var c changes
	s := testCircuits(&c)
	for range 100 {
		try(s, shop, errExcluded)
	}
	if len(c.list) != 0 {
		t.Errorf("changes %v", c.list)
	}
}

func TestCircuitsAreBounded(t *testing.T) {
	var c changes
	s := testCircuits(&c)
	s.limit = evictionTries // so that a search sees all of them
	for range 3 {
		try(s, shop, errEndpoint) // open: to be kept
	}
	busy := s.allow("http://busy.example:80") // in use: to be kept
	for i := range 1000 {
		if !try(s, fmt.Sprintf("http://%d.example:80", i), nil) {
			t.Fatalf("endpoint %d not allowed", i)
		}
		if n := len(s.known); n > s.limit {
			t.Fatalf("%d circuits known", n)
		}
	}
	if try(s, shop, nil) {
		t.Error("the open circuit was forgotten")
	}
	if s.known["http://busy.example:80"] == nil {
		t.Error("a circuit in use was forgotten")
	}
	busy(nil)

	// When nothing can be dropped, further endpoints go without.
	for i := range s.limit {
		for range 3 {
			try(s, fmt.Sprintf("http://dead%d.example:80", i), errEndpoint)
		}
	}
	for range 10 {
		if !try(s, "http://last.example:80", errEndpoint) {
			t.Error("an endpoint without a circuit was refused")
		}
	}
	if n := s.count(); len(s.known) != s.limit || n[gobreaker.StateOpen] != s.limit {
		t.Errorf("%d known, by state %v", len(s.known), n)
	}
}

func TestTheLeastUsedCircuitIsForgotten(t *testing.T) {
	s := testCircuits(&changes{})
	s.limit = 2
	try(s, "http://a.example:80", nil)
	try(s, "http://b.example:80", nil)
	try(s, "http://a.example:80", nil)
	try(s, "http://c.example:80", nil)
	if s.known["http://a.example:80"] == nil || s.known["http://b.example:80"] != nil {
		t.Error("want a and c known, b forgotten")
	}
}

func TestRefusingDoesNotKeepACircuitBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testCircuits(&changes{})
		for range 3 {
			try(s, shop, errEndpoint)
		}
		try(s, shop, nil) // refused: open
		pass(t, 10*time.Second+time.Millisecond)
		first := s.allow(shop)
		second := s.allow(shop)
		try(s, shop, nil) // refused: enough probes
		first(nil)
		second(nil)
		if b := s.known[shop]; b.busy != 0 {
			t.Errorf("%d requests under way, want none", b.busy)
		}
	})
}

func TestCircuitsCanBeOff(t *testing.T) {
	s := newCircuits(Options{BreakerFailures: -1}.withDefaults(), nil, nil)
	for range 1000 {
		if !try(s, shop, errEndpoint) {
			t.Fatal("refused")
		}
	}
	if n := s.count(); len(n) != 0 {
		t.Errorf("count %v", n)
	}
}

// A deadline that gives a receiver less time than usual is no evidence against its endpoint.
func TestShortDeadlinesOpenNoCircuit(t *testing.T) {
	const server = 10 * time.Second
	silent := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	for name, tc := range map[string]struct {
		own, topic time.Duration
		answer     roundTripper
		opens      bool
	}{
		"the server's":                           {answer: silent, opens: true},
		"its own, much shorter":                  {own: 100 * time.Millisecond, answer: silent},
		"its own, a little shorter":              {own: 9 * time.Second, answer: silent},
		"its own, as long as the server's":       {own: server, answer: silent, opens: true},
		"its topic's, long enough":               {own: 6 * time.Second, topic: 6 * time.Second, answer: silent, opens: true},
		"its topic's, too short":                 {own: time.Second, topic: time.Second, answer: silent},
		"its own, shorter than its topic's":      {own: 5 * time.Second, topic: 6 * time.Second, answer: silent},
		"its own, as long as enough for a topic": {own: 5 * time.Second, topic: time.Second, answer: silent, opens: true},
		"its own, and the connection is refused": {own: 100 * time.Millisecond, opens: true, answer: func(*http.Request) (*http.Response, error) {
			return nil, syscall.ECONNREFUSED
		}},
		"its own, and the answer is an error": {own: 100 * time.Millisecond, opens: true, answer: func(*http.Request) (*http.Response, error) {
			return status(503), nil
		}},
		"its own, and the body ends too late": {own: 100 * time.Millisecond, answer: func(r *http.Request) (*http.Response, error) {
			answer := status(200)
			answer.Body = io.NopCloser(readFunc(func([]byte) (int, error) {
				<-r.Context().Done()
				return 0, r.Context().Err()
			}))
			return answer, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeStore()
				launch(t, withTransport(t, Options{
					Store: s, Timeout: server, BreakerFailures: 3, TopicTimeout: func(string) time.Duration { return tc.topic },
				}, tc.answer))
				for i := range 60 {
					j := newJob(fmt.Sprint(i), anyURL)
					j.Spec.Timeout, j.Spec.ExpectBody = tc.own, "done"
					s.add(j)
				}
				pass(t, time.Minute)
				if opens := len(s.holds) > 0; opens != tc.opens {
					t.Errorf("the circuit opens: %v, want %v", opens, tc.opens)
				}
			})
		})
	}
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// TestOpenCircuitHoldsTheEndpoint goes through an outage of an endpoint.
func TestOpenCircuitHoldsTheEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.holdHook = func(call int) error {
			if call == 1 {
				return errStore
			}
			return nil
		}
		var up atomic.Bool
		launch(t, withTransport(t, Options{Store: s, BreakerFailures: 2, BreakerProbes: 2, Workers: 1},
			roundTripper(func(*http.Request) (*http.Response, error) {
				if !up.Load() {
					return nil, errors.New("no route")
				}
				return status(200), nil
			})))
		settle := func(id string) job.Settlement {
			t.Helper()
			s.add(newJob(id, anyURL))
			return next(t, s.settled, "settlement")
		}
		for i := range 2 {
			if got := settle(fmt.Sprint("fails", i)); got.To != job.Retrying || got.Attempts != 1 {
				t.Errorf("%+v", got)
			}
		}
		hold := next(t, s.holds, "hold")
		if hold.endpoint != shop || hold.d > 10*time.Second || hold.d < 9*time.Second {
			t.Errorf("hold %+v", hold)
		}
		for i := range 3 {
			got := settle(fmt.Sprint("held", i))
			if got.To != job.Waiting || got.Reason != job.ReasonCircuitOpen || got.Attempts != 0 || got.Attempt != nil ||
				got.Delay != refusedPause {
				t.Errorf("%+v", got)
			}
		}
		synctest.Wait()
		if len(s.holds) != 0 {
			t.Error("held more than once in one opening")
		}
		up.Store(true)
		pass(t, 10*time.Second)
		for i := range 2 {
			if got := settle(fmt.Sprint("probe", i)); got.To != job.Delivered {
				t.Errorf("%+v", got)
			}
		}
		if free := next(t, s.holds, "unhold"); free != (holdCall{shop, 0}) {
			t.Errorf("%+v", free)
		}
	})
}

func TestLaterReportReplacesEarlierOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		var up atomic.Bool
		s.holdHook = func(int) error {
			if !up.Load() {
				return errStore
			}
			return nil
		}
		h := newReports(Options{Store: s}.withDefaults())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.run(ctx)
		}()
		h.changes.Put(shop, time.Now().Add(time.Hour))
		pass(t, time.Minute)
		h.changes.Put(shop, time.Time{})
		up.Store(true)
		if got := next(t, s.holds, "hold"); got != (holdCall{shop, 0}) {
			t.Errorf("%+v, want the end of the hold", got)
		}
		h.changes.Put(shop, time.Now().Add(-time.Second))
		synctest.Wait()
		if len(s.holds) != 0 {
			t.Error("a hold that was over was asked for")
		}
		cancel()
		<-done
	})
}

func TestCircuitsTellTheEndOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c changes
		s := newCircuits(Options{BreakerFailures: 100}.withDefaults(), c.add, c.over)
		row := func(n int) {
			for range n {
				try(s, shop, errEndpoint)
				pass(t, time.Second)
			}
		}
		row(outageFailures - 1)
		if s.fails(shop) {
			t.Error("a few failures are an outage")
		}
		try(s, shop, nil)
		row(outageFailures - 1)
		try(s, shop, errExcluded) // tells nothing
		if s.fails(shop) {
			t.Error("a request broken off by us counts as a failure")
		}
		row(2)
		if !s.fails(shop) || s.fails("http://other.example:80") {
			t.Error("the outage is not known, or another")
		}
		try(s, shop, nil)
		try(s, shop, nil)
		if s.fails(shop) {
			t.Error("the outage has not ended")
		}
		want := []string{fmt.Sprintf("over %s %v", shop, (outageFailures+1)*time.Second)}
		if diff := cmp.Diff(want, c.list); diff != "" {
			t.Error(diff)
		}
	})
}

// behind is a clock that can be set back.
type behind struct {
	job.Clock
	by time.Duration
}

func (c *behind) Now() time.Time { return c.Clock.Now().Round(0).Add(-c.by) }

func TestAClockThatGoesBackKeepsNoCircuitOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &behind{Clock: job.SystemClock()}
		var c changes
		o := Options{BreakerFailures: 1, BreakerOpen: 10 * time.Second, Clock: clock}.withDefaults()
		s := newCircuits(o, c.add, c.over)
		try(s, shop, errEndpoint)
		clock.by = time.Hour
		pass(t, time.Millisecond) // the breaker has its own clock
		if !try(s, shop, nil) {
			t.Error("the circuit is open for an hour more")
		}
	})
}
