package journal_test

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/testing/journaltest"
	"github.com/duehook/duehook/store/journal"
)

// Short names of helpers.
type (
	backend = journaltest.Backend
	rig     = journaltest.Rig
	options = journal.Options
)

const retention = journaltest.Retention

var (
	backends                                       = journaltest.Backends
	sqliteBackend, postgresBackend, mariadbBackend = journaltest.SQLite, journaltest.Postgres, journaltest.MariaDB

	onEach, onEachOf, inBubble = journaltest.OnEach, journaltest.OnEachOf, journaltest.InBubble

	key, reg, replacing                  = journaltest.Key, journaltest.Reg, journaltest.Replacing
	cancel, replay, runAt                = journaltest.Cancel, journaltest.Replay, journaltest.RunAt
	settlement, carryAll                 = journaltest.Settlement, journaltest.CarryAll
	noError, equal, isError, unavailable = journaltest.NoError, journaltest.Equal, journaltest.IsError, journaltest.Unavailable
	newName, newPath, errLost            = journaltest.NewName, journaltest.NewPath, journaltest.ErrLost
)

var newRig, freshRig, tryRig, hook = journaltest.New, journaltest.Fresh, journaltest.Try, journaltest.Hook

// A table that the rig does not know keeps the rows of one test for the next.
func TestRigKnowsAllTables(t *testing.T) {
	onEachOf(journaltest.Servers, func(t *testing.T, b *backend) {
		u, err := url.Parse(b.Empty(t))
		noError(t, "Parse", err)
		schema := cmp.Or(u.Query().Get("search_path"), strings.TrimPrefix(u.Path, "/"))
		names := b.Query(t, u.String(),
			"SELECT table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND table_schema = '"+schema+"'")
		names = slices.DeleteFunc(names, func(name string) bool {
			return name == "writer" || name == "state" || strings.HasPrefix(name, "goose_")
		})
		slices.Sort(names)
		equal(t, "tables", slices.Sorted(slices.Values(journaltest.Tables)), names)
	})(t)
}
