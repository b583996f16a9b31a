package demo

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
)

func TestChecksTellWhatWasFoundInstead(t *testing.T) {
	var c checks
	c.expect("the sky is blue")(true, "it is %s", "green")
	each := c.expect("all swans are white")
	each(true, "a")
	each(false, "swan %d is black", 2)
	each(false, "swan %d is black", 5)
	if c.failed() != 1 {
		t.Errorf("%d failed, want 1", c.failed())
	}
	var out bytes.Buffer
	c.print(&timeline{out: &out})
	want := "\n  ✓ the sky is blue\n  ✗ all swans are white\n      swan 2 is black\n      swan 5 is black\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestColourIsForTerminals(t *testing.T) {
	for color, want := range map[bool]string{true: "  \x1b[2m01:02:03\x1b[0m  shop      \x1b[32mhi 5\x1b[0m\n", false: "  01:02:03  shop      hi 5\n"} {
		var out bytes.Buffer
		tl := &timeline{out: &out, color: color}
		tl.at(time.Hour+2*time.Minute+3*time.Second, "shop", green, "hi %d", 5)
		if out.String() != want {
			t.Errorf("colour %v: %q, want %q", color, out.String(), want)
		}
	}
}

// climb is a payment that failed twice and then came through, with the waits
// given, and each failure written down somewhere within a second.
func climb(waits ...time.Duration) *payment {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := &payment{definition: definition{ID: "p"}, steps: []time.Duration{15 * time.Second, 3 * time.Minute}, view: jobView{DueAt: at}}
	for _, wait := range waits {
		p.answers = append(p.answers, answer{Status: 500})
		written := at.Add(700 * time.Millisecond)
		p.tries = append(p.tries, try{
			delivery: delivery{arrived: at, dueAt: p.view.DueAt, answered: at.Add(300 * time.Millisecond)},
			logged:   attemptView{NextAt: written.Add(wait)}, seen: at.Add(time.Second),
		})
		at = written.Add(wait)
	}
	return p
}

func TestLadderIsCheckedStepByStep(t *testing.T) {
	for _, tc := range []struct {
		name  string
		waits []time.Duration
		want  int // complaints
	}{
		{"as it should be", []time.Duration{15 * time.Second, 3 * time.Minute}, 0},
		{"too early", []time.Duration{14 * time.Second, 3 * time.Minute}, 1},
		{"too late", []time.Duration{15 * time.Second, 3*time.Minute + time.Second}, 1},
		{"the steps swapped", []time.Duration{3 * time.Minute, 15 * time.Second}, 2},
	} {
		s := &stage{timeline: &timeline{out: io.Discard}, checks: &checks{}}
		s.checkLadder(climb(tc.waits...))
		if got := len(s.checks.list[0].wrong); got != tc.want {
			t.Errorf("%s: %d complaints, want %d: %v", tc.name, got, tc.want, s.checks.list[0].wrong)
		}
	}
}

func TestAnAttemptBeforeItsTimeIsFound(t *testing.T) {
	p := climb(15*time.Second, 3*time.Minute)
	p.tries[1].dueAt = p.tries[0].logged.NextAt
	for early, want := range map[time.Duration]int{0: 0, time.Millisecond: 1} {
		s := &stage{timeline: &timeline{out: io.Discard}, checks: &checks{}}
		p.tries[1].arrived = p.tries[0].logged.NextAt.Add(-early)
		s.checkPunctual([]*payment{p})
		if got := len(s.checks.list[0].wrong); got != want {
			t.Errorf("%v early: %d complaints, want %d: %v", early, got, want, s.checks.list[0].wrong)
		}
	}
}

func TestWithinCutsToMilliseconds(t *testing.T) {
	at := time.UnixMilli(5000)
	from, to := at.Add(999*time.Microsecond), at.Add(1999*time.Microsecond)
	for ms, want := range map[int64]bool{5999: false, 6000: true, 6001: true, 6002: false} {
		if got := within(job.Instant(ms).Time(), from, to, time.Second); got != want {
			t.Errorf("%d: %v, want %v", ms, got, want)
		}
	}
}
