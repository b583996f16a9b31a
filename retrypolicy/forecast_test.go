package retrypolicy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/retrypolicy"
)

// planned is an attempt from one second to another after start.
func planned(n, earliest, latest int) retrypolicy.Planned {
	return retrypolicy.Planned{Number: n, Window: *between(earliest, latest)}
}

func between(earliest, latest int) *retrypolicy.Window {
	at := func(seconds int) job.Instant { return start.Add(time.Duration(seconds) * time.Second) }
	return &retrypolicy.Window{Earliest: at(earliest), Latest: at(latest)}
}

const start = job.Instant(1_800_000_000_000)

func TestForecast(t *testing.T) {
	p := retrypolicy.Policy{Steps: []time.Duration{100 * time.Second, 1000 * time.Second}, Limit: 2}
	jitter := p
	jitter.Jitter = 0.1
	one := p
	one.Limit = 0
	tests := []struct {
		name string
		got  retrypolicy.Forecast
		want retrypolicy.Forecast
	}{
		{"a new job", p.Forecast(1, retrypolicy.At(start), 0), retrypolicy.Forecast{
			Attempts: []retrypolicy.Planned{planned(1, 0, 0), planned(2, 100, 100), planned(3, 1100, 1100)}, Dead: between(1100, 1100),
		}},
		{"after two attempts", p.Forecast(3, retrypolicy.At(start), 0), retrypolicy.Forecast{
			Attempts: []retrypolicy.Planned{planned(3, 0, 0)}, Dead: between(0, 0),
		}},
		{"more attempts than the policy has by now", p.Forecast(7, retrypolicy.At(start), 0), retrypolicy.Forecast{
			Attempts: []retrypolicy.Planned{planned(7, 0, 0)}, Dead: between(0, 0),
		}},
		{"one attempt only", one.Forecast(1, retrypolicy.At(start), 0), retrypolicy.Forecast{
			Attempts: []retrypolicy.Planned{planned(1, 0, 0)}, Dead: between(0, 0),
		}},
		{"it expires before it is due", p.Forecast(1, retrypolicy.At(start), start), retrypolicy.Forecast{}},
		{"it expires between two attempts", p.Forecast(1, retrypolicy.At(start), start.Add(time.Minute)), retrypolicy.Forecast{
			Attempts: []retrypolicy.Planned{planned(1, 0, 0)},
		}},
		{"it dies before it expires", p.Forecast(3, retrypolicy.At(start), start+1), retrypolicy.Forecast{
			Attempts: []retrypolicy.Planned{planned(3, 0, 0)}, Dead: between(0, 0),
		}},
		{"an attempt is under way", p.ForecastAfter(1, *between(0, 20), 0), retrypolicy.Forecast{
			Attempts: []retrypolicy.Planned{planned(2, 100, 120), planned(3, 1100, 1120)}, Dead: between(1100, 1120),
		}},
		{"the last attempt is under way", p.ForecastAfter(3, *between(0, 20), start+1), retrypolicy.Forecast{Dead: between(0, 20)}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Error(diff)
			}
		})
	}

	f := jitter.Forecast(1, retrypolicy.At(start), start.Add(1105*time.Second))
	want := retrypolicy.Forecast{
		Attempts: []retrypolicy.Planned{planned(1, 0, 0), planned(2, 90, 110), planned(3, 990, 1105)},
		Dead:     between(990, 1105), // unless it expires then
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("with jitter, and an end of the TTL within the last window: %s", diff)
	}
}

// However the jitter falls, what happens lies in the windows.
func TestForecastHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := retrypolicy.Policy{
			Steps:  []time.Duration{time.Duration(rapid.IntRange(1, 5000).Draw(t, "step")) * time.Millisecond, time.Minute},
			Limit:  rapid.IntRange(0, 5).Draw(t, "limit"),
			Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter"),
		}
		f := p.Forecast(1, retrypolicy.At(start), 0)
		now := start
		for _, a := range f.Attempts {
			if now < a.Earliest || now > a.Latest {
				t.Fatalf("attempt %d comes at %d, forecast from %d to %d", a.Number, now, a.Earliest, a.Latest)
			}
			delay, _ := p.Next(a.Number, func() float64 { return rapid.Float64Range(0, 0.999999).Draw(t, "random") })
			now = now.Add(delay)
		}
	})
}
