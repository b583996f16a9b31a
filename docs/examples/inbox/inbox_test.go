package inbox_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	example "github.com/duehook/duehook/docs/examples/inbox"
	"github.com/duehook/duehook/duehooktest"
	"github.com/duehook/duehook/internal/inbox"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// database is a server with the table of an inbox, made as `duehook inbox sql` prints it, and a table of orders.
type database struct {
	dialect, addr string
	owner         *sql.DB
	open          func(user string) (driver, dsn string)
}

// as connects as a user.
func (d *database) as(t *testing.T, user string) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.open(user))
	must.OK(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

var databases = map[string]*database{}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(cmp.Or(code, map[bool]int{true: 1}[err != nil]))
}

// run runs the tests beside two servers, which start at the same time.
func run(m *testing.M) (code int, err error) {
	type started struct {
		dialect string
		server  *testenv.SQLServer
		err     error
	}
	starts := make(chan started)
	go func() {
		s, err := testenv.StartPostgres(false)
		starts <- started{"postgres", s, err}
	}()
	go func() {
		s, err := testenv.StartMariaDB(false)
		starts <- started{"mysql", s, err}
	}()
	for range 2 {
		s := <-starts
		if err = errors.Join(err, s.err); s.err != nil {
			continue
		}
		defer func() { err = errors.Join(err, s.server.Close()) }()
		d := &database{dialect: s.dialect, addr: s.server.Addr(), open: opener(s.dialect, s.server.Addr())}
		err = errors.Join(err, d.prepare())
		databases[s.dialect] = d
		defer func() { err = errors.Join(err, d.owner.Close()) }()
	}
	if err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func opener(dialect, addr string) func(user string) (driver, dsn string) {
	if dialect == "mysql" {
		return func(user string) (string, string) {
			return "mysql", cmp.Or(user, "root") + "@tcp(" + addr + ")/shop?multiStatements=true"
		}
	}
	return func(user string) (string, string) {
		return "pgx", "postgres://" + cmp.Or(user, "postgres") + "@" + addr + "/postgres?sslmode=disable"
	}
}

// prepare makes roles and tables. The inbox refuses one order, after that has been written.
func (d *database) prepare() (err error) {
	if d.owner, err = sql.Open(d.open("")); err != nil {
		return err
	}
	account := map[string]string{"postgres": `ROLE %s LOGIN`, "mysql": `USER %s`}[d.dialect]
	ddl, err := inbox.DDL{Dialect: d.dialect, Application: "app", Reader: "duehook", Notify: d.dialect == "postgres"}.Statements()
	if err != nil {
		return err
	}
	_, err = d.owner.Exec("CREATE " + fmt.Sprintf(account, "app") + "; CREATE " + fmt.Sprintf(account, "duehook") + ";" + ddl + `
CREATE TABLE orders (id bigint PRIMARY KEY, total bigint);
GRANT SELECT, INSERT ON orders TO app;
ALTER TABLE duehook_inbox ADD CHECK (request NOT LIKE '%order-13"%');`)
	return err
}

// taken returns the requests of the inbox and the orders, and deletes both.
func (d *database) taken(t *testing.T) (requests []string, orders string) {
	t.Helper()
	rows, err := d.owner.Query("SELECT request FROM duehook_inbox ORDER BY id")
	must.OK(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var request string
		must.OK(t, rows.Scan(&request))
		requests = append(requests, request)
	}
	must.OK(t, rows.Err())
	aggregate := map[string]string{"postgres": `string_agg(id::text, ' ' ORDER BY id)`, "mysql": `group_concat(id ORDER BY id SEPARATOR ' ')`}[d.dialect]
	var found sql.NullString
	must.OK(t, d.owner.QueryRow("SELECT "+aggregate+" FROM orders").Scan(&found))
	for _, table := range []string{"orders", "duehook_inbox"} {
		_, err := d.owner.Exec("DELETE FROM " + table)
		must.OK(t, err)
	}
	return requests, found.String
}

// TestRights: the application may insert jobs and nothing else; duehook may do what it needs and insert nothing.
func TestRights(t *testing.T) {
	for name, d := range databases {
		t.Run(name, func(t *testing.T) {
			key := map[string]string{"postgres": "key", "mysql": "`key`"}[name]
			_, err := d.owner.Exec("INSERT INTO duehook_inbox (request) VALUES ('{}')")
			must.OK(t, err)
			for _, c := range []struct {
				user, statement string
				allowed         bool
			}{
				{"app", "INSERT INTO duehook_inbox (request) VALUES ('{}')", true},
				{"app", "INSERT INTO duehook_inbox (request, " + key + ") VALUES ('{}', '0191d5b8-7c36-7c8e-9a1c-2f5a0e2f3b4d')", true},
				{"app", "INSERT INTO duehook_inbox (request, created_at) VALUES ('{}', '2026-01-31 12:00:00')", false},
				{"app", "INSERT INTO duehook_inbox (request, error) VALUES ('{}', '')", false},
				{"app", "SELECT id FROM duehook_inbox", false},
				{"app", "UPDATE duehook_inbox SET request = '{}'", false},
				{"app", "DELETE FROM duehook_inbox", false},
				{"duehook", "SELECT * FROM duehook_inbox", true},
				{"duehook", "UPDATE duehook_inbox SET error = 'e', failed_at = CURRENT_TIMESTAMP, waits_for = NULL WHERE id > 0", true},
				{"duehook", "UPDATE duehook_inbox SET request = '{}'", false},
				{"duehook", "INSERT INTO duehook_inbox (request) VALUES ('{}')", false},
				{"duehook", "SELECT id FROM orders", false},
				{"duehook", "DELETE FROM duehook_inbox WHERE id > 0", true},
			} {
				if _, err := d.as(t, c.user).Exec(c.statement); (err == nil) != c.allowed {
					t.Errorf("%s: %s: %v, want it allowed: %v", c.user, c.statement, err, c.allowed)
				}
			}
			for user, want := range map[string]string{
				"duehook": "", "app": "UPDATE (error, failed_at, waits_for) ON duehook_inbox TO " + map[string]string{"postgres": `"app"`, "mysql": `'app'@'%'`}[name],
			} {
				missing, err := inbox.Examine(t.Context(), map[string]string{"postgres": "postgres://" + user + "@" + d.addr + "/postgres", "mysql": "mysql://" + user + "@" + d.addr + "/shop"}[name])
				must.OK(t, err)
				if (missing == nil) != (want == "") || missing != nil && !strings.HasSuffix(missing.Error(), want) {
					t.Errorf("%s lacks %v, want %q in it", user, missing, want)
				}
			}
			d.taken(t)
		})
	}
}

// TestTriggerNotifies: with --notify, a commit wakes who listens.
func TestTriggerNotifies(t *testing.T) {
	d := databases["postgres"]
	_, dsn := d.open("duehook")
	conn, err := pgx.Connect(t.Context(), dsn)
	must.OK(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	_, err = conn.Exec(t.Context(), "LISTEN duehook_inbox")
	must.OK(t, err)
	_, err = d.as(t, "app").Exec("INSERT INTO duehook_inbox (request) VALUES ('{}')")
	must.OK(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	_, err = conn.WaitForNotification(ctx)
	must.OK(t, err)
	d.taken(t)
}

// program is an example with a driver, which places orders and prints those that succeeded.
type program struct {
	file, dialect string
	probe         []string // succeeds where the example can run
	run           []string
}

const python, jars = "/usr/bin/python3", "/usr/share/java/"

// compiled compiles the example if its driver is there, which it needs to run only.
func compiled(driver string) []string {
	return []string{"sh", "-c", "test -r " + jars + driver + " && javac -d {classes} ../Orders.java Driver.java"}
}

var programs = []program{
	{"orders.py", "postgres", []string{python, "-c", "import psycopg2"}, []string{python, "driver.py"}},
	{"orders.py", "mysql", []string{python, "-c", "import pymysql"}, []string{python, "driver.py"}},
	{"orders_django.py", "postgres", []string{python, "-c", "import django, psycopg2"}, []string{python, "django_driver.py"}},
	{"orders.mjs", "postgres", []string{"node", "-e", "require.resolve('pg', { paths: ['../../../../web'] })"}, []string{"node", "driver.cjs"}},
	{"orders.php", "postgres", []string{"php", "-r", "exit(extension_loaded('pdo_pgsql') ? 0 : 1);"}, []string{"php", "driver.php"}},
	{"orders.php", "mysql", []string{"php", "-r", "exit(extension_loaded('pdo_mysql') ? 0 : 1);"}, []string{"php", "driver.php"}},
	{"Orders.java", "postgres", compiled("postgresql.jar"), []string{"java", "-cp", "{classes}:" + jars + "postgresql.jar", "Driver"}},
	{"Orders.java", "mysql", compiled("mariadb-java-client.jar"), []string{"java", "-cp", "{classes}:" + jars + "mariadb-java-client.jar", "Driver"}},
	{"orders_rails.rb", "postgres", []string{"ruby", "-e", "require 'active_record'; require 'pg'"}, []string{"ruby", "driver.rb"}},
}

// TestExamples places three orders, of which the second one fails when its job is written. Of the others the order and its
// job are there, and a node registers the job.
func TestExamples(t *testing.T) {
	check := func(t *testing.T, d *database, placed string) {
		t.Helper()
		requests, orders := d.taken(t)
		if placed != "1 2" || orders != "1 2" || len(requests) != 2 {
			t.Fatalf("the example placed %q; the table of orders has %q, the inbox %q; want orders 1 and 2", placed, orders, requests)
		}
		s := duehooktest.Start(t)
		for i, request := range requests {
			answer, err := http.Post(s.URL+"/v1/jobs", "application/json", strings.NewReader(request))
			must.OK(t, err)
			must.OK(t, answer.Body.Close())
			j, err := s.Client.Job(t.Context(), "order-timeout", fmt.Sprint("order-", i+1))
			if err != nil || j.DueAt.Sub(s.Now()) != 30*time.Minute {
				t.Errorf("%s: %s; the job is due at %v (%v), want in 30 minutes", request, answer.Status, j.DueAt, err)
			}
		}
	}
	for name, place := range map[string]func(ctx context.Context, db *sql.DB, order int64) error{
		"orders.go": func(ctx context.Context, db *sql.DB, order int64) error {
			return example.PlaceOrder(ctx, db, order, 100)
		},
		"orders_pgx.go": func(ctx context.Context, db *sql.DB, order int64) error {
			conn, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			return conn.Raw(func(c any) error { return example.PlaceOrderPgx(ctx, c.(*stdlib.Conn).Conn(), order, 100) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := databases["postgres"]
			var placed []string
			for _, order := range []int64{1, 13, 2} {
				if err := place(t.Context(), d.as(t, "app"), order); err == nil {
					placed = append(placed, fmt.Sprint(order))
				}
			}
			check(t, d, strings.Join(placed, " "))
		})
	}
	for _, p := range programs {
		t.Run(p.file+"/"+p.dialect, func(t *testing.T) {
			classes, d := t.TempDir(), databases[p.dialect]
			host, port, err := net.SplitHostPort(d.addr)
			must.OK(t, err)
			command := func(args []string) *exec.Cmd {
				args = slices.Clone(args)
				for i := range args {
					args[i] = strings.ReplaceAll(args[i], "{classes}", classes)
				}
				cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
				cmd.Dir = "testdata"
				cmd.Env = append(os.Environ(), "DB_DIALECT="+p.dialect, "DB_HOST="+host, "DB_PORT="+port, "DB_USER=app", "PYTHONDONTWRITEBYTECODE=1")
				return cmd
			}
			if out, err := command(p.probe).CombinedOutput(); err != nil {
				t.Logf("%s is not played here: %v %s", p.file, err, out)
				return
			}
			_, out, diagnosis := testenv.Result(t, command(append(slices.Clone(p.run), "1", "13", "2")))
			t.Log(diagnosis)
			check(t, d, strings.Join(strings.Fields(out), " "))
		})
	}
}

// TestPageShowsTheFiles: docs/inbox.md has each example as it is here, without what every Go file has.
func TestPageShowsTheFiles(t *testing.T) {
	page, err := os.ReadFile("../../inbox.md")
	must.OK(t, err)
	files, err := filepath.Glob("[oO]rders*")
	must.OK(t, err)
	for _, name := range files {
		file, err := os.ReadFile(name)
		must.OK(t, err)
		text := regexp.MustCompile(`(?s)^package inbox\n\nimport \(.*?\n\)\n\n`).ReplaceAllString(string(file), "")
		if !strings.Contains(string(page), "\n"+text+"```\n") {
			t.Errorf("docs/inbox.md does not show %s as it is", name)
		}
	}
	if len(files) < 8 {
		t.Errorf("only %v found", files)
	}
}
