package metered

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
)

func TestSwaps(t *testing.T) {
	for _, c := range []struct {
		name        string
		own, others map[string]int64
		want        map[string]string
	}{
		{"nobody waits", map[string]int64{"a": 0}, nil, map[string]string{}},
		{"idle for one use", map[string]int64{"a": 0}, map[string]int64{"x": 1}, map[string]string{"a": "x"}},
		{"twice as often stays out", map[string]int64{"a": 5}, map[string]int64{"x": 10}, map[string]string{}},
		{"more than twice comes in", map[string]int64{"a": 5}, map[string]int64{"x": 11}, map[string]string{"a": "x"}},
		{"the least used leaves for the most used", map[string]int64{"a": 9, "b": 1, "c": 4}, map[string]int64{"x": 6, "y": 8}, map[string]string{"b": "y"}},
		{"several", map[string]int64{"a": 100, "b": 0, "c": 1}, map[string]int64{"x": 7, "y": 8, "z": 3}, map[string]string{"b": "y", "c": "x"}},
		{"equal uses go by name", map[string]int64{"b": 0, "a": 0}, map[string]int64{"x": 1}, map[string]string{"a": "x"}},
	} {
		if got := swaps(c.own, c.others); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

const start = job.Instant(1_000_000)

// use uses a name n times, and returns what the last use returned.
func (n *Busiest) use(name string, times int, at job.Instant) (has bool, lost []string) {
	for range times {
		var now []string
		has, now = n.Use(name, at)
		lost = append(lost, now...)
	}
	return has, lost
}

func TestPlacesChangeHandsAtTheEndOfAPeriod(t *testing.T) {
	n := NewBusiest(2, time.Hour)
	for _, name := range []string{"a", "b"} {
		if has, _ := n.use(name, 10, start); !has {
			t.Errorf("%s has no place although one is free", name)
		}
	}
	if has, lost := n.use("busy", 1000, start.Add(time.Hour-1)); has || lost != nil {
		t.Errorf("within the period: %v, lost %v", has, lost)
	}
	n.use("b", 5, start)
	if has, lost := n.Use("busy", start.Add(time.Hour)); !has || !slices.Equal(lost, []string{"a"}) {
		t.Errorf("after it: %v, lost %v; want a place, and a without", has, lost)
	}
	// The new period begins at zero: the one that has lost its place needs more than twice as many uses.
	n.use("b", 20, start.Add(time.Hour))
	n.use("busy", 9, start.Add(time.Hour))
	n.use("a", 20, start.Add(time.Hour))
	if has, lost := n.Use("a", start.Add(2*time.Hour)); has || lost != nil {
		t.Errorf("20 uses against 10: %v, lost %v", has, lost)
	}
}

// Names that are equally busy keep their places, whatever the order of their uses.
func TestPlacesDoNotFlap(t *testing.T) {
	n := NewBusiest(10, time.Minute)
	for round := range 1000 {
		for i := range 20 {
			name := (i*7 + round) % 20
			if round == 0 {
				name = i
			}
			has, lost := n.Use(fmt.Sprint(name), start.Add(time.Duration(round)*time.Second))
			if len(lost) > 0 || has != (name < 10) {
				t.Fatalf("round %d: %d has a place: %v, lost %v", round, name, has, lost)
			}
		}
	}
}

// A name that is used much comes through however many others there are, and memory stays bounded.
func TestOthersAreBounded(t *testing.T) {
	n := NewBusiest(3, time.Hour)
	for _, name := range []string{"a", "b", "c"} {
		n.Use(name, start)
	}
	for i := range 10_000 {
		n.Use(fmt.Sprint("once-", i), start)
		n.Use("busy", start)
		if len(n.own) > 3 || len(n.others) > 3 {
			t.Fatalf("%d places and %d others", len(n.own), len(n.others))
		}
	}
	if has, lost := n.Use("busy", start.Add(time.Hour)); !has || !slices.Equal(lost, []string{"a"}) {
		t.Errorf("busy has a place: %v, lost %v", has, lost)
	}
}
