package torture

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/duehook/duehook/e2e/rig"
	"github.com/duehook/duehook/internal/job"
)

var (
	runs   = flag.Int("runs", 1, "runs of each fault")
	fault  = flag.String("fault", "", "the faults whose names match this regular expression as a whole; empty: a selection")
	seed   = flag.Uint64("seed", 1, "the first seed")
	budget = flag.Duration("budget", 0, "begin no run after so long; 0: no limit")
	table  = flag.String("table", "", "write the table into this document, between its markers")
)

var (
	clock = job.SystemClock()
	// buildDir holds the binaries for as long as the tests run.
	buildDir string
)

// atOnce is how many runs go on at a time: most of a run is waiting.
const atOnce = "4"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := runMany(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	dir, err := os.MkdirTemp("", "duehook-torture-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	buildDir = dir
	code := m.Run()
	rig.CloseIdle()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// runMany sets -parallel, unless the command line does.
func runMany() error {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", atOnce)
}

// The two builds of duehook: as it is shipped, and one that can be told where
// to crash.
var (
	shipped = sync.OnceValues(func() (string, error) { return rig.Build(buildDir, "duehook") })
	failing = sync.OnceValues(func() (string, error) {
		return rig.Build(buildDir, "duehook-failpoints", "-tags", "failpoints")
	})
)
