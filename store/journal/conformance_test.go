package journal_test

import (
	"flag"
	"testing"
	"testing/synctest"

	"github.com/duehook/duehook/internal/testing/journaltest"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
	"github.com/duehook/duehook/store/storetest"
)

// harness is for a journal of each kind around diskstore in memory.
func harness(b *backend) storetest.Harness {
	return storetest.Harness{
		Open: func(t testing.TB, o storetest.Options) store.Store {
			t.Helper()
			s, err := journal.Open(t.Context(), journal.Options{
				URL: b.Empty(t), Store: journaltest.NewStore(t, o.Retention), StoreRetention: o.Retention, Unsynced: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Bubble: synctest.Test,
	}
}

// TestConformance has the race detector watch one caller and the goroutines that commit.
func TestConformance(t *testing.T) { storetest.RunKept(t, harness(sqliteBackend)) }

// TestConformanceOnServers tests what the SQL of servers can break. Go decides the rest, and
// the other tests of this package write their other rows. `make test` runs it without the
// race detector: the code besides the SQL is that of TestConformance.
func TestConformanceOnServers(t *testing.T) {
	for _, b := range journaltest.Servers {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			storetest.RunWritten(t, harness(b))
		})
	}
}

// TestModel makes fewer runs than diskstore's own test, which it repeats for the
// most part: each opens a journal. Servers differ in their SQL only.
func TestModel(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	defer func() { noError(t, "set rapid.checks", checks.Value.Set(before)) }()
	for _, b := range backends {
		runs := "5"
		if b == sqliteBackend {
			runs = "20"
		}
		noError(t, "set rapid.checks", checks.Value.Set(runs))
		t.Run(b.Name, func(t *testing.T) { storetest.RunModel(t, harness(b)) })
	}
}
