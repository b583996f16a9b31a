package e2e

import (
	"cmp"
	"database/sql"
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver
	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// shop is a service whose database has orders and an inbox.
type shop struct {
	t        *testing.T
	name     string // of the inbox, and of the topic of its jobs
	server   *testenv.SQLServer
	inboxURL string // as duehook
	owner    *sql.DB
	app      *sql.DB
	order    string // the statements of a new order
	row      string
}

// newShop applies what `duehook inbox sql` prints.
func newShop(t *testing.T, dialect string) *shop {
	t.Helper()
	s := &shop{t: t, name: dialect}
	var start func(durable bool, args ...string) (*testenv.SQLServer, error)
	var driver, role string
	var dsn func(user string) string
	switch dialect {
	case "postgres":
		start, driver, role = testenv.StartPostgres, "pgx", "ROLE %s LOGIN"
		dsn = func(user string) string {
			return fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", cmp.Or(user, "postgres"), s.server.Addr())
		}
		s.order, s.row = "INSERT INTO orders VALUES ($1)", "INSERT INTO duehook_inbox (request) VALUES ($1)"
	case "mysql":
		start, driver, role = testenv.StartMariaDB, "mysql", "USER %s"
		dsn = func(user string) string {
			return fmt.Sprintf("%s@tcp(%s)/shop?multiStatements=true", cmp.Or(user, "root"), s.server.Addr())
		}
		s.order, s.row = "INSERT INTO orders VALUES (?)", "INSERT INTO duehook_inbox (request) VALUES (?)"
	}
	var err error
	if s.server, err = start(true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.server.Close(); err != nil {
			t.Error(err)
		}
	})
	s.inboxURL = map[string]string{"postgres": dsn("duehook"), "mysql": "mysql://duehook@" + s.server.Addr() + "/shop"}[dialect]
	s.owner, s.app = s.open(driver, dsn("")), s.open(driver, dsn("app"))
	binary, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	code, statements, diagnosis := testenv.Result(t, exec.CommandContext(t.Context(), binary, "inbox", "sql", "--dialect", dialect, "--application", "app", "--reader", "duehook"))
	if code != 0 {
		t.Fatalf("duehook inbox sql: %d %s", code, diagnosis)
	}
	statements = fmt.Sprintf("CREATE "+role+"; CREATE "+role+";", "app", "duehook") + statements +
		"CREATE TABLE orders (id bigint PRIMARY KEY); GRANT INSERT ON orders TO app;"
	if _, err := s.owner.Exec(statements); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *shop) open(driver, dsn string) *sql.DB {
	s.t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = db.Close() })
	return db
}

// place begins a transaction with an order and its timeout.
func (s *shop) place(order int, url string) (*sql.Tx, error) {
	row, err := client.InboxRow(client.Registration{Topic: s.name, ID: fmt.Sprint("order-", order), URL: url, Body: order})
	if err != nil {
		return nil, err
	}
	tx, err := s.app.Begin()
	if err != nil {
		return nil, err
	}
	for statement, value := range map[string]any{s.order: order, s.row: row} {
		if _, err := tx.Exec(statement, value); err != nil {
			return nil, err
		}
	}
	return tx, nil
}

// count counts the rows of a table.
func (s *shop) count(table string) (n int) {
	s.t.Helper()
	if err := s.owner.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// TestInbox: services write orders and their timeouts in one transaction each, while a node is killed and starts again. The timeout
// of each order that was committed arrives, and that of no other.
func TestInbox(t *testing.T) {
	t.Parallel()
	const orders = 200
	r := receiver.Start(t, receiver.Accept)
	shops := []*shop{newShop(t, "postgres"), newShop(t, "mysql")}
	n := startEmbedded(t, shipped, "--inbox-url", shops[0].name+"="+shops[0].inboxURL+","+shops[1].name+"="+shops[1].inboxURL)
	for _, s := range shops {
		s.trade(n, r.URL(), orders)
	}
	for _, s := range shops {
		testenv.Eventually(t, deliverLimit, func() bool { return s.count("duehook_inbox") == 0 }, s.name+": each row is registered")
		want := s.count("orders")
		if want != orders/2 {
			t.Errorf("%s: %d orders were committed, want %d", s.name, want, orders/2)
		}
		if states := awaitDelivered(t, n.base(), s.name, want); states["delivered"] != want {
			t.Errorf("%s: the states of %d jobs: %v", s.name, want, states)
		}
	}
	uids := map[string]string{}
	for _, d := range r.Deliveries() {
		if before, again := uids[d.Topic+d.ID]; again && before != d.UID {
			t.Errorf("%s of %s was registered twice", d.ID, d.Topic)
		}
		uids[d.Topic+d.ID] = d.UID
	}
	if len(uids) != orders {
		t.Errorf("%d different timeouts arrived, want %d", len(uids), orders)
	}
}

// trade places orders, by several customers at a time. Each second one is rolled back. The first one commits last. Meanwhile the node
// is killed and starts again.
func (s *shop) trade(n *node, url string, orders int) {
	s.t.Helper()
	first, err := s.place(0, url)
	if err != nil {
		s.t.Fatal(err)
	}
	var customers sync.WaitGroup
	for c := range 4 {
		customers.Go(func() {
			for order := c + 1; order < orders; order += 4 {
				tx, err := s.place(order, url)
				if err == nil && order%2 == 0 {
					err = tx.Commit()
				} else if err == nil {
					err = tx.Rollback()
				}
				if err != nil {
					s.t.Error(err)
				}
			}
		})
	}
	testenv.Eventually(s.t, testenv.Patience, func() bool { return len(listJobs(s.t, n.base()+"/v1/jobs?topic="+s.name)) > 0 }, "the node reads the inbox")
	n.Kill()
	customers.Wait()
	n.start()
	testenv.Eventually(s.t, deliverLimit, func() bool { return s.count("duehook_inbox") == 0 }, s.name+": each row is registered")
	if err := first.Commit(); err != nil {
		s.t.Fatal(err)
	}
}

const (
	soakRows   = 100_000
	soakAtOnce = 20 // rows of a transaction
)

// TestSoakInbox: services write 100,000 rows, of which one in 100 can be no job, while two nodes, the store and the database are
// killed in turn. Each committed order has its timeout, and no other order has one. TestFaults of the inbox counts registrations.
func TestSoakInbox(t *testing.T) {
	for _, dialect := range []string{"postgres", "mysql"} {
		t.Run(dialect, func(t *testing.T) { soakInbox(t, newShop(t, dialect)) })
	}
}

func soakInbox(t *testing.T, s *shop) {
	redis := testenv.StartRedis(t, testenv.WithAOF())
	nodes := startNodes(t, shipped, "a b", redis.URL(), append([]string{"--inbox-url", s.name + "=" + s.inboxURL}, quickTakeover...)...)
	var writers sync.WaitGroup
	began := clock.Now()
	for w := range 8 {
		writers.Go(func() {
			for first := w * soakAtOnce; first < soakRows; first += 8 * soakAtOnce {
				s.placeMany(first+1, soakAtOnce)
			}
		})
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		writers.Wait()
	}()
	rounds := 0
	for done := false; !done || rounds < 2; rounds++ {
		for _, n := range nodes {
			n.Kill()
			pause(t, time.Second)
			n.start()
		}
		if err := s.server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := s.server.Start(); err != nil {
			t.Fatal(err)
		}
		redis.Kill()
		redis.Start()
		select {
		case <-written:
			done = true
		default:
		}
	}
	fresh := func() (n int) {
		if err := s.owner.QueryRow("SELECT count(*) FROM duehook_inbox WHERE failed_at IS NULL").Scan(&n); err != nil {
			return -1
		}
		return n
	}
	testenv.Eventually(t, deliverLimit, func() bool { return fresh() == 0 }, "each row is read")
	t.Logf("%d rows, %d rounds of kills, %v", soakRows, rounds, clock.Now().Sub(began))
	found := map[string]bool{}
	for _, j := range listJobs(t, nodes[0].base()+"/v1/jobs?limit=1000&topic="+s.name) {
		found[j.ID] = true
	}
	rows, err := s.owner.Query("SELECT id FROM orders")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	good, bad := 0, 0
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		if id < 0 {
			bad++
		} else if good++; !found[fmt.Sprint("order-", id)] {
			t.Errorf("the order %d has no timeout", id)
		}
	}
	if failed := s.count("duehook_inbox"); len(found) != good || failed != bad || good == 0 {
		t.Errorf("%d jobs of %d good orders, %d failed rows of %d bad ones", len(found), good, failed, bad)
	}
	t.Logf("%d good orders, %d bad ones", good, bad)
}

// placeMany places orders in one transaction. Each seventh is rolled back. It may fail, and nobody knows whether it was committed.
func (s *shop) placeMany(first, n int) {
	for {
		tx, err := s.app.Begin()
		if err != nil { // the server is away
			if job.Sleep(s.t.Context(), clock, 20*time.Millisecond) != nil {
				return
			}
			continue
		}
		for order := first; order < first+n && err == nil; order++ {
			id, row := order, fmt.Sprintf(`{"topic":"%s","id":"order-%d","url":"https://shop.example/","delay":"24h"}`, s.name, order)
			if order%100 == 0 {
				id, row = -order, "{"
			}
			if _, err = tx.Exec(s.order, id); err == nil {
				_, err = tx.Exec(s.row, row)
			}
		}
		if err != nil || first/n%7 == 0 {
			_ = tx.Rollback()
		} else {
			_ = tx.Commit() // in doubt if it fails: the table of orders says
		}
		return
	}
}
