package journal_test

import (
	"flag"
	"testing"
	"testing/synctest"

	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
	"github.com/duehook/duehook/store/memstore"
	"github.com/duehook/duehook/store/storetest"
)

// harness is for a journal of each kind around memstore.
func harness(b *backend) storetest.Harness {
	return storetest.Harness{
		Open: func(t testing.TB, o storetest.Options) store.Store {
			t.Helper()
			s, err := journal.Open(t.Context(), journal.Options{
				URL: b.Empty(t), Store: memstore.New(memstore.Options{Retention: o.Retention}), StoreRetention: o.Retention, Unsynced: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Bubble: synctest.Test,
	}
}

// TestConformance runs on servers what their SQL can break. Go decides the rest, and
// the other tests of this package write their other rows.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		run := storetest.RunWritten
		if b == sqliteBackend {
			run = storetest.RunKept
		}
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			run(t, harness(b))
		})
	}
}

// TestModel makes fewer runs than memstore's own test, which it repeats for the
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
