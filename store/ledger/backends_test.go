package ledger_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	_ "github.com/lib/pq" // the driver "postgres"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store/ledger"
)

// backend is a kind of server that keeps ledgers.
type backend struct {
	Name string
	// Start starts a server for one test, on which FreshOn makes databases.
	Start   func(durable bool) (*testenv.SQLServer, error)
	FreshOn func(t testing.TB, server *testenv.SQLServer) (ledger string)
	// Open connects to the database of a ledger, as any program may.
	Open func(ledger string) (*sql.DB, error)
	// Hex returns a literal of bytes.
	Hex func(digits string) string

	server *testenv.SQLServer // shared by the tests
	// admin connects to the server, beside all ledgers.
	admin func(server *testenv.SQLServer) (*sql.DB, error)
	// used has ledgers of tests that have ended: making tables takes longer than most
	// tests.
	used names
	// copied copies what is committed into another ledger.
	copied func(t testing.TB, ledger string) (to string)
	// readOnly returns the statement that makes writes of a connection fail, or work again.
	readOnly func(on bool) string
}

// The kinds of servers.
var (
	postgres = &backend{Name: "postgres"}
	mariadb  = &backend{Name: "mariadb"}
	servers  = []*backend{postgres, mariadb}
)

func init() {
	initPostgres(postgres)
	initMariaDB(mariadb)
}

func initPostgres(b *backend) {
	b.Start = func(durable bool) (*testenv.SQLServer, error) { return testenv.StartPostgres(durable) }
	b.FreshOn = func(t testing.TB, server *testenv.SQLServer) string {
		t.Helper()
		name := newName()
		b.execOn(t, server, "CREATE SCHEMA "+name)
		return server.URL("postgres") + "&search_path=" + name
	}
	b.admin = func(server *testenv.SQLServer) (*sql.DB, error) { return sql.Open("postgres", server.URL("postgres")) }
	b.Open = func(ledger string) (*sql.DB, error) { return sql.Open("postgres", ledger) }
	b.copied = func(t testing.TB, from string) string {
		t.Helper()
		to := b.Empty(t)
		name, old := schemaOf(t, to), schemaOf(t, from)
		// One statement, so that all tables are of one moment.
		parts := []string{fmt.Sprintf("u AS (UPDATE %s.writer SET next_seq = o.next_seq FROM %s.writer o)", name, old)}
		for _, table := range tables {
			parts = append(parts, fmt.Sprintf("%[1]s AS (INSERT INTO %[2]s.%[1]s SELECT * FROM %[3]s.%[1]s)", table, name, old))
		}
		b.Exec(t, "WITH "+strings.Join(parts, ", ")+" SELECT 1",
			fmt.Sprintf("SELECT setval('%[1]s.flow_seq_seq', (SELECT 1 + coalesce(max(seq), 0) FROM %[1]s.flow))", name))
		return to
	}
	b.readOnly = func(on bool) string { return fmt.Sprint("SET default_transaction_read_only = ", on) }
	b.Hex = func(digits string) string { return `'\x` + digits + "'" }
}

func initMariaDB(b *backend) {
	b.Start = testenv.StartMariaDB
	b.FreshOn = func(t testing.TB, server *testenv.SQLServer) string {
		t.Helper()
		name := newName()
		b.execOn(t, server, "CREATE DATABASE "+name)
		return server.URL(name)
	}
	b.Open = func(ledger string) (*sql.DB, error) {
		u, err := url.Parse(ledger)
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
		statements := []string{fmt.Sprintf("UPDATE %s.writer n JOIN %s.writer o SET n.next_seq = o.next_seq", name, old)}
		for _, table := range tables {
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

func schemaOf(t testing.TB, ledger string) string {
	t.Helper()
	u, err := url.Parse(ledger)
	noError(t, "Parse", err)
	return u.Query().Get("search_path")
}

const messageColumns = "seq, topic, id, uid, biz_key, endpoint, delay, ttl, created, due, expires, status, attempts, snoozes, " +
	"expired_leases, token, version, cancel, next_at, reason, ended_at, done_at, updated, place, replaced, counted"

func databaseOf(t testing.TB, ledger string) string {
	t.Helper()
	u, err := url.Parse(ledger)
	noError(t, "Parse", err)
	return strings.TrimPrefix(u.Path, "/")
}

// tables are the tables of a ledger that tests fill.
var tables = []string{"message", "payload", "flow", "document", "count_key"}

// emptied are the statements that empty a ledger.
func emptied() []string {
	statements := []string{"UPDATE writer SET next_seq = 1"}
	for _, table := range tables {
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
func (b *backend) Fresh(t testing.TB) string {
	t.Helper()
	return b.FreshOn(t, b.server)
}

// URL returns the URL of a database on the server that tests share.
func (b *backend) URL(database string) string { return b.server.URL(database) }

// Empty returns the URL of an empty ledger, perhaps with tables. Another test may get
// it after this one.
func (b *backend) Empty(t testing.TB) string {
	t.Helper()
	url := b.used.pop()
	if url == "" {
		url = b.Fresh(t)
		noError(t, "make the tables", migrated(url))
	}
	db, err := b.Open(url)
	noError(t, "open", err)
	execAll(t, db, emptied())
	t.Cleanup(func() { b.used.push(url) })
	return url
}

// migrated makes the tables.
func migrated(url string) error {
	inner, err := openStore(0)
	if err != nil {
		return err
	}
	s, err := ledger.Open(context.Background(), ledger.Options{URL: url, Store: inner})
	if err != nil {
		return errors.Join(err, inner.Close())
	}
	return s.Close()
}

// runner runs tests with the servers that they share.
type runner struct{ m interface{ Run() int } }

// withServers returns tests that run with the servers of the backends.
func withServers(m interface{ Run() int }) interface{ Run() int } { return runner{m} }

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
		for _, b := range servers {
			if b.server != nil {
				_ = b.server.Close() // nothing uses it any more
			}
		}
	}
	flag.Parse()
	// Tests wait for servers and their time limits more than they work.
	if err := flag.Set("test.parallel", "8"); err != nil {
		return stop, err
	}
	// Benchmarks include the cost of waiting for the disk.
	durable := flag.Lookup("test.bench").Value.String() != ""
	for _, b := range servers {
		if b.server, err = b.Start(durable); err != nil {
			return stop, err
		}
	}
	return stop, nil
}

var lastName atomic.Int64

// newName returns a name for a database or a namespace.
func newName() string { return fmt.Sprint("j", lastName.Add(1)) }

// Exec runs statements on the server that tests share, beside all ledgers.
func (b *backend) Exec(t testing.TB, statements ...string) {
	t.Helper()
	b.execOn(t, b.server, statements...)
}

func (b *backend) execOn(t testing.TB, server *testenv.SQLServer, statements ...string) {
	t.Helper()
	db, err := b.admin(server)
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

// Query returns the first column of all rows, read by a connection of its own.
func (b *backend) Query(t testing.TB, ledger, text string, args ...any) []string {
	t.Helper()
	db, err := b.Open(ledger)
	noError(t, "open", err)
	defer db.Close()
	rows, err := db.QueryContext(context.Background(), text, args...)
	noError(t, text, err)
	defer rows.Close()
	var column []string
	for rows.Next() {
		var v sql.NullString
		noError(t, text, rows.Scan(&v))
		column = append(column, v.String)
	}
	noError(t, text, rows.Err())
	return column
}

// onEach returns a test that runs body in virtual time, on PostgreSQL: for what no kind of
// server changes.
func onEach(body func(t *testing.T, b *backend)) func(t *testing.T) {
	return inBubble(func(t *testing.T) { body(t, postgres) })
}

// onServers is onEach for every kind of server.
func onServers(body func(t *testing.T, b *backend)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		for _, b := range servers {
			t.Run(b.Name, inBubble(func(t *testing.T) { body(t, b) }))
		}
	}
}

// onRealServers runs body in real time, on every kind of server.
func onRealServers(t *testing.T, body func(t *testing.T, b *backend)) {
	t.Helper()
	t.Parallel()
	for _, b := range servers {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			body(t, b)
		})
	}
}

// inBubble returns a test that runs body in virtual time.
func inBubble(body func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, body)
	}
}
