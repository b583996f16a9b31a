package torture

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestSoakTorture runs each fault with as many seeds as asked for, and prints what
// came of it as a table.
func TestSoakTorture(t *testing.T) {
	chosen, err := regexp.Compile("^(" + *fault + ")$")
	if err != nil {
		t.Fatal(err)
	}
	var results results
	began := clock.Now()
	t.Run("runs", func(t *testing.T) {
		// Row by row, so that a budget cuts all of them alike.
		for i := range uint64(*runs) {
			for _, row := range rows {
				if *fault == "" && !row.short || *fault != "" && !chosen.MatchString(row.name) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d", row.name, *seed+i), func(t *testing.T) {
					t.Parallel()
					if *budget > 0 && clock.Now().Sub(began) > *budget {
						return
					}
					results.add(repeated(t, row, *seed+i, &results))
				})
			}
		}
	})
	_, _ = fmt.Fprintf(os.Stdout, "%d runs, %d more were void\n\n%s", len(results.all), results.void.Load(), results.table())
	if len(results.all) == 0 {
		t.Errorf("there is no fault %q", *fault)
	}
	if *table != "" {
		if err := results.write(*table); err != nil {
			t.Error(err)
		}
	}
}

// maxVoid is how often a run is made again that says nothing.
const maxVoid = 5

// repeated is the first run of the seed that says something.
func repeated(t *testing.T, row *row, seed uint64, all *results) *result {
	t.Helper()
	var r result
	for range maxVoid {
		t.Run("run", func(t *testing.T) {
			r = newRun(t, row, seed).do()
			report(t, &r)
		})
		if !r.void() {
			return &r
		}
		all.void.Add(1)
	}
	t.Errorf("the machine is too busy: it stalled for %v", r.stall)
	return &r
}

// report fails the test for what went wrong, and says how to see it again.
func report(t *testing.T, r *result) {
	t.Helper()
	_, _ = fmt.Fprintf(os.Stdout, "%-24s seed %-6d %d acknowledged, %d lost, %d repeated as in flight, %d otherwise; recovered after %.1f s\n",
		r.row.name, r.seed, r.acknowledged, r.lost, r.inFlight, r.otherwise, r.recover.Seconds())
	switch {
	case r.void():
		_, _ = fmt.Fprintf(os.Stdout, "void: the machine stalled for %v\n\t%s\n", r.stall, strings.Join(r.wrong, "\n\t"))
		return
	case r.ok():
		return
	}
	const most = 25
	t.Errorf("%d findings; again with: make soak PART=torture RUNS=1 FAULT=%s SEED=%d\n%s",
		len(r.wrong), r.row.name, r.seed, strings.Join(r.wrong[:min(len(r.wrong), most)], "\n"))
}

// results are safe for concurrent use.
type results struct {
	mu   sync.Mutex
	all  []*result
	void atomic.Int64 // repeated runs
}

func (s *results) add(r *result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, r)
}
