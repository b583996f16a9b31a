package schedule

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

func table(t testing.TB, s Spec) *Timetable {
	t.Helper()
	table, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// Counting and looking back give what walking gives, near changes of the clock, too.
func TestCountAndLatestAgreeWithWalking(t *testing.T) {
	specs := []Spec{
		{Cron: "*/7 * * * *", Zone: "America/New_York"},
		{Cron: "*/7 * * * *", Zone: "Australia/Lord_Howe", Gap: Shift, Repeat: First},
		{Cron: "30 2 * * *", Zone: "Europe/Berlin"},
		{Cron: "15,45 0-3 * * MON-FRI", Zone: "Africa/Casablanca", Repeat: Last},
		{Cron: "0 9 L * *", Zone: "Pacific/Apia"},
		{Cron: "20 0 0 1 */2 *"},
		{Every: 7 * time.Minute, HasEvery: true, Anchor: time.Date(2030, 1, 1, 0, 0, 11, 0, time.UTC)},
		{Cron: "*/7 * * * *", Start: time.Date(2011, 3, 1, 0, 0, 0, 0, time.UTC), End: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)},
	}
	r := rand.New(rand.NewPCG(3, 4))
	for _, s := range specs {
		tt := table(t, s)
		for range 40 {
			after := time.Date(2011+r.IntN(16), time.Month(1+r.IntN(12)), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1e9), time.UTC)
			until := after.Add(time.Duration(r.Int64N(int64(45 * 24 * time.Hour))))
			walked := slices.Collect(tt.Between(after, until))
			if n := tt.Count(after, until); n != int64(len(walked)) {
				t.Fatalf("%+v: Count(%v, %v) = %d, walking finds %d", s, after, until, n, len(walked))
			}
			n := 1 + r.IntN(50)
			want := walked[max(0, len(walked)-n):]
			if got := tt.Latest(after, until, n); !slices.EqualFunc(got, want, time.Time.Equal) {
				t.Fatalf("%+v: Latest(%v, %v, %d) = %v, want %v", s, after, until, n, got, want)
			}
		}
	}
}

// A year of seconds is not walked: the count is exact up to MaxCount.
func TestCountAYearOfSeconds(t *testing.T) {
	from, to := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	every := table(t, Spec{Every: time.Second, HasEvery: true})
	if n := every.Count(from, to); n != MaxCount {
		t.Errorf("every second: %d", n)
	}
	cron := table(t, Spec{Cron: "* * * * * *", Zone: "America/New_York"})
	if n := cron.Count(from, from.Add(11*24*time.Hour)); n != 11*24*3600 {
		t.Errorf("eleven days of seconds: %d", n)
	}
	if n := cron.Count(from, to); n != MaxCount {
		t.Errorf("a year of seconds: %d", n)
	}
	if n := table(t, Spec{Cron: "* * * * *"}).Count(from, to); n != 365*24*60 {
		t.Errorf("a year of minutes: %d", n)
	}
}

// Densest counts the occurrences after the first one of a span.
func TestDensestCountsSpans(t *testing.T) {
	for _, tt := range []struct {
		cron string
		span time.Duration
		want int
	}{
		{"* * * * * *", 0, 0},
		{"* * * * * *", time.Hour, 3600},
		{"* * * * * *", 24 * time.Hour, 86400},
		{"*/7 * * * *", time.Hour, 9},
		{"0,30 22,23,0,1 * * *", 3 * time.Hour, 6}, // across midnight, too
		{"0 9 * * *", 24 * time.Hour, 1},
		{"0 9 * * *", 23 * time.Hour, 0},
		{"50-59 59 23 * * *", 9 * time.Second, 9},
	} {
		if n := table(t, Spec{Cron: tt.cron}).Densest(tt.span); n != tt.want {
			t.Errorf("%q spans %d in %v, want %d", tt.cron, n, tt.span, tt.want)
		}
	}
}

// What is asked of a timetable of every second near a change of the clock takes as much memory as on other days: nothing
// gathers the days around the change.
func TestNoDaysAreGathered(t *testing.T) {
	const most = 4 << 20
	for _, zone := range []string{"America/New_York", "Australia/Lord_Howe", "Europe/Berlin", "Africa/Casablanca"} {
		tt := table(t, Spec{Cron: "* * * * * *", Zone: zone})
		from := nearChange(tt.loc, time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)).Add(4*24*time.Hour - time.Minute)
		rules := Rules{Name: "s", Table: tt, Misfire: Misfire{Policy: FireOnce, Grace: time.Minute}, Overlap: Allow}
		progress := Progress{Since: from.Add(-time.Hour), Done: UpTo(from)}
		for name, ask := range map[string]func(){
			"preview":  func() { tt.Preview(from, 1000) },
			"next":     func() { rules.Next(progress) },
			"decide":   func() { rules.Decide(progress, Facts{Now: from.Add(2 * time.Second)}) },
			"has":      func() { tt.Has(from) },
			"a minute": func() { tt.Count(from, from.Add(time.Minute)) },
			"densest":  func() { tt.Densest(time.Hour) },
		} {
			if n := allocated(ask); n > most {
				t.Errorf("%s: %s allocates %d bytes, the limit is %d", zone, name, n, most)
			}
		}
	}
}

// allocated is how many bytes a call allocates.
func allocated(call func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
