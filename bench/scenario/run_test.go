package scenario

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
)

// stoppedClock goes on only by hand.
type stoppedClock struct {
	job.Clock
	now time.Time
}

func (c *stoppedClock) Now() time.Time { return c.now }

func newTestRunner(o Options) (*runner, *stoppedClock) {
	o.Out = io.Discard
	clock := &stoppedClock{job.SystemClock(), time.Unix(1_000, 0)}
	return &runner{Options: o, clock: clock}, clock
}

func TestRoundsAlternate(t *testing.T) {
	r, _ := newTestRunner(Options{Size: Size{Rounds: 3}})
	var order []string
	err := r.rounds([]string{"a", "b"}, func(name string) error {
		order = append(order, name)
		return nil
	})
	if diff := cmp.Diff([]string{"a", "b", "b", "a", "a", "b"}, order); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestRoundsEndWithTheBudget(t *testing.T) {
	r, clock := newTestRunner(Options{Size: Size{Rounds: 9}})
	r.until = clock.now.Add(time.Minute)
	runs := 0
	err := r.rounds([]string{"a", "b"}, func(string) error {
		runs++
		clock.now = clock.now.Add(20 * time.Second)
		return nil
	})
	if err != nil || runs != 4 { // the round in which the time ends is not cut off
		t.Errorf("%d runs, %v; want 4", runs, err)
	}
}

func TestRoundsEndWithAnError(t *testing.T) {
	r, _ := newTestRunner(Options{Size: Size{Rounds: 3}})
	wrong := errors.New("wrong")
	if err := r.rounds([]string{"a"}, func(string) error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("got %v", err)
	}
}

func TestChoose(t *testing.T) {
	names := func(o Options) string {
		chosen, err := choose(&o)
		if err != nil {
			return err.Error()
		}
		var names []string
		for _, s := range chosen {
			names = append(names, s.name)
		}
		return strings.Join(names, " ")
	}
	short := names(Options{})
	if long := names(Options{Size: Size{Long: true}}); long != strings.Join(Names(), " ") || short == long {
		t.Errorf("long: %s\nnot long: %s", long, short)
	}
	if got := names(Options{Only: []string{"tls", "drain"}}); got != "drain tls" {
		t.Errorf("chosen: %s", got)
	}
	if got := names(Options{Only: []string{"x"}}); !strings.Contains(got, `no scenario "x"`) {
		t.Errorf("chosen: %s", got)
	}
}

func TestAmong(t *testing.T) {
	r, _ := newTestRunner(Options{Without: []string{"b"}})
	if diff := cmp.Diff([]string{"a", "c"}, r.among("a", "b", "c")); diff != "" {
		t.Error(diff)
	}
}

func TestSizes(t *testing.T) {
	for _, name := range SizeNames() {
		s, err := SizeOf(name)
		if err != nil || s.Rounds < 1 || len(s.Waiting) < 2 || s.MinAhead >= s.MaxAhead || s.Backlog < scaleBacklog {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}
