package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/duehook/duehook/e2e/rig"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/hostile"
)

var (
	clock = job.SystemClock()
	// long asks for the sizes that take too long for every change.
	long = os.Getenv("E2E_LONG") != ""
	// buildDir holds the binaries for as long as the tests run.
	buildDir string
)

func TestMain(m *testing.M) {
	hostile.Main()
	dir, err := os.MkdirTemp("", "duehook-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	buildDir = dir
	goleak.VerifyTestMain(tests{m}, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// tests ends what the tests share before goroutines are counted.
type tests struct{ *testing.M }

func (m tests) Run() int {
	defer rig.CloseIdle()
	return m.M.Run()
}

// The two builds of duehook: as it is shipped, for tests with much to do, and
// with the race detector, which makes a node exit with an error on a race. The detector needs cgo;
// the tag keeps Pebble's zstd in Go, as the Makefile does.
var (
	shipped = sync.OnceValues(func() (string, error) { return build("duehook") })
	raced   = sync.OnceValues(func() (string, error) { return build("duehook-race", "-race", "-tags", "pebblegozstd") })
)

// build leaves out the tables of debuggers, which take half of the linker's time.
func build(name string, flags ...string) (string, error) {
	return rig.Build(buildDir, name, append(flags, "-ldflags=-w")...)
}

// sized is n, or the larger m in a long run.
func sized[T any](n, m T) T {
	if long {
		return m
	}
	return n
}

// newRand gives the order of random events. A run cannot be repeated exactly,
// since the machine's scheduling is not; but its plan can.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(1)
	if s := os.Getenv("E2E_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("E2E_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("E2E_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
