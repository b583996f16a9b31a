package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sync/errgroup"

	v1 "github.com/duehook/duehook/httpapi/v1"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/inbox"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/listing"
)

// engine is a kind of database.
type engine struct {
	name   string
	server *testenv.SQLServer
	table  string
	arg    string
	open   func(url string) (*sql.DB, error)
	named  atomic.Int64 // databases
}

var engines = []*engine{
	{name: "postgres", table: inbox.PostgresTable, arg: "$1", open: func(url string) (*sql.DB, error) {
		config, err := pgx.ParseConfig(url)
		if err != nil {
			return nil, err
		}
		return stdlib.OpenDB(*config), nil
	}},
	{name: "mariadb", table: inbox.MySQLTable, arg: "?", open: func(url string) (*sql.DB, error) {
		account, rest, _ := strings.Cut(strings.TrimPrefix(url, "mysql://"), "@")
		address, database, _ := strings.Cut(rest, "/")
		config, err := mysql.ParseDSN(fmt.Sprintf("%s@tcp(%s)/%s?multiStatements=true", account, address, database))
		if err != nil {
			return nil, err
		}
		config.Logger = &mysql.NopLogger{}
		connector, err := mysql.NewConnector(config)
		if err != nil {
			return nil, err
		}
		return sql.OpenDB(connector), nil
	}},
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	starts := []func() (*testenv.SQLServer, error){
		func() (*testenv.SQLServer, error) { return testenv.StartPostgres(false) },
		func() (*testenv.SQLServer, error) { return testenv.StartMariaDB(true) }, // otherwise a killed one has lost commits
	}
	var starting errgroup.Group // at the same time
	for i, start := range starts {
		starting.Go(func() (err error) {
			engines[i].server, err = start()
			return err
		})
	}
	err := starting.Wait()
	defer func() {
		for _, e := range engines {
			if e.server != nil {
				err = errors.Join(err, e.server.Close())
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	if err != nil {
		return 1
	}
	return m.Run()
}

// onEach runs a test on each kind of database, with an empty inbox. The databases wait at the same time.
func onEach(t *testing.T, test func(*testing.T, *bench)) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			test(t, newBench(t, e))
		})
	}
}

// bench is an inbox and a store.
type bench struct {
	*testing.T
	e     *engine
	url   string
	db    *sql.DB
	store *counting
	app   *app.App
}

// database makes a database, and opens it.
func (e *engine) database(t testing.TB) (url string, db *sql.DB) {
	t.Helper()
	name := fmt.Sprint("inbox_", e.named.Add(1))
	first := map[string]string{"postgres": "postgres", "mariadb": "shop"}[e.name]
	admin, err := e.open(e.server.URL(first))
	must.OK(t, err)
	defer func() { _ = admin.Close() }()
	_, err = admin.ExecContext(t.Context(), "CREATE DATABASE "+name)
	must.OK(t, err)
	url = e.server.URL(name)
	db, err = e.open(url)
	must.OK(t, err)
	t.Cleanup(func() { _ = db.Close() })
	_, err = db.ExecContext(t.Context(), e.table)
	must.OK(t, err)
	return url, db
}

func newBench(t *testing.T, e *engine) *bench {
	t.Helper()
	b := &bench{T: t, e: e, store: &counting{Embedded: testenv.Store(t, diskstore.Options{Retention: time.Hour}), created: map[string]int{}}}
	b.url, b.db = e.database(t)
	var err error
	b.app, err = app.New(app.Options{Store: b.store, Groups: groups.New(b.store, app.Guard(nil).Check, nil)})
	must.OK(t, err)
	return b
}

// options are those of a node.
func (b *bench) options() inbox.Options {
	return inbox.Options{
		Inboxes: []inbox.Inbox{{Name: "orders", URL: b.url}}, Jobs: b.app,
		Prepare: func(ctx context.Context, request []byte, id string, from app.Origin) (inbox.Registration, error) {
			return v1.PrepareRow(ctx, b.app, request, id, from)
		},
		Explain: v1.ExplainRow, MaxRequest: v1.MaxRequest(b.app.Bounds()), Poll: 200 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(b.Output(), nil)),
	}
}

// start starts a node. stop may be called again.
func (b *bench) start(o inbox.Options) (m *inbox.Manager, stop func()) {
	b.Helper()
	m, err := inbox.New(o)
	must.OK(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Errorf("the manager ended with %v", err)
		}
	})
	b.Cleanup(stop)
	return m, stop
}

// executor is a database or a transaction.
type executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// insert writes a row.
func (b *bench) insert(ctx context.Context, tx executor, request string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO duehook_inbox (request) VALUES ("+b.e.arg+")", request)
	return err
}

func (b *bench) put(requests ...string) {
	b.Helper()
	for _, r := range requests {
		must.OK(b, b.insert(b.Context(), b.db, r))
	}
}

// count counts rows on a condition. While the server is down, there are -1.
func (b *bench) count(condition string) (n int) {
	if err := b.db.QueryRowContext(b.Context(), "SELECT COUNT(*) FROM duehook_inbox WHERE "+condition).Scan(&n); err != nil {
		return -1
	}
	return n
}

// drained waits until no row is left on a condition.
func (b *bench) drained(condition string) {
	b.Helper()
	testenv.Eventually(b, testenv.Patience, func() bool { return b.count(condition) == 0 }, "rows are left: "+condition)
}

func (b *bench) get(topic, id string) job.Job {
	b.Helper()
	j, err := b.app.Get(b.Context(), job.Key{Topic: topic, ID: id})
	must.OK(b, err)
	return j
}

// jobs are all jobs, by their ids.
func (b *bench) jobs() map[string]job.Job {
	b.Helper()
	all := map[string]job.Job{}
	for q := (store.Query{Limit: 1000}); ; {
		page, err := listing.List(b.Context(), b.store, q)
		must.OK(b, err)
		for _, j := range page.Jobs {
			all[j.ID] = j
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return all
		}
	}
}

// counting counts the registrations that made a job, and fails on demand.
type counting struct {
	diskstore.Embedded
	mu      sync.Mutex
	created map[string]int // by id
	order   []string       // ids, as they were made
	fail    func() (before, after error)
}

func (c *counting) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	var before, after error
	if c.fail != nil {
		before, after = c.fail()
	}
	if before != nil {
		return nil, before
	}
	registered, err := c.Embedded.Register(ctx, regs)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range registered {
		if registered[i].Outcome == store.Created {
			c.created[regs[i].Key.ID]++
			c.order = append(c.order, regs[i].Key.ID)
		}
	}
	return registered, after
}
