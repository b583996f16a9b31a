package simulation

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
)

var (
	oneSeed   = flag.Uint64("seed", number("SIM_SEED", 0), "replay this seed only, with its trace (-v); SIM_SEED")
	seeds     = flag.Uint64("seeds", number("SIM_SEEDS", 60), "how many seeds to run; SIM_SEEDS")
	firstSeed = flag.Uint64("first", number("SIM_FIRST", 1), "the first of them; SIM_FIRST")
)

func number(variable string, fallback uint64) uint64 {
	n, err := strconv.ParseUint(cmp.Or(os.Getenv(variable), strconv.FormatUint(fallback, 10)), 10, 64)
	if err != nil {
		panic(variable + ": " + err.Error())
	}
	return n
}

// memory is a diskstore in memory that all nodes share, with a clock that can be set.
type memory struct {
	store.Store
	ahead *atomic.Int64
}

func inMemory(t *testing.T, p *plan) backend {
	ahead := &atomic.Int64{}
	return memory{testenv.Store(t, diskstore.Options{Retention: p.retention, Clock: stepped{clock, ahead, &atomic.Int64{}}}), ahead}
}

func (m memory) step(d time.Duration) { m.ahead.Add(int64(d)) }

func (m memory) connect() store.Store { return shared{m.Store} }

func (m memory) close() { _ = m.Store.Close() }

// stepped is a clock that is ahead of another one.
type stepped struct {
	job.Clock
	ahead, timers *atomic.Int64
}

func (c stepped) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.ahead.Load())) }

// NewTimer makes no two timers fire at one instant: the order of the calls of Take that wait for one job would
// be random.
func (c stepped) NewTimer(d time.Duration) job.Timer {
	return c.Clock.NewTimer(d + time.Duration(c.timers.Add(1)%1000))
}

// shared is a store that outlives those who close it.
type shared struct{ store.Store }

func (shared) Close() error { return nil }

func TestMain(m *testing.M) {
	// One goroutine at a time: what a seed does then depends little on the
	// scheduler, and not on the machine.
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

// TestSeeds simulates worlds on diskstore.
func TestSeeds(t *testing.T) { runSeeds(t, newPlan, 1, *seeds, inMemory) }

func runSeeds(t *testing.T, planned func(seed uint64, shards int) *plan, shards int, n uint64, open func(*testing.T, *plan) backend) {
	if *oneSeed != 0 {
		simulate(t, planned(*oneSeed, shards), open, func(h *history) {
			t.Logf("seed %d, trace %x\n%s", *oneSeed, h.hash(), h.trace(""))
		})
		return
	}
	name, began := t.Name(), time.Now()
	totals := map[string]int{}
	var virtual time.Duration
	for seed := *firstSeed; seed < *firstSeed+n; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("replay with: go test ./internal/testing/simulation -run '^%s$' -v -seed %d", name, seed)
				}
			}()
			p := planned(seed, shards)
			simulate(t, p, open, func(h *history) {
				for what, n := range h.counts {
					totals[what] += n
				}
				totals["requests"] += len(h.requests)
			})
			virtual += p.rough + p.calm
		})
	}
	took := time.Since(began)
	t.Logf("%d seeds, %v of their time in %v (%.1f seeds/s): %v", n, virtual.Round(time.Hour), took.Round(time.Millisecond),
		float64(n)/took.Seconds(), totals)
}
