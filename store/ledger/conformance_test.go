package ledger_test

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
				URL: b.empty(t), Store: memstore.New(memstore.Options{Retention: o.Retention}), StoreRetention: o.Retention, Unsynced: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Bubble: synctest.Test,
	}
}

// TestConformance runs the whole suite once. Another kind of server differs in what is
// kept only.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			if b == sqliteBackend {
				storetest.Run(t, harness(b))
			} else {
				storetest.RunKept(t, harness(b))
			}
		})
	}
}

// TestModel makes fewer runs than memstore's own test, which it repeats for the
// most part: each opens a journal.
func TestModel(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	noError(t, "set rapid.checks", checks.Value.Set("20"))
	defer func() { noError(t, "set rapid.checks", checks.Value.Set(before)) }()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) { storetest.RunModel(t, harness(b)) })
	}
}
