package httpapi

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// numbers are the elements of a list of numbers that are not zero, by place.
func numbers(list any) map[int]float64 {
	found := map[int]float64{}
	for i, v := range list.([]any) {
		if n := v.(float64); n != 0 {
			found[i] = n
		}
	}
	return found
}

func TestOverview(t *testing.T) {
	a := newAPI(t)
	a.clock.advance(7 * time.Minute) // 09:07
	empty := a.want(200, "GET", "/v1/overview", "")
	for _, name := range []string{"success_rate", "lateness_p99_ms"} {
		if empty[name] != nil {
			t.Errorf("%s of nothing is %v", name, empty[name])
		}
	}
	register := func(topic, delay string, n int) {
		t.Helper()
		for i := range n {
			a.want(201, "POST", "/v1/jobs", fmt.Sprintf(`{"url":"https://shop.example/hook","topic":"%s","id":"%s-%d","delay":"%s"}`, topic, delay, i, delay))
		}
	}
	register("small", "1s", 4)
	a.clock.advance(time.Second)
	a.claim() // all four are in flight
	register("small", "0s", 2)
	register("big", "5m", 3)  // 09:12
	register("big", "10m", 1) // 09:17
	register("big", "60m", 1) // 10:07
	register("big", "62m", 1)
	register("big", "1d", 5) // later than 09:00 tomorrow
	a.attempted("https://shop.example:443", job.OutcomeDelivered, 20*time.Millisecond, "")
	a.attempted("https://shop.example:443", job.OutcomeFailed, 9*time.Millisecond, "http_500")
	a.clock.advance(overviewMost)

	got := a.want(200, "GET", "/v1/overview", "")
	figures := map[string]any{}
	for _, name := range []string{"as_of", "age_ms", "due_now", "due_within_1h", "in_flight", "dead", "open_circuits", "success_rate", "lateness_p99_ms"} {
		figures[name] = got[name]
	}
	want := map[string]any{
		"as_of": "2026-01-01T09:08:01.000Z", "age_ms": 0.0, "due_now": 2.0, "due_within_1h": 7.0, "in_flight": 4.0,
		"dead": 0.0, "open_circuits": 0.0, "success_rate": 0.5, "lateness_p99_ms": 25.0,
	}
	if diff := cmp.Diff(want, figures); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	due := got["due"].(map[string]any)
	if diff := cmp.Diff(map[int]float64{0: 3, 1: 1, 4: 2}, numbers(due["counts"])); diff != "" || due["later"] != 5.0 || due["from"] != "2026-01-01T09:00:00.000Z" {
		t.Errorf("due since %v, %v later (-want +got):\n%s", due["from"], due["later"], diff)
	}
	recent := got["recent"].(map[string]any)
	if diff := cmp.Diff(map[int]float64{58: 1}, numbers(recent["delivered"])); diff != "" || recent["from"] != "2026-01-01T08:09:00.000Z" {
		t.Errorf("recent since %v (-want +got):\n%s", recent["from"], diff)
	}
	lateness := recent["lateness"].(map[string]any)["counts"].([]any)
	if diff := cmp.Diff(map[int]float64{1: 1, 2: 1}, numbers(lateness[58])); diff != "" {
		t.Error(diff)
	}
	topics := []any{map[string]any{"topic": "big", "unfinished": 11.0}, map[string]any{"topic": "small", "unfinished": 6.0}}
	if diff := cmp.Diff(topics, got["topics"].([]any)); diff != "" {
		t.Error(diff)
	}
}

// Each job that waits is counted once, wherever in the quarter of an hour it is.
func TestAgenda(t *testing.T) {
	for _, now := range []job.Instant{0, 1, 899_999, 900_000, 900_001, 1_800_000_000_123} {
		a := newAgenda(now)
		counts := make([]int64, len(a.bounds)+1)
		for i := range counts {
			counts[i] = 1
		}
		var view overviewView
		a.fill(&view, store.DueCounts{Counts: counts})
		total := view.DueNow + view.Due.Later
		for _, n := range view.Due.Counts {
			if n == 0 {
				t.Errorf("at %d: a quarter is not counted", now)
			}
			total += n
		}
		if total != int64(len(counts)) || view.DueNow != 1 || view.Due.Later != 1 || view.DueWithin1h < 5 || view.DueWithin1h > 7 {
			t.Errorf("at %d: %d of %d counted, %d now, %d within the hour", now, total, len(counts), view.DueNow, view.DueWithin1h)
		}
	}
}

// slowStore lets the clock go on while it counts.
type slowStore struct {
	Store
	clock *testClock
	takes time.Duration
	n     atomic.Int64
}

func (s *slowStore) DueCounts(ctx context.Context, bounds []job.Instant) (store.DueCounts, error) {
	s.n.Add(1)
	s.clock.advance(s.takes)
	return s.Store.DueCounts(ctx, bounds)
}

// However often it is asked for, an overview takes the store a part of its time.
func TestOverviewIsShownForAWhile(t *testing.T) {
	var slow *slowStore
	a := newAPI(t, func(o *Options) {
		slow = &slowStore{Store: o.Store, clock: o.Clock.(*testClock)}
		o.Store = slow
	})
	ask := func(wantAge time.Duration, wantCounted int64) {
		t.Helper()
		if age := a.want(200, "GET", "/v1/overview", "")["age_ms"]; age != float64(wantAge.Milliseconds()) || slow.n.Load() != wantCounted {
			t.Errorf("an age of %v ms after %d counts, want %v after %d", age, slow.n.Load(), wantAge, wantCounted)
		}
	}
	ask(0, 1)
	a.clock.advance(overviewLeast - 1)
	ask(overviewLeast-1, 1)
	slow.takes = time.Second
	a.clock.advance(1)
	ask(0, 2)
	a.clock.advance(19 * time.Second)
	ask(19*time.Second, 2)
	slow.takes = time.Hour
	a.clock.advance(time.Second)
	ask(0, 3)
	a.clock.advance(overviewMost)
	ask(0, 4)

	// What could not be counted is not kept, and nobody waits for ever.
	a.clock.advance(overviewMost)
	a.faults.set(func() error { return store.ErrUnavailable })
	a.wantProblem(codeStoreUnavailable, "GET", "/v1/overview", "")
	a.faults.set(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a.server.overviews.counting <- struct{}{}
	if _, err := a.server.overviews.get(ctx, a.clock, nil); err == nil {
		t.Error("a caller that is gone gets an overview")
	}
	<-a.server.overviews.counting
	ask(0, 5)
}
