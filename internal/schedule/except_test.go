package schedule

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func dates(t *testing.T, texts ...string) (all []Dates) {
	t.Helper()
	for _, text := range texts {
		d, err := ParseDates(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

func TestParseDates(t *testing.T) {
	for text, want := range map[string]string{
		"2026-12-25": "2026-12-25", "2026-12-24/2027-01-02": "2026-12-24/2027-01-02", "1969-12-31/1969-12-31": "1969-12-31",
		"": "must be a date", "2026-02-30": "must be a date", "2026-12-25/": "must be a date", "25.12.2026": "must be a date",
		"2026-1-2": "must be a date", "2026-12-24/2026-12-25/2026-12-26": "must be a date",
		"2027-01-02/2026-12-24": "must not end before it begins: write 2026-12-24/2027-01-02",
	} {
		d, err := ParseDates(text)
		got := d.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s", text, got)
		}
	}
}

// What a timetable with exceptions yields, counts and looks back to is what it yields without
// them, less the dates of its zone.
func TestExceptionsRemoveDates(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, s := range []Spec{
		{Cron: "*/7 * * * *", Zone: "America/New_York"},
		{Cron: "30 2 * * *", Zone: "Europe/Berlin"},
		{Cron: "15,45 0-3 * * MON-FRI", Zone: "Africa/Casablanca", Repeat: Last},
		{Every: 11 * time.Minute, HasEvery: true, Zone: "Australia/Lord_Howe"},
		{Every: 25 * time.Hour, HasEvery: true, Zone: "America/St_Johns"},
	} {
		whole := table(t, s)
		for range 20 {
			from := time.Date(2011+r.IntN(16), time.Month(1+r.IntN(12)), 1+r.IntN(28), r.IntN(24), 0, 0, 0, time.UTC)
			until := from.Add(40 * 24 * time.Hour)
			var all []Dates
			for range 1 + r.IntN(6) {
				first := floorDiv(from.Unix(), daySeconds) + int64(r.IntN(42)) - 1
				all = append(all, Dates{first, first + int64(r.IntN(5))})
			}
			var want []time.Time
			for at := range whole.Between(from, until) {
				local := at.In(whole.loc)
				day := floorDiv(time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC).Unix(), daySeconds)
				if !slices.ContainsFunc(all, func(x Dates) bool { return x.First <= day && day <= x.Last }) {
					want = append(want, at)
				}
			}
			tt := whole.Except(all)
			if diff := cmp.Diff(want, slices.Collect(tt.Between(from, until))); diff != "" {
				t.Fatalf("%+v except %+v (-want +got):\n%s", s, all, diff)
			}
			if n := tt.Count(from, until); n != int64(len(want)) {
				t.Fatalf("%+v except %+v: counts %d, yields %d", s, all, n, len(want))
			}
			if last := tt.Latest(from, until, 9); !slices.EqualFunc(last, want[max(0, len(want)-9):], time.Time.Equal) {
				t.Fatalf("%+v except %+v: the latest are %v", s, all, last)
			}
		}
	}
}

// A preview has one line for each day without its occurrences, however many they are.
func TestPreviewNamesExceptedDays(t *testing.T) {
	from := time.Date(2026, 12, 23, 12, 0, 0, 0, time.UTC)
	all := dates(t, "2026-12-24/2026-12-25", "2026-12-25/2026-12-26")
	want := []Omitted{{"2026-12-24", Excepted}, {"2026-12-25", Excepted}, {"2026-12-26", Excepted}}
	for _, s := range []Spec{
		{Cron: "0 9 * * *", Zone: "Europe/Berlin"},
		{Cron: "* * * * *", Zone: "Europe/Berlin"},
		{Every: time.Hour, HasEvery: true, Zone: "Europe/Berlin"},
	} {
		p := table(t, s).Except(all).Preview(from, 1000)
		if diff := cmp.Diff(want, p.Omitted); diff != "" && s.Cron != "* * * * *" {
			t.Errorf("%+v (-want +got):\n%s", s, diff)
		}
		for _, o := range p.Occurrences {
			if at := o.Time.Format(time.DateOnly); at >= "2026-12-24" && at <= "2026-12-26" {
				t.Fatalf("%+v fires at %s", s, o.Time)
			}
		}
	}
}

// A timetable without any day left ends quickly.
func TestExceptAll(t *testing.T) {
	for _, s := range []Spec{{Cron: "* * * * * *"}, {Every: time.Second, HasEvery: true, Zone: "Europe/Berlin"}} {
		tt := table(t, s).Except(dates(t, "0001-01-01/9999-12-31"))
		if at, ok := tt.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); ok {
			t.Errorf("%+v fires at %s", s, at)
		}
	}
}

// The latest occurrence that is not skipped fires for the late ones.
func TestSkippedOnesStandForNothing(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC) }
	r := Rules{
		Name: "s", Table: table(t, Spec{Cron: "*/5 * * * *"}), Overlap: Allow, Skips: []time.Time{at(15)},
		Misfire: Misfire{Policy: FireOnce, Grace: time.Minute},
	}
	var got []string
	for _, s := range r.Decide(Progress{Done: UpTo(at(0))}, Facts{Now: at(17)}).Steps {
		got = append(got, string(s.Outcome)+" "+s.Time.Format("04"))
	}
	if want := []string{"missed 05", "fired 10", "skipped 15"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if r.Pending(Progress{Done: UpTo(at(5))}, at(5)) || r.Pending(Progress{Done: UpTo(at(0))}, at(6)) || !r.Pending(Progress{Done: UpTo(at(0))}, at(5)) {
		t.Error("an occurrence is pending if it is undecided")
	}
}
