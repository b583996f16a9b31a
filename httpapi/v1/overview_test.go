package v1

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
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
	a.clock.Advance(7 * time.Minute) // 09:07
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
	a.clock.Advance(time.Second)
	a.claim() // all four are in flight
	register("small", "0s", 2)
	register("big", "5m", 3)  // 09:12
	register("big", "10m", 1) // 09:17
	register("big", "60m", 1) // 10:07
	register("big", "62m", 1)
	register("big", "1d", 5) // later than 09:00 tomorrow
	a.attempted("https://shop.example:443", job.OutcomeDelivered, 20*time.Millisecond, "")
	a.attempted("https://shop.example:443", job.OutcomeFailed, 9*time.Millisecond, "http_500")
	a.clock.Advance(time.Minute)

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
