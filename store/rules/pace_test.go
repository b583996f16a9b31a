package rules

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

func TestPace(t *testing.T) {
	for _, tc := range []struct {
		name    string
		next    float64 // after now
		allowed int
		turn    job.Instant // after now
	}{
		{"a new one", -float64(now), 1, 0},
		{"now", 0, 1, 0},
		{"a little late", -9, 1, 0},
		{"late by one interval", -10, 2, 0},
		{"late by all the slack", -80, 9, 0},
		{"a rest saves nothing up", -81, 1, 0},
		{"not yet", 0.5, 0, 1},
		{"an interval ahead", 10, 0, 10},
		{"further ahead than the pace can be: the clock went back", 91, 1, 0},
	} {
		p := PaceOf(100, 1, float64(now)+tc.next)
		turn := p.Turn(now)
		if turn != 0 {
			turn -= now
		}
		if n := p.Allowed(now); n != tc.allowed || turn != tc.turn {
			t.Errorf("%s: %d may go, and the next in %d, want %d and %d", tc.name, n, turn, tc.allowed, tc.turn)
		}
	}
}

// Looked at late by less than the slack, a rate is kept exactly, and never passed.
func TestPaceOverTime(t *testing.T) {
	for _, rate := range []float64{0.5, 7, 100, 4_000} {
		rnd := rand.New(rand.NewPCG(uint64(rate), 2))
		p, at, went := PaceOf(rate, 1, 0), now, 0
		const rounds = 2_000
		for range rounds {
			n := p.Allowed(at)
			went += n
			p = p.After(n)
			at = p.Look(0, at).Add(time.Duration(rnd.IntN(70)) * time.Millisecond)
		}
		want := rate * at.Sub(now).Seconds()
		if got := float64(went); got > want+1 || got < want-1-rate*PaceSlack.Seconds() {
			t.Errorf("at %v/s %d went in %v, want %.0f", rate, went, at.Sub(now), want)
		}
	}
}

func TestLooksOfAFastPaceKeepTheirDistance(t *testing.T) {
	slow, fast := PaceOf(200, 1, float64(now)), PaceOf(201, 1, float64(now))
	if at := slow.Look(1, now) - now; at != 5 {
		t.Errorf("the second lane at 200/s is looked at in %d ms", at)
	}
	if at := slow.Look(0, now) - now; at != 1 {
		t.Errorf("the first lane at 200/s is looked at in %d ms", at)
	}
	if at := fast.Look(0, now) - now; at != 5 {
		t.Errorf("the first lane at 201/s is looked at in %d ms", at)
	}
}

func TestShares(t *testing.T) {
	for limit := range 20 {
		for shards := 1; shards < 7; shards++ {
			total := 0
			for n := range shards {
				share := Share(limit, n, shards)
				total += share
				if limit > 0 && (share < 1 || share > equalShare(limit, shards)) {
					t.Errorf("share %d of %d for %d shards is %d", n, limit, shards, share)
				}
			}
			if want := max(limit, shards*min(limit, 1)); total != want {
				t.Errorf("the shares of %d for %d shards add up to %d", limit, shards, total)
			}
		}
	}
}

func TestCircuits(t *testing.T) {
	for _, tc := range []struct {
		name string
		got  store.Circuit
		want store.Circuit
	}{
		{"open", OpenedCircuit(now+1, now+2, now), store.Circuit{OpenUntil: now + 1, HalfOpenUntil: now + 2}},
		{"half-open", OpenedCircuit(now, now+2, now), store.Circuit{HalfOpenUntil: now + 2}},
		{"closed by time", OpenedCircuit(now-1, now, now), store.Circuit{}},
		{"ramping up", RampingCircuit(now-9_999, now), store.Circuit{RampFrom: now - 9_999}},
		{"ramped up", RampingCircuit(now-10_000, now), store.Circuit{}},
		{"never opened", RampingCircuit(0, now), store.Circuit{}},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, tc.got, tc.want)
		}
	}
	if short, long := HalfOpenTime(time.Second), HalfOpenTime(time.Hour); short != time.Minute || long != time.Hour {
		t.Errorf("half-open for %v and %v", short, long)
	}
}

func TestTurnsBefore(t *testing.T) {
	if n := TurnsBefore(2, []int64{0, 1, 2, 5, 9}); n != 0+1+2+2+2+1 {
		t.Errorf("%d jobs go before", n)
	}
}
