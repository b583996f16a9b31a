package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// With gaps skipped and repeats taken both, an expression fires exactly when the
// clock of the zone shows a time that matches. So watching that clock minute by
// minute is an independent way to the same occurrences.
func TestFollowsTheClockOfTheZone(t *testing.T) {
	names := make([]string, 0, len(current().files))
	for name := range current().files {
		names = append(names, name)
	}
	slices.Sort(names)
	r := rand.New(rand.NewPCG(1, 2))
	fired := 0
	for n := range 150 {
		zone := names[r.IntN(len(names))]
		loc, ok := Zone(zone)
		if !ok {
			t.Fatalf("no zone %q", zone)
		}
		from := nearChange(loc, time.Date(1950+r.IntN(120), time.Month(1+r.IntN(12)), 1, 0, 0, 0, 0, time.UTC))
		hours, weekday := r.Uint32()|1<<r.IntN(24), r.IntN(7)
		minutes := []int{0, 15, 29, 30, 59}
		expression := fmt.Sprintf("0,15,29,30,59 %s * * *", list(hours))
		if n%3 == 0 {
			expression = fmt.Sprintf("0,15,29,30,59 %s * * %d", list(hours), weekday)
		}
		table, err := New(Spec{Cron: expression, Zone: zone, Gap: SkipGap, Repeat: Both})
		if err != nil {
			t.Fatal(err)
		}
		to := from.Add(8 * 24 * time.Hour)
		var want, got []int64
		for at := from; at.Before(to); at = at.Add(time.Second) {
			local := at.In(loc)
			if local.Second() != 0 {
				at = at.Add(time.Duration(59-local.Second()) * time.Second) // the next minute of the clock, at the earliest
				continue
			}
			if slices.Contains(minutes, local.Minute()) && hours&(1<<local.Hour()) != 0 && (n%3 != 0 || int(local.Weekday()) == weekday) {
				want = append(want, at.Unix())
			}
		}
		for at := range table.Between(from.Add(-1), to.Add(-1)) {
			got = append(got, at.Unix())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q in %s from %v: %d occurrences, the clock shows %d", expression, zone, from, len(got), len(want))
		}
		fired += len(got)
	}
	if fired == 0 {
		t.Error("nothing fired")
	}
}

// nearChange is four days before the first change of a zone's clock after at, or at.
func nearChange(loc *time.Location, at time.Time) time.Time {
	if _, end := at.In(loc).ZoneBounds(); !end.IsZero() {
		return end.UTC().Add(-4 * 24 * time.Hour).Truncate(time.Minute)
	}
	return at
}

// list writes the hours of a set.
func list(hours uint32) string {
	text := ""
	for h := range 24 {
		if hours&(1<<h) != 0 {
			text += fmt.Sprintf(",%d", h)
		}
	}
	return text[1:]
}
