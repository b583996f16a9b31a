package ledger_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/duehook/duehook/store/ledger"
)

// childLedger names the ledger of a child process, which is this test's program.
const childLedger = "LEDGER_TEST_CHILD"

func TestMain(m *testing.M) {
	if url := os.Getenv(childLedger); url != "" {
		if err := startAndStop(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ledger.EmptyLedger = postgres.Empty
	goleak.VerifyTestMain(withServers(m))
}

// startAndStop is one of several nodes that start at once.
func startAndStop(url string) error {
	inner, err := openStore(0)
	if err != nil {
		return err
	}
	s, err := ledger.Open(context.Background(), ledger.Options{URL: url, Store: inner})
	if err != nil {
		return err
	}
	return s.Close()
}

// The tables are made once, by whichever process is first.
func TestRaceSeveralStartAtOnce(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	noError(t, "Executable", err)
	for _, b := range servers {
		t.Run(b.Name, func(t *testing.T) {
			url := b.Fresh(t)
			var wg sync.WaitGroup
			for range 3 {
				cmd := exec.CommandContext(t.Context(), exe)
				cmd.Env = append(os.Environ(), childLedger+"="+url)
				wg.Go(func() {
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Errorf("%v: %s", err, out)
					}
				})
			}
			wg.Wait()
			r := newRig(t, b, url, 0)
			r.Add(reg("a", time.Hour))
			equal(t, "rows of writer", r.Count("SELECT count(*) FROM writer"), "1")
			equal(t, "states", r.Count("SELECT count(*) FROM state"), "8")
			// One is goose's own, for no migration.
			equal(t, "versions, one of them applied twice", r.Count(
				"SELECT count(*) - count(DISTINCT version_id) FROM goose_db_version"), "0")
		})
	}
}
