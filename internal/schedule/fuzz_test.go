package schedule

import (
	"testing"
	"time"
)

// Whatever is accepted as a timetable has its occurrences in order, and finds them in reasonable time.
func FuzzTimetable(f *testing.F) {
	for _, cron := range []string{"30 2 * * *", "*/15 9-17 * * MON-FRI", "0 9 * * FRI#5", "0 0 L * *", "59 59 23 29 2 SUN", "@every 1s", "0 0 31 4,6 *"} {
		f.Add(cron, "Europe/Berlin", int64(0), int64(0), int64(1_767_258_000))
	}
	f.Add("", "UTC", int64(3600), int64(-1), int64(-62_135_596_800))
	f.Fuzz(func(t *testing.T, cron, zone string, every, anchor, from int64) {
		s := Spec{Cron: cron, Zone: zone}
		if every != 0 {
			s.HasEvery, s.Every = true, time.Duration(every%(MaxEvery.Milliseconds()/1000))*time.Second
			s.Anchor = time.Unix(anchor%1e11, 0)
		}
		table, err := New(s)
		if err != nil {
			return
		}
		last := time.Unix(from%1e11, 0)
		for range 20 {
			next, ok := table.Next(last)
			if !ok {
				return
			}
			if !next.After(last) || !table.Has(next) {
				t.Fatalf("%+v: %v follows %v", s, next, last)
			}
			last = next
		}
	})
}
