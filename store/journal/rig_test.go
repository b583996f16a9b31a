package journal_test

import (
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
