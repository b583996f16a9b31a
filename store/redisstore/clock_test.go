package redisstore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
)

func TestEstimateOfTheServersClock(t *testing.T) {
	const (
		start  = job.Instant(1_000_000)
		ms     = time.Millisecond
		second = time.Second
	)
	type reply struct{ after, says time.Duration } // after the start, by our clock and by the server's
	for _, c := range []struct {
		name    string
		replies []reply
		at      time.Duration
		want    time.Duration // 0: none
		back    time.Duration
	}{
		{name: "one reply", replies: []reply{{0, 0}}, at: second, want: second},
		{name: "a reply that was overtaken", replies: []reply{{100 * ms, 100 * ms}, {110 * ms, 40 * ms}}, at: 200 * ms, want: 200 * ms},
		{name: "a reply that was faster", replies: []reply{{100 * ms, 60 * ms}, {200 * ms, 190 * ms}}, at: 300 * ms, want: 290 * ms},
		{name: "clocks that differ a little in their rates", replies: []reply{{0, 100 * ms}, {11 * second, 11 * second}}, at: 12 * second, want: 12 * second},
		{name: "trusted as long as there are replies", replies: []reply{{0, 10 * ms}, {9 * second, 9 * second}}, at: 18 * second, want: 18*second + 10*ms},
		{name: "no reply for long", replies: []reply{{0, 0}}, at: clockAge + ms},
		{
			name: "the clock goes back", replies: []reply{{60 * second, 60 * second}, {61 * second, second}}, at: 62 * second,
			want: 2 * second, back: 60 * second,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var clock serverClock
				begun := time.Now()
				wait := func(until time.Duration) { _ = job.Sleep(t.Context(), job.SystemClock(), until-time.Since(begun)) }
				for _, r := range c.replies {
					wait(r.after)
					clock.observe(int64(start.Add(r.says)))
				}
				wait(c.at)
				got, ok := clock.now()
				if ok != (c.want != 0) || ok && got != start.Add(c.want) {
					t.Errorf("%v after the start, %v; want %v", got.Sub(start), ok, c.want)
				}
				if back := clock.wentBack(); back != c.back {
					t.Errorf("went back by %v, want %v", back, c.back)
				}
			})
		})
	}
}
