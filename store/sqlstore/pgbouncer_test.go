package sqlstore

import (
	"testing"

	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/storetest"
)

// startPooler starts a pooler in transaction mode.
func startPooler(t *testing.T) (url string) {
	t.Helper()
	pooler, err := testenv.StartPgBouncer(server)
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, pooler.Close()) })
	return pooler.URL("postgres")
}

// behind opens stores behind a pooler.
func behind(pooler, direct string) storetest.Harness {
	return storetest.Harness{OneShard: true, Open: func(t testing.TB, o storetest.Options) store.Store {
		t.Helper()
		options := newOptions()
		options.URL, options.DirectURL, options.Retention = pooler, direct, o.Retention
		return openEmptied(t, options)
	}}
}

// Behind a pooler in transaction mode, calls work. Notifications need a connection past it. All statements go through the
// pooler either way, so each group of cases runs once.
func TestBehindPgBouncer(t *testing.T) {
	pooler := startPooler(t)
	for _, of := range []struct {
		name, direct string
		prefixes     []string
	}{
		{"with a direct connection", server.URL("postgres"), []string{"settle/", "turns/one at a time", "turns/of one batch", "turns/retries", "documents/", "messages/", "wait/"}},
		{"without", "", []string{"register/", "take/", "update/"}},
	} {
		t.Run(of.name, func(t *testing.T) {
			storetest.RunSome(t, behind(pooler, of.direct), of.prefixes...)
			t.Run("hears", func(t *testing.T) {
				o := newOptions()
				o.URL, o.DirectURL = pooler, of.direct
				if err := openStore(t, o).Hears(t.Context()); (err == nil) != (of.direct != "") {
					t.Errorf("notifications: %v", err)
				}
			})
		})
	}
}

// TestSoakBehindPgBouncer is TestConformance and TestModel behind a pooler.
func TestSoakBehindPgBouncer(t *testing.T) {
	h := behind(startPooler(t), server.URL("postgres"))
	storetest.Run(t, h)
	runModel(t, h)
}
