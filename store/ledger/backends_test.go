package ledger_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/duehook/duehook/internal/testenv"
)

// backend is a kind of server that a journal can be kept on.
type backend struct {
	name string
	// fresh makes an empty database and gives its URL.
	fresh func(t testing.TB) string
	// start starts a server of a test's own, of whose databases freshOn makes one.
	start   func(durable bool) (*testenv.SQLServer, error)
	freshOn func(t testing.TB, server *testenv.SQLServer) string
	// open opens the database of a URL as anybody may.
	open func(url string) (*sql.DB, error)
	// copied copies what is committed into a new database.
	copied func(t testing.TB, url string) string
	// readOnly makes writes through a connection fail, or not any more.
	readOnly func(on bool) string
	// hex is a literal of bytes.
	hex func(digits string) string
}

var sqliteBackend = &backend{
	name:  "sqlite",
	fresh: func(t testing.TB) string { t.Helper(); return "sqlite:" + newPath(t) },
	open:  func(url string) (*sql.DB, error) { return sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:")) },
	copied: func(t testing.TB, url string) string {
		t.Helper()
		return "sqlite:" + snapshot(t, strings.TrimPrefix(url, "sqlite:"))
	},
	readOnly: func(on bool) string {
		return fmt.Sprint("PRAGMA query_only = ", map[bool]int{true: 1}[on])
	},
	hex: func(digits string) string { return "x'" + digits + "'" },
}

var postgresBackend = &backend{
	name:    "postgres",
	fresh:   func(t testing.TB) string { t.Helper(); return freshPostgres(t, postgresServer) },
	start:   testenv.StartPostgres,
	freshOn: freshPostgres,
	open:    func(url string) (*sql.DB, error) { return sql.Open("pgx", url) },
	copied: func(t testing.TB, from string) string {
		t.Helper()
		name := newName()
		u, err := url.Parse(from)
		noError(t, "Parse", err)
		statements := []string{"CREATE SCHEMA " + name}
		for _, table := range journalTables {
			statements = append(statements,
				fmt.Sprintf("CREATE TABLE %s.%s (LIKE %s.%s INCLUDING ALL)", name, table, u.Query().Get("search_path"), table))
		}
		// One statement, so that all tables are of one moment.
		var inserts []string
		for i, table := range journalTables {
			inserts = append(inserts, fmt.Sprintf("i%d AS (INSERT INTO %s.%s SELECT * FROM %s.%s)", i, name, table, u.Query().Get("search_path"), table))
		}
		statements = append(statements, "WITH "+strings.Join(inserts, ", ")+" SELECT 1",
			fmt.Sprintf("SELECT setval('%[1]s.flow_seq_seq', (SELECT 1 + coalesce(max(seq), 0) FROM %[1]s.flow))", name))
		onServer(t, postgresServer, "pgx", statements...)
		return withSchema(postgresServer.URL("postgres"), name)
	},
	readOnly: func(on bool) string { return fmt.Sprint("SET default_transaction_read_only = ", on) },
	hex:      func(digits string) string { return `'\x` + digits + "'" },
}

func freshPostgres(t testing.TB, server *testenv.SQLServer) string {
	t.Helper()
	name := newName()
	onServer(t, server, "pgx", "CREATE SCHEMA "+name)
	return withSchema(server.URL("postgres"), name)
}

// journalTables are the tables of a journal and that of its version.
var journalTables = []string{"writer", "state", "message", "payload", "flow", "document", "goose_db_version"}

func withSchema(url, name string) string { return url + "&search_path=" + name }

var backends = []*backend{sqliteBackend, postgresBackend}

// The servers that the tests of this package share.
var postgresServer *testenv.SQLServer

// sharedServers starts and ends them around the tests.
type sharedServers struct{ *testing.M }

func (m sharedServers) Run() int {
	stop, err := startServers()
	defer stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.M.Run()
}

func startServers() (stop func(), err error) {
	stop = func() {
		if postgresServer != nil {
			_ = postgresServer.Close() // nothing depends on it any more
		}
	}
	flag.Parse()
	// Benchmarks are to tell what waiting for the disk costs.
	durable := flag.Lookup("test.bench").Value.String() != ""
	postgresServer, err = testenv.StartPostgres(durable)
	return stop, err
}

var lastName atomic.Int64

func newName() string { return fmt.Sprint("j", lastName.Add(1)) }

// onServer runs statements beside a journal.
func onServer(t testing.TB, server *testenv.SQLServer, driver string, statements ...string) {
	t.Helper()
	db, err := sql.Open(driver, server.URL("postgres"))
	noError(t, "open", err)
	defer db.Close()
	for _, s := range statements {
		_, err := db.ExecContext(context.Background(), s)
		noError(t, s, err)
	}
}

// onEach runs body for every kind of server, in virtual time.
func onEach(body func(t *testing.T, b *backend)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		for _, b := range backends {
			t.Run(b.name, inBubble(func(t *testing.T) { body(t, b) }))
		}
	}
}
