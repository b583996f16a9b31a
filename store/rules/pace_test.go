package rules

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
)

func TestPace(t *testing.T) {
	for _, tc := range []struct {
		name    string
		next    float64 // after now
		allowed int
		at      job.Instant // after now
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
		at := p.NextAt(now)
		if at != 0 {
			at -= now
		}
		if n := p.Allowed(now); n != tc.allowed || at != tc.at {
			t.Errorf("%s: %d may go, and the next in %d, want %d and %d", tc.name, n, at, tc.allowed, tc.at)
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
	must.Equal(t, "the second lane at 200/s is looked at in", slow.Look(1, now)-now, 5)
	must.Equal(t, "the first lane at 200/s is looked at in", slow.Look(0, now)-now, 1)
	must.Equal(t, "the first lane at 201/s is looked at in", fast.Look(0, now)-now, 5)
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
	const (
		second = job.Instant(1_000)
		minute = 60 * second
		hour   = 60 * minute
	)
	open := store.Circuit{OpenUntil: now + 1, HalfOpenUntil: now + 2}
	halfOpen := store.Circuit{OpenUntil: now, HalfOpenUntil: now + 2}
	passed := store.Circuit{OpenUntil: now - 1, HalfOpenUntil: now}
	ramping := store.Circuit{RampFrom: now - 10*second + 1}
	opens := func(c store.Circuit, d time.Duration) store.Circuit { return OpenedCircuit(c, d, now) }
	for _, tc := range []struct {
		name string
		got  store.Circuit
		want store.Circuit
	}{
		{"open", CircuitAt(open, now), open},
		{"half-open", CircuitAt(halfOpen, now), store.Circuit{HalfOpenUntil: now + 2}},
		{"closed by time", CircuitAt(passed, now), store.Circuit{}},
		{"ramping up", CircuitAt(ramping, now), ramping},
		{"ramped up", CircuitAt(store.Circuit{RampFrom: now - 10*second}, now), store.Circuit{}},
		{"never opened", CircuitAt(store.Circuit{}, now), store.Circuit{}},

		{"opened for a second", opens(store.Circuit{}, time.Second), store.Circuit{OpenUntil: now + second, HalfOpenUntil: now + second + minute}},
		{"opened for an hour", opens(ramping, time.Hour), store.Circuit{OpenUntil: now + hour, HalfOpenUntil: now + 2*hour}},
		{"an open one half-opens", opens(open, 0), store.Circuit{HalfOpenUntil: now + minute}},
		{"a half-open one stays", opens(halfOpen, 0), halfOpen},
		{"a ramp goes on", opens(ramping, 0), ramping},

		{"an open one is closed", ClosedCircuit(open, now), store.Circuit{RampFrom: now}},
		{"a half-open one is closed", ClosedCircuit(halfOpen, now), store.Circuit{RampFrom: now}},
		{"a closed one is closed", ClosedCircuit(passed, now), passed},
		{"a ramp does not begin again", ClosedCircuit(ramping, now), ramping},

		{"open by a clock ahead", CorrectedCircuit(open, now), store.Circuit{HalfOpenUntil: now + minute}},
		{"half-open by a clock ahead", CorrectedCircuit(halfOpen, now), halfOpen},
		{"a ramp of a clock ahead", CorrectedCircuit(store.Circuit{RampFrom: now + second}, now), store.Circuit{RampFrom: now}},
		{"a ramp that began", CorrectedCircuit(ramping, now), ramping},
	} {
		must.Equal(t, tc.name, tc.got, tc.want)
	}
}

func TestTurnsBefore(t *testing.T) {
	if n := TurnsBefore(2, []int64{0, 1, 2, 5, 9}); n != 0+1+2+2+2+1 {
		t.Errorf("%d jobs go before", n)
	}
}
