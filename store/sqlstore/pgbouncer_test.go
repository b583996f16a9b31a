package sqlstore

import (
	"testing"

	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/storetest"
)

// Behind a pooler in transaction mode, calls work. Notifications need a connection past it. All statements go through the
// pooler either way, so each group of cases runs once.
func TestBehindPgBouncer(t *testing.T) {
	pooler, err := testenv.StartPgBouncer(server)
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, pooler.Close()) })
	for _, of := range []struct {
		name, direct string
		prefixes     []string
	}{
		{"with a direct connection", server.URL("postgres"), []string{"settle/", "turns/one at a time", "turns/of one batch", "turns/retries", "documents/", "messages/", "wait/"}},
		{"without", "", []string{"register/", "take/", "update/"}},
	} {
		t.Run(of.name, func(t *testing.T) {
			h := storetest.Harness{OneShard: true, Open: func(t testing.TB, o storetest.Options) store.Store {
				t.Helper()
				options := newOptions()
				options.URL, options.DirectURL, options.Retention = pooler.URL("postgres"), of.direct, o.Retention
				return openEmptied(t, options)
			}}
			storetest.RunSome(t, h, of.prefixes...)
			t.Run("hears", func(t *testing.T) {
				o := newOptions()
				o.URL, o.DirectURL = pooler.URL("postgres"), of.direct
				if err := openStore(t, o).Hears(t.Context()); (err == nil) != (of.direct != "") {
					t.Errorf("notifications: %v", err)
				}
			})
		})
	}
}
