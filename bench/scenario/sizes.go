package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Size says how much is measured.
type Size struct {
	Rounds int
	// Backlog is how many jobs are drained, Lanes how many lanes they have where
	// many are measured.
	Backlog, Lanes int
	// Memory is how many waiting jobs memory is measured with, Idle how many wait
	// while nothing happens, and for how long that is watched.
	Memory, Idle int
	Watch        time.Duration
	// Waiting is how many jobs wait beside those that are measured.
	Waiting []int
	// Rates are the jobs per second whose lateness is measured, for Span and due
	// between MinAhead and MaxAhead later.
	Rates              []int
	Span               time.Duration
	MinAhead, MaxAhead time.Duration
	// Registering is how long registrations are counted.
	Registering time.Duration
	// Storm is how many jobs are due within one second.
	Storm int
	// Restart is how many jobs wait in an embedded node that starts.
	Restart []int
	// Long runs the scenarios that are left out otherwise.
	Long bool
}

var sizes = map[string]Size{
	// To see that everything still works.
	"smoke": {
		Rounds: 1, Backlog: 200, Lanes: 20, Memory: 500, Idle: 50, Watch: 200 * time.Millisecond,
		Waiting: []int{50, 500}, Rates: []int{100}, Span: 200 * time.Millisecond, MinAhead: 100 * time.Millisecond, MaxAhead: 500 * time.Millisecond,
		Registering: 200 * time.Millisecond, Storm: 1000, Restart: []int{50, 500}, Long: true,
	},
	// What can be waited for.
	"default": {
		Rounds: 3, Backlog: 100_000, Lanes: 10_000, Memory: 100_000, Idle: 10_000, Watch: 5 * time.Second,
		Waiting: []int{10_000, 1_000_000}, Rates: []int{1000}, Span: 6 * time.Second, MinAhead: time.Second, MaxAhead: 10 * time.Second,
		Registering: 2 * time.Second, Storm: 1_000_000, Restart: []int{1_000_000},
	},
	"long": {
		Rounds: 5, Backlog: 100_000, Lanes: 10_000, Memory: 1_000_000, Idle: 10_000, Watch: 10 * time.Second,
		Waiting: []int{10_000, 100_000, 1_000_000, 10_000_000}, Rates: []int{500, 1000, 2000}, Span: 20 * time.Second,
		MinAhead: time.Second, MaxAhead: 10 * time.Second,
		Registering: 5 * time.Second, Storm: 1_000_000, Restart: []int{1_000_000, 10_000_000}, Long: true,
	},
}

// SizeNames are what SizeOf takes.
func SizeNames() []string { return slices.Sorted(maps.Keys(sizes)) }

// SizeOf is the size of that name.
func SizeOf(name string) (Size, error) {
	if s, ok := sizes[name]; ok {
		return s, nil
	}
	return Size{}, fmt.Errorf("there is no size %q; sizes are %s", name, strings.Join(SizeNames(), ", "))
}
