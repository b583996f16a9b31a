package schedule

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)

func rules(t testing.TB, every time.Duration, m MisfirePolicy, o Overlap) *Rules {
	return &Rules{
		Name: "s", Table: table(t, Spec{Every: every, HasEvery: true}), Overlap: o,
		Misfire: Misfire{Policy: m, Grace: time.Minute},
	}
}

// short writes a decision as "fired 12:00 late, missed x3 to 12:04".
func short(d Decision) string {
	var parts []string
	for _, s := range d.Steps {
		text := string(s.Outcome)
		if s.ByHand {
			text += " by hand"
		}
		if s.Count > 0 {
			text += fmt.Sprintf(" x%d to", s.Count)
		}
		text += s.Time.Format(" 15:04")
		if s.Late {
			text += " late"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func TestDecide(t *testing.T) {
	at := func(minutes float64) time.Time { return noon.Add(time.Duration(minutes * float64(time.Minute))) }
	for _, c := range []struct {
		name    string
		misfire MisfirePolicy
		overlap Overlap
		jitter  time.Duration
		max     int64
		state   Progress
		facts   Facts
		want    string
	}{
		{"nothing is near", FireOnce, Allow, 0, 0, Progress{Done: UpTo(at(0))}, Facts{Now: at(4)}, ""},
		{"just before", FireOnce, Allow, 0, 0, Progress{Done: UpTo(at(0))}, Facts{Now: at(5).Add(-time.Millisecond)}, ""},
		{"on time", FireOnce, Allow, 0, 0, Progress{Done: UpTo(at(0))}, Facts{Now: at(5)}, "fired 12:05"},
		{"within the grace", FireOnce, Allow, 0, 0, Progress{Done: UpTo(at(0))}, Facts{Now: at(6)}, "fired 12:05"},
		{"late", FireOnce, Allow, 0, 0, Progress{Done: UpTo(at(0))}, Facts{Now: at(6.1)}, "fired 12:05 late"},
		{"an outage, one call", FireOnce, Allow, 0, 0, Progress{Done: UpTo(at(0))}, Facts{Now: at(33)}, "missed x5 to 12:25, fired 12:30 late"},
		{"the latest is on time", FireOnce, Allow, 0, 0, Progress{Done: UpTo(at(0))}, Facts{Now: at(20)}, "missed x3 to 12:15, fired 12:20 late"},
		{"late ones, just before the next", FireOnce, Allow, 0, 0, Progress{Done: UpTo(at(0))}, Facts{Now: at(29.98)}, "missed x4 to 12:20, fired 12:25 late"},
		{"skip late ones", SkipLate, Allow, 0, 0, Progress{Done: UpTo(at(0))}, Facts{Now: at(20.5)}, "missed x3 to 12:15, fired 12:20"},
		{"fire all", FireAll, Allow, 0, 0, Progress{Done: UpTo(at(15))}, Facts{Now: at(33)}, "fired 12:20 late, fired 12:25 late, fired 12:30 late"},
		{"overlap", FireOnce, Skip, 0, 0, Progress{Done: UpTo(at(0))}, Facts{Now: at(5), Busy: true}, "skipped x1 to 12:05"},
		{"overlap of late ones", FireAll, Skip, 0, 0, Progress{Done: UpTo(at(0))}, Facts{Now: at(17)}, "fired 12:05 late, skipped x2 to 12:15"},
		{"a bound", FireAll, Allow, 0, 2, Progress{Done: UpTo(at(0)), Fired: 1}, Facts{Now: at(12)}, "fired 12:05 late"},
		{"no more", FireAll, Allow, 0, 2, Progress{Done: UpTo(at(0)), Fired: 2}, Facts{Now: at(12)}, ""},
		{"one that a client skips", FireAll, Allow, 0, 0, Progress{Done: UpTo(at(30))}, Facts{Now: at(45)}, "fired 12:35 late, skipped by hand x1 to 12:40, fired 12:45"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rules(t, 5*time.Minute, c.misfire, c.overlap)
			r.Jitter, r.Max, r.Skips = c.jitter, c.max, []time.Time{at(40)}
			if got := short(r.Decide(c.state, c.facts)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// Of many late occurrences the latest MostLate fire, and none that is older than Oldest.
func TestBoundsOfLateOccurrences(t *testing.T) {
	for _, c := range []struct {
		every         time.Duration
		policy        MisfirePolicy
		late          int
		missed, fired int
	}{
		{5 * time.Minute, FireAll, 100, 0, 100},
		{5 * time.Minute, FireAll, 103, 3, 100},
		{time.Second, FireAll, 5000, 4900, 100},
		{90 * 24 * time.Hour, FireAll, 6, 1, 5}, // one is 450 days old
		{90 * 24 * time.Hour, FireOnce, 6, 5, 1},
	} {
		r := rules(t, c.every, c.policy, Allow)
		first, _ := r.Table.Next(noon)
		r.Misfire.Grace = 0
		from, now := first.Add(-time.Second), first.Add(time.Duration(c.late-1)*c.every+time.Millisecond)
		missed, fired := 0, 0
		for _, s := range r.Decide(Progress{Since: from, Done: UpTo(from)}, Facts{Now: now}).Steps {
			if s.Outcome == Fired {
				fired++
			}
			missed += int(s.Count)
		}
		if missed != c.missed || fired != c.fired {
			t.Errorf("every %v, %s, %d late: %d missed, %d fired, want %d and %d", c.every, c.policy, c.late, missed, fired, c.missed, c.fired)
		}
	}
}

// An outage of a year of seconds is decided without walking it.
func TestDecideAYearOfSeconds(t *testing.T) {
	for _, m := range []MisfirePolicy{FireOnce, SkipLate, FireAll} {
		r := rules(t, time.Second, m, Allow)
		d := r.Decide(Progress{Done: UpTo(noon.AddDate(-1, 0, 0))}, Facts{Now: noon})
		if len(d.Steps) == 0 || d.Steps[0].Outcome != Missed || d.Steps[0].Count < MaxCount {
			t.Errorf("%s: %d steps, the first %+v", m, len(d.Steps), d.Steps)
		}
	}
}

// Whenever and however often one looks, each occurrence is decided exactly once, in the order
// of ticks, and none too early.
func TestEachOccurrenceIsDecidedOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 400 {
		policy := []MisfirePolicy{FireOnce, SkipLate, FireAll}[r.IntN(3)]
		overlap := []Overlap{Allow, Skip}[r.IntN(2)]
		rule := rules(t, time.Duration(1+r.IntN(100))*time.Second, policy, overlap)
		rule.Jitter = time.Duration(r.IntN(2)*r.IntN(300)) * time.Second
		state, now := Progress{Since: noon, Done: UpTo(noon)}, noon
		var decided int64
		fired := map[time.Time]bool{}
		for range 30 {
			now = now.Add(time.Duration(r.IntN(200_000)) * time.Millisecond)
			d := rule.Decide(state, Facts{Now: now, Busy: r.IntN(2) == 0})
			steps := d.Steps
			if r.IntN(3) == 0 { // a job is refused: what follows is decided again
				steps = steps[:r.IntN(len(steps)+1)]
			}
			for _, s := range steps {
				if s.Compare(state.Done) <= 0 {
					t.Fatalf("%s %s: step %+v after %v", policy, overlap, s, state.Done)
				}
				state.Done, state.Since = s.Tick, later(state.Since, s.Since)
				decided += max(1, s.Count)
				switch {
				case s.Outcome == Fired && fired[s.Time]:
					t.Fatalf("%s %s: %v fired twice", policy, overlap, s.Time)
				case s.Outcome == Fired && rule.due(s.Time).After(now):
					t.Fatalf("%s: %v fired at %v, and is due at %v", overlap, s.Time, now, rule.due(s.Time))
				}
				fired[s.Time] = s.Outcome == Fired
			}
			end := now.Add(time.Hour)
			if left, want := rule.Undecided(state, end), rule.Table.Count(noon, end); decided+left != want {
				t.Fatalf("%s %s: %d decided, and %d not, of %d", policy, overlap, decided, left, want)
			}
			if next, ok := rule.Next(state); ok && !next.At.After(now) && !d.More && len(steps) == len(d.Steps) {
				t.Fatalf("%s %s: the next look is at %v, before %v", policy, overlap, next.At, now)
			}
		}
	}
}

// With a jitter, occurrences fire at their jittered times, although nothing is kept of them.
func TestJitteredOccurrencesFireWhenTheyAreDue(t *testing.T) {
	rule := rules(t, time.Second, FireOnce, Allow)
	rule.Jitter = 100 * time.Second
	state, end := Progress{Since: noon, Done: UpTo(noon)}, noon.Add(10*time.Minute)
	fired := map[time.Time]bool{}
	for {
		next, ok := rule.Next(state)
		if !ok || next.At.After(end) {
			break
		}
		for _, s := range rule.Decide(state, Facts{Now: next.At}).Steps {
			if due := Due(rule.Name, s.Time, rule.Jitter); s.Outcome != Fired || s.Late || fired[s.Time] || !due.Equal(next.At) {
				t.Fatalf("at %v: %+v, due at %v", next.At, s, due)
			}
			fired[s.Time], state.Done = true, s.Tick
		}
	}
	for at := range rule.Table.Between(noon, end.Add(-rule.Jitter)) {
		if !fired[at] {
			t.Errorf("%v did not fire", at)
		}
	}
}

func TestDensest(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		span time.Duration
		want int
	}{
		{Spec{Every: time.Minute, HasEvery: true}, 24 * time.Hour, 1440},
		{Spec{Cron: "* * * * * *"}, time.Minute, 60},
		{Spec{Cron: "0,1 0 * * *"}, 24 * time.Hour, 2},
		{Spec{Cron: "*/5 9-17 * * *"}, 10 * time.Hour, 107},
		{Spec{Cron: "0 0 * * *"}, time.Hour, 0},
	} {
		if got := table(t, c.spec).Densest(c.span); got != c.want {
			t.Errorf("%+v in %v: %d, want %d", c.spec, c.span, got, c.want)
		}
	}
}
