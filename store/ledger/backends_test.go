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

var mariadbBackend = &backend{
	name:    "mariadb",
	fresh:   func(t testing.TB) string { t.Helper(); return freshMariaDB(t, mariadbServer) },
	start:   testenv.StartMariaDB,
	freshOn: freshMariaDB,
	open:    openMariaDB,
	copied: func(t testing.TB, from string) string {
		t.Helper()
		u, err := url.Parse(from)
		noError(t, "Parse", err)
		name, old := newName(), strings.TrimPrefix(u.Path, "/")
		statements := []string{"CREATE DATABASE " + name}
		for _, table := range journalTables {
			columns := "*"
			if table == "message" { // whose last column is generated
				columns = messageColumns
			}
			statements = append(statements, fmt.Sprintf("CREATE TABLE %s.%s LIKE %s.%[2]s", name, table, old),
				fmt.Sprintf("INSERT INTO %s.%s %s SELECT %s FROM %s.%[2]s", name, table,
					strings.ReplaceAll("("+columns+")", "(*)", ""), columns, old))
		}
		onMariaDB(t, mariadbServer, statements...)
		return mariadbServer.URL(name)
	},
	readOnly: func(on bool) string {
		return "SET SESSION TRANSACTION " + map[bool]string{true: "READ ONLY", false: "READ WRITE"}[on]
	},
	hex: func(digits string) string { return "x'" + digits + "'" },
}

const messageColumns = "seq, topic, id, uid, biz_key, endpoint, delay, ttl, created, due, expires, status, attempts, snoozes, " +
	"lapses, token, version, cancel, next_at, reason, ended_at, done_at, updated, confirmed"

func openMariaDB(journal string) (*sql.DB, error) {
	u, err := url.Parse(journal)
	if err != nil {
		return nil, err
	}
	return sql.Open("mysql", fmt.Sprintf("root@tcp(%s)%s", u.Host, u.Path))
}

func freshMariaDB(t testing.TB, server *testenv.SQLServer) string {
	t.Helper()
	name := newName()
	onMariaDB(t, server, "CREATE DATABASE "+name)
	return server.URL(name)
}

func onMariaDB(t testing.TB, server *testenv.SQLServer, statements ...string) {
	t.Helper()
	db, err := openMariaDB(server.URL(""))
	noError(t, "open", err)
	execAll(t, db, statements)
}

var backends = []*backend{sqliteBackend, postgresBackend, mariadbBackend}

// The servers that the tests of this package share.
var postgresServer, mariadbServer *testenv.SQLServer

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
		for _, s := range []*testenv.SQLServer{postgresServer, mariadbServer} {
			if s != nil {
				_ = s.Close() // nothing depends on it any more
			}
		}
	}
	flag.Parse()
	// Benchmarks are to tell what waiting for the disk costs.
	durable := flag.Lookup("test.bench").Value.String() != ""
	if postgresServer, err = testenv.StartPostgres(durable); err != nil {
		return stop, err
	}
	mariadbServer, err = testenv.StartMariaDB(durable)
	return stop, err
}

var lastName atomic.Int64

func newName() string { return fmt.Sprint("j", lastName.Add(1)) }

// onServer runs statements beside a journal.
func onServer(t testing.TB, server *testenv.SQLServer, driver string, statements ...string) {
	t.Helper()
	db, err := sql.Open(driver, server.URL("postgres"))
	noError(t, "open", err)
	execAll(t, db, statements)
}

func execAll(t testing.TB, db *sql.DB, statements []string) {
	t.Helper()
	defer db.Close()
	for _, s := range statements {
		_, err := db.ExecContext(context.Background(), s)
		noError(t, s, err)
	}
}

// onEach runs body for every kind of server, in virtual time.
func onEach(body func(t *testing.T, b *backend)) func(t *testing.T) {
	return onEachOf(backends, body)
}

func onEachOf(backends []*backend, body func(t *testing.T, b *backend)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		for _, b := range backends {
			t.Run(b.name, inBubble(func(t *testing.T) { body(t, b) }))
		}
	}
}
