package ledger_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store/journal"
	"github.com/duehook/duehook/store/memstore"
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
	// used are databases of tests that have ended, on a server that tests share:
	// making tables costs more than most tests.
	used *names
	// template gives a file with the tables, where a copy of it is a database.
	template func() (string, error)
	// copied copies what is committed into another database.
	copied func(t testing.TB, b *backend, url string) string
	// readOnly makes writes through a connection fail, or not any more.
	readOnly func(on bool) string
	// hex is a literal of bytes.
	hex func(digits string) string
}

var sqliteBackend = &backend{
	name:  "sqlite",
	fresh: func(t testing.TB) string { t.Helper(); return "sqlite:" + newPath(t) },
	template: sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp("", "ledger")
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, "template.db")
		templates.push(dir)
		return path, migrated("sqlite:" + path)
	}),
	open: func(url string) (*sql.DB, error) { return sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:")) },
	copied: func(t testing.TB, _ *backend, url string) string {
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
	used:    &names{},
	fresh:   func(t testing.TB) string { t.Helper(); return freshPostgres(t, postgresServer) },
	start:   func(durable bool) (*testenv.SQLServer, error) { return testenv.StartPostgres(durable) },
	freshOn: freshPostgres,
	open:    func(url string) (*sql.DB, error) { return sql.Open("pgx", url) },
	copied: func(t testing.TB, b *backend, from string) string {
		t.Helper()
		to := b.empty(t)
		name, old := schemaOf(t, to), schemaOf(t, from)
		// One statement, so that all tables are of one moment.
		parts := []string{fmt.Sprintf("u AS (UPDATE %s.writer SET next_seq = o.next_seq, owner = o.owner FROM %s.writer o)", name, old)}
		for _, table := range journalTables {
			parts = append(parts, fmt.Sprintf("%[1]s AS (INSERT INTO %[2]s.%[1]s SELECT * FROM %[3]s.%[1]s)", table, name, old))
		}
		onServer(t, postgresServer, "pgx", "WITH "+strings.Join(parts, ", ")+" SELECT 1",
			fmt.Sprintf("SELECT setval('%[1]s.flow_seq_seq', (SELECT 1 + coalesce(max(seq), 0) FROM %[1]s.flow))", name))
		return to
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

func schemaOf(t testing.TB, journal string) string {
	t.Helper()
	u, err := url.Parse(journal)
	noError(t, "Parse", err)
	return u.Query().Get("search_path")
}

// journalTables are the tables of a journal that tests fill.
var journalTables = []string{"message", "payload", "flow", "document"}

// emptied are the statements that empty a journal.
func emptied() []string {
	statements := []string{"UPDATE writer SET next_seq = 1, owner = ''"}
	for _, table := range journalTables {
		statements = append(statements, "DELETE FROM "+table)
	}
	return statements
}

// names is a list of URLs.
type names struct {
	mu   sync.Mutex
	list []string
}

func (n *names) pop() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.list) == 0 {
		return ""
	}
	last := n.list[len(n.list)-1]
	n.list = n.list[:len(n.list)-1]
	return last
}

func (n *names) push(url string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, url)
}

// empty gives the URL of an empty journal, whose tables may be there. Another
// test may get it when this one has ended.
func (b *backend) empty(t testing.TB) string {
	t.Helper()
	if b.used == nil {
		return b.fromTemplate(t)
	}
	url := b.used.pop()
	if url == "" {
		url = b.fresh(t)
		noError(t, "make the tables", migrated(url))
	}
	db, err := b.open(url)
	noError(t, "open", err)
	execAll(t, db, emptied())
	t.Cleanup(func() { b.used.push(url) })
	return url
}

// templates are directories to be removed in the end.
var templates names

func (b *backend) fromTemplate(t testing.TB) string {
	t.Helper()
	path, err := b.template()
	noError(t, "make the tables", err)
	content, err := os.ReadFile(path)
	noError(t, "read the template", err)
	url := b.fresh(t)
	noError(t, "copy the template", os.WriteFile(strings.TrimPrefix(url, "sqlite:"), content, 0o600))
	return url
}

// migrated makes the tables.
func migrated(url string) error {
	s, err := journal.Open(context.Background(), journal.Options{URL: url, Store: memstore.New(memstore.Options{})})
	if err != nil {
		return err
	}
	return s.Close()
}

func withSchema(url, name string) string { return url + "&search_path=" + name }

var mariadbBackend = &backend{
	name:    "mariadb",
	used:    &names{},
	fresh:   func(t testing.TB) string { t.Helper(); return freshMariaDB(t, mariadbServer) },
	start:   testenv.StartMariaDB,
	freshOn: freshMariaDB,
	open:    openMariaDB,
	copied: func(t testing.TB, b *backend, from string) string {
		t.Helper()
		to := b.empty(t)
		name, old := databaseOf(t, to), databaseOf(t, from)
		statements := []string{fmt.Sprintf("UPDATE %s.writer n JOIN %s.writer o SET n.next_seq = o.next_seq, n.owner = o.owner", name, old)}
		for _, table := range journalTables {
			columns := "*"
			if table == "message" { // whose last column is generated
				columns = messageColumns
			}
			statements = append(statements, fmt.Sprintf("INSERT INTO %s.%s %s SELECT %s FROM %s.%[2]s", name, table,
				strings.ReplaceAll("("+columns+")", "(*)", ""), columns, old))
		}
		onMariaDB(t, mariadbServer, statements...)
		return to
	},
	readOnly: func(on bool) string {
		return "SET SESSION TRANSACTION " + map[bool]string{true: "READ ONLY", false: "READ WRITE"}[on]
	},
	hex: func(digits string) string { return "x'" + digits + "'" },
}

const messageColumns = "seq, topic, id, uid, biz_key, endpoint, delay, ttl, created, due, expires, status, attempts, snoozes, " +
	"lapses, token, version, cancel, next_at, reason, ended_at, done_at, updated, confirmed"

func databaseOf(t testing.TB, journal string) string {
	t.Helper()
	u, err := url.Parse(journal)
	noError(t, "Parse", err)
	return strings.TrimPrefix(u.Path, "/")
}

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
		for dir := templates.pop(); dir != ""; dir = templates.pop() {
			_ = os.RemoveAll(dir) // nothing depends on it any more
		}
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
