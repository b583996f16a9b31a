package journaltest

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store/journal"
)

// Backend is a kind of server that keeps journals.
type Backend struct {
	Name string
	// Start starts a server for one test, on which FreshOn makes databases.
	Start   func(durable bool) (*testenv.SQLServer, error)
	FreshOn func(t testing.TB, server *testenv.SQLServer) (journal string)
	// Open connects to the database of a journal, as any program may.
	Open func(journal string) (*sql.DB, error)
	// Hex returns a literal of bytes.
	Hex func(digits string) string

	server *testenv.SQLServer // shared by the tests of a package; nil for SQLite
	// admin connects to the server, beside all journals.
	admin func(server *testenv.SQLServer) (*sql.DB, error)
	// used has journals of tests that have ended: making tables takes longer than most
	// tests.
	used names
	// template returns a file with the tables; nil: journals are reused.
	template func() (string, error)
	// copied copies what is committed into another journal.
	copied func(t testing.TB, journal string) (to string)
	// readOnly returns the statement that makes writes of a connection fail, or work again.
	readOnly func(on bool) string
}

// The backends. Those with a server need WithServers.
var (
	SQLite   = &Backend{Name: "sqlite"}
	Postgres = &Backend{Name: "postgres"}
	MariaDB  = &Backend{Name: "mariadb"}
	Backends = []*Backend{SQLite, Postgres, MariaDB}
	// Servers are the backends that several nodes can share.
	Servers = []*Backend{Postgres, MariaDB}
)

func init() {
	initSQLite(SQLite)
	initPostgres(Postgres)
	initMariaDB(MariaDB)
}

func initSQLite(b *Backend) {
	b.template = sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp("", "journaltest")
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, "template.db")
		templates.push(dir)
		return path, migrated("sqlite:" + path)
	})
	b.Open = func(journal string) (*sql.DB, error) {
		return sql.Open("sqlite", strings.TrimPrefix(journal, "sqlite:"))
	}
	b.copied = func(t testing.TB, journal string) string {
		t.Helper()
		return "sqlite:" + Snapshot(t, strings.TrimPrefix(journal, "sqlite:"))
	}
	b.readOnly = func(on bool) string {
		return fmt.Sprint("PRAGMA query_only = ", map[bool]int{true: 1}[on])
	}
	b.Hex = func(digits string) string { return "x'" + digits + "'" }
}

func initPostgres(b *Backend) {
	b.Start = func(durable bool) (*testenv.SQLServer, error) { return testenv.StartPostgres(durable) }
	b.FreshOn = func(t testing.TB, server *testenv.SQLServer) string {
		t.Helper()
		name := NewName()
		b.execOn(t, server, "CREATE SCHEMA "+name)
		return server.URL("postgres") + "&search_path=" + name
	}
	b.admin = func(server *testenv.SQLServer) (*sql.DB, error) { return sql.Open("pgx", server.URL("postgres")) }
	b.Open = func(journal string) (*sql.DB, error) { return sql.Open("pgx", journal) }
	b.copied = func(t testing.TB, from string) string {
		t.Helper()
		to := b.Empty(t)
		name, old := schemaOf(t, to), schemaOf(t, from)
		// One statement, so that all tables are of one moment.
		parts := []string{fmt.Sprintf("u AS (UPDATE %s.writer SET next_seq = o.next_seq, owner = o.owner FROM %s.writer o)", name, old)}
		for _, table := range Tables {
			parts = append(parts, fmt.Sprintf("%[1]s AS (INSERT INTO %[2]s.%[1]s SELECT * FROM %[3]s.%[1]s)", table, name, old))
		}
		b.Exec(t, "WITH "+strings.Join(parts, ", ")+" SELECT 1",
			fmt.Sprintf("SELECT setval('%[1]s.flow_seq_seq', (SELECT 1 + coalesce(max(seq), 0) FROM %[1]s.flow))", name))
		return to
	}
	b.readOnly = func(on bool) string { return fmt.Sprint("SET default_transaction_read_only = ", on) }
	b.Hex = func(digits string) string { return `'\x` + digits + "'" }
}

func initMariaDB(b *Backend) {
	b.Start = testenv.StartMariaDB
	b.FreshOn = func(t testing.TB, server *testenv.SQLServer) string {
		t.Helper()
		name := NewName()
		b.execOn(t, server, "CREATE DATABASE "+name)
		return server.URL(name)
	}
	b.Open = func(journal string) (*sql.DB, error) {
		u, err := url.Parse(journal)
		if err != nil {
			return nil, err
		}
		return sql.Open("mysql", fmt.Sprintf("root@tcp(%s)%s", u.Host, u.Path))
	}
	b.admin = func(server *testenv.SQLServer) (*sql.DB, error) { return b.Open(server.URL("")) }
	b.copied = func(t testing.TB, from string) string {
		t.Helper()
		to := b.Empty(t)
		name, old := databaseOf(t, to), databaseOf(t, from)
		statements := []string{fmt.Sprintf("UPDATE %s.writer n JOIN %s.writer o SET n.next_seq = o.next_seq, n.owner = o.owner", name, old)}
		for _, table := range Tables {
			columns := "*"
			if table == "message" { // whose last column is generated
				columns = messageColumns
			}
			statements = append(statements, fmt.Sprintf("INSERT INTO %s.%s %s SELECT %s FROM %s.%[2]s", name, table,
				strings.ReplaceAll("("+columns+")", "(*)", ""), columns, old))
		}
		b.Exec(t, statements...)
		return to
	}
	b.readOnly = func(on bool) string {
		return "SET SESSION TRANSACTION " + map[bool]string{true: "READ ONLY", false: "READ WRITE"}[on]
	}
	b.Hex = func(digits string) string { return "x'" + digits + "'" }
}

func schemaOf(t testing.TB, journal string) string {
	t.Helper()
	u, err := url.Parse(journal)
	NoError(t, "Parse", err)
	return u.Query().Get("search_path")
}

const messageColumns = "seq, topic, id, uid, biz_key, endpoint, delay, ttl, created, due, expires, status, attempts, snoozes, " +
	"expired_leases, token, version, cancel, next_at, reason, ended_at, done_at, updated, confirmed"

func databaseOf(t testing.TB, journal string) string {
	t.Helper()
	u, err := url.Parse(journal)
	NoError(t, "Parse", err)
	return strings.TrimPrefix(u.Path, "/")
}

// Tables are the tables of a journal that tests fill.
var Tables = []string{"message", "payload", "flow", "document", "tally", "tally_key"}

// emptied are the statements that empty a journal.
func emptied() []string {
	statements := []string{"UPDATE writer SET next_seq = 1, owner = ''"}
	for _, table := range Tables {
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

// Fresh makes an empty database and returns its URL.
func (b *Backend) Fresh(t testing.TB) string {
	t.Helper()
	if b == SQLite {
		return "sqlite:" + NewPath(t)
	}
	return b.FreshOn(t, b.server)
}

// URL returns the URL of a database on the server that tests share.
func (b *Backend) URL(database string) string { return b.server.URL(database) }

// Empty returns the URL of an empty journal, perhaps with tables. Another test may get
// it after this one.
func (b *Backend) Empty(t testing.TB) string {
	t.Helper()
	if b.template != nil {
		return b.fromTemplate(t)
	}
	url := b.used.pop()
	if url == "" {
		url = b.Fresh(t)
		NoError(t, "make the tables", migrated(url))
	}
	db, err := b.Open(url)
	NoError(t, "open", err)
	execAll(t, db, emptied())
	t.Cleanup(func() { b.used.push(url) })
	return url
}

// templates are directories to be removed in the end.
var templates names

func (b *Backend) fromTemplate(t testing.TB) string {
	t.Helper()
	path, err := b.template()
	NoError(t, "make the tables", err)
	content, err := os.ReadFile(path)
	NoError(t, "read the template", err)
	url := b.Fresh(t)
	NoError(t, "copy the template", os.WriteFile(strings.TrimPrefix(url, "sqlite:"), content, 0o600)) //nolint:gosec // a path of this test
	return url
}

// migrated makes the tables.
func migrated(url string) error {
	inner, err := OpenStore(0)
	if err != nil {
		return err
	}
	s, err := journal.Open(context.Background(), journal.Options{URL: url, Store: inner})
	if err != nil {
		return errors.Join(err, inner.Close())
	}
	return s.Close()
}

// runner runs tests with the servers that they share.
type runner struct{ m interface{ Run() int } }

// WithServers returns tests that run with the servers of the backends.
func WithServers(m interface{ Run() int }) interface{ Run() int } { return runner{m} }

func (r runner) Run() int {
	stop, err := startServers()
	defer stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return r.m.Run()
}

func startServers() (stop func(), err error) {
	stop = func() {
		for dir := templates.pop(); dir != ""; dir = templates.pop() {
			_ = os.RemoveAll(dir) // nothing uses it any more
		}
		for _, b := range Servers {
			if b.server != nil {
				_ = b.server.Close() // nothing uses it any more
			}
		}
	}
	flag.Parse()
	// Benchmarks include the cost of waiting for the disk.
	durable := flag.Lookup("test.bench").Value.String() != ""
	for _, b := range Servers {
		if b.server, err = b.Start(durable); err != nil {
			return stop, err
		}
	}
	return stop, nil
}

var lastName atomic.Int64

// NewName returns a name for a database or a namespace.
func NewName() string { return fmt.Sprint("j", lastName.Add(1)) }

// Exec runs statements on the server that tests share, beside all journals.
func (b *Backend) Exec(t testing.TB, statements ...string) {
	t.Helper()
	b.execOn(t, b.server, statements...)
}

func (b *Backend) execOn(t testing.TB, server *testenv.SQLServer, statements ...string) {
	t.Helper()
	db, err := b.admin(server)
	NoError(t, "open", err)
	execAll(t, db, statements)
}

func execAll(t testing.TB, db *sql.DB, statements []string) {
	t.Helper()
	defer db.Close() //nolint:errcheck // it only read, or reported the error
	for _, s := range statements {
		_, err := db.ExecContext(context.Background(), s)
		NoError(t, s, err)
	}
}

// Query returns the first column of all rows, read by a connection of its own.
func (b *Backend) Query(t testing.TB, journal, text string, args ...any) []string {
	t.Helper()
	db, err := b.Open(journal)
	NoError(t, "open", err)
	defer db.Close() //nolint:errcheck // it only read
	rows, err := db.QueryContext(context.Background(), text, args...)
	NoError(t, text, err)
	defer rows.Close() //nolint:errcheck // rows.Err reports it
	var column []string
	for rows.Next() {
		var v sql.NullString
		NoError(t, text, rows.Scan(&v))
		column = append(column, v.String)
	}
	NoError(t, text, rows.Err())
	return column
}

// OnEach returns a test that runs body for every kind of server, in virtual time.
func OnEach(body func(t *testing.T, b *Backend)) func(t *testing.T) {
	return OnEachOf(Backends, body)
}

// OnEachOf is OnEach for some backends.
func OnEachOf(backends []*Backend, body func(t *testing.T, b *Backend)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		for _, b := range backends {
			t.Run(b.Name, InBubble(func(t *testing.T) { body(t, b) }))
		}
	}
}

// InBubble returns a test that runs body in virtual time.
func InBubble(body func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, body)
	}
}
