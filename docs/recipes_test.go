package docs

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/duehooktest"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// recipe plays the commands of a page on a server whose clock stands still. What the page sends to shop.example goes
// to a sink.
type recipe struct {
	t      *testing.T
	s      *duehooktest.Server
	shop   *duehooktest.Sink
	run    *running
	page   string
	blocks []string
}

func newRecipe(t *testing.T, page string) *recipe {
	t.Helper()
	s := duehooktest.Start(t)
	r := &recipe{t: t, s: s, shop: s.Sink("shop"), run: &running{t: t, base: s.URL, token: "none"}, page: page}
	for _, block := range shell.FindAllStringSubmatch(read(t, page), -1) {
		r.blocks = append(r.blocks, strings.ReplaceAll(block[1], "https://shop.example", "http://shop.sink"))
	}
	return r
}

// play makes the calls of a block of commands. A change is an old text and a new one.
func (r *recipe) play(block int, changes ...string) {
	r.t.Helper()
	script := r.blocks[block]
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(script, changes[i]) {
			r.t.Fatalf("%s: block %d has no %q", r.page, block, changes[i])
		}
		script = strings.ReplaceAll(script, changes[i], changes[i+1])
	}
	r.run.play(r.page, script)
}

// got compares the bodies that the shop has got since the test began.
func (r *recipe) got(want ...string) {
	r.t.Helper()
	var bodies []string
	for _, request := range r.shop.Requests() {
		bodies = append(bodies, string(request.Body))
	}
	if !slices.Equal(bodies, want) {
		r.t.Errorf("%s: at %v the shop got %q, want %q", r.page, r.s.Now(), bodies, want)
	}
}

func TestRecipeDebounce(t *testing.T) {
	r := newRecipe(t, "docs/howto/debounce.md")
	for range 3 {
		r.play(0)
		r.s.Advance(29 * time.Second)
	}
	r.got()
	r.s.Advance(time.Second)
	r.got("")
}

func TestRecipeThrottle(t *testing.T) {
	r := newRecipe(t, "docs/howto/throttle.md")
	const body = `{"user": 42}`
	r.play(0)
	r.s.Advance(4 * time.Minute)
	r.play(0) // within the period
	r.s.Advance(time.Minute)
	r.got(body)
	r.play(0)
	r.s.Advance(5 * time.Minute)
	r.got(body, body)
}

func TestRecipeDeadMansSwitch(t *testing.T) {
	r := newRecipe(t, "docs/howto/dead-mans-switch.md")
	const body = `{"silent": "backup-db1"}`
	for range 3 {
		r.play(0)
		r.s.Advance(24 * time.Hour)
	}
	r.got()
	r.s.Advance(2 * time.Hour)
	r.got(body)
	r.play(0) // a sign of life arms the switch again
	r.s.Advance(26 * time.Hour)
	r.got(body, body)
}

func TestRecipeReminders(t *testing.T) {
	r := newRecipe(t, "docs/howto/reminders.md")
	day := `{"appointment": 77, "in": "1 day"}`
	hour := `{"appointment": 77, "in": "1 hour"}`
	at := func(d time.Duration) string { return r.s.Now().Add(d).Format(time.RFC3339) }
	place := func(appointment time.Duration) {
		r.play(0, "2027-01-30T15:00:00+01:00", at(appointment-24*time.Hour), "2027-01-31T14:00:00+01:00", at(appointment-time.Hour))
	}
	place(72 * time.Hour)
	r.s.Advance(50 * time.Hour)
	r.got(day)
	place(72 * time.Hour) // moved, after the first reminder was sent
	r.s.Advance(72 * time.Hour)
	r.got(day, day, hour)

	place(72 * time.Hour)
	r.play(1) // called off
	testenv.Eventually(t, 30*time.Second, func() bool {
		r.s.Advance(time.Second) // operations work by the clock
		for _, id := range []string{"appointment-77.day", "appointment-77.hour"} {
			if j, err := r.s.Client.Job(t.Context(), "reminders", id); err != nil || j.State != client.StateCancelled {
				return false
			}
		}
		return true
	}, "both reminders are cancelled")
	r.s.Advance(72 * time.Hour)
	r.got(day, day, hour)
}

func TestRecipeFanIn(t *testing.T) {
	r := newRecipe(t, "docs/howto/fan-in.md")
	r.play(0)
	parts := strings.Split(strings.TrimSpace(r.blocks[1]), "\n")
	if len(parts) != 3 {
		t.Fatalf("%d parts count", len(parts))
	}
	for _, part := range []string{parts[0], parts[0], parts[1]} {
		r.run.play(r.page, part)
	}
	r.s.Advance(time.Minute)
	r.got()
	r.run.play(r.page, parts[2])
	r.s.Advance(0)
	r.got(`{"export": 17}`)

	// A part never finishes.
	late := newRecipe(t, "docs/howto/fan-in.md")
	late.play(0)
	late.run.play(late.page, parts[0]+"\n"+parts[1])
	late.s.Advance(6 * time.Hour)
	if got := late.shop.Requests(); len(got) != 1 || got[0].Headers["duehook-count"] != "2" {
		t.Errorf("at the deadline the shop got %v", got)
	}
}

func TestRecipeDigest(t *testing.T) {
	r := newRecipe(t, "docs/howto/digest.md")
	r.play(0, "2026-01-31T18:00:00+01:00", r.s.Now().Add(8*time.Hour).Format(time.RFC3339))
	r.s.Advance(8 * time.Hour)
	r.got(`{"user": 42}`)
}

// statements are the blocks of SQL of a page.
func statements(t *testing.T, page string) []string {
	t.Helper()
	var all []string
	for _, m := range regexp.MustCompile("(?ms)^ *```sql\n(.*?)^ *```$").FindAllStringSubmatch(read(t, page), -1) {
		all = append(all, m[1])
	}
	return all
}

// TestDeduplicationOnPostgres plays the statements for PostgreSQL, with deliveries at the same time.
func TestDeduplicationOnPostgres(t *testing.T) {
	server := testenv.Postgres(t, false)
	connect := func() *pgx.Conn {
		c, err := pgx.Connect(t.Context(), server.URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	run := func(c *pgx.Conn, statement string) int64 {
		t.Helper()
		tag, err := c.Exec(t.Context(), statement)
		if err != nil {
			t.Fatalf("%v in\n%s", err, statement)
		}
		return tag.RowsAffected()
	}
	blocks := statements(t, "docs/howto/deduplicate.md")
	if len(blocks) != 9 {
		t.Fatalf("%d blocks of SQL: the test knows 9", len(blocks))
	}
	table, delivery, purge, work, claim, done := blocks[0], blocks[1], blocks[2], blocks[6], blocks[7], blocks[8]
	a, b := connect(), connect()
	run(a, table+"CREATE TABLE orders (id int PRIMARY KEY, state text NOT NULL); INSERT INTO orders VALUES (8812, 'unpaid');")
	parts := strings.SplitAfter(delivery, ";\n")
	begin, insert, update, commit := parts[0], parts[1], parts[2], parts[3]

	for _, end := range []struct {
		how      string
		inserted int64 // by the second delivery
	}{{"ROLLBACK", 1}, {commit, 0}} {
		run(a, begin)
		if n := run(a, insert); n != 1 {
			t.Errorf("the first delivery inserted %d rows", n)
		}
		run(a, update)
		run(b, begin)
		second := make(chan int64)
		go func() {
			tag, err := b.Exec(context.Background(), insert)
			if err != nil {
				t.Error(err)
			}
			second <- tag.RowsAffected()
		}()
		waits := connect()
		testenv.Eventually(t, 30*time.Second, func() bool {
			var blocked int
			err := waits.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&blocked)
			return err == nil && blocked > 0
		}, "the second delivery waits for the first")
		run(a, end.how)
		if n := <-second; n != end.inserted {
			t.Errorf("after %s, the second delivery inserted %d rows, want %d", end.how, n, end.inserted)
		}
		run(b, "ROLLBACK")
	}
	var state string
	if err := a.QueryRow(t.Context(), "SELECT state FROM orders").Scan(&state); err != nil || state != "closed" {
		t.Errorf("the order is %s: %v", state, err)
	}
	if n := run(a, purge); n != 0 {
		t.Errorf("%d fresh rows were deleted", n)
	}
	run(a, "UPDATE handled SET at = at - interval '31 days'")
	if n := run(a, purge); n != 1 {
		t.Errorf("%d old rows were deleted", n)
	}

	run(a, work)
	for i, want := range []int64{1, 0} {
		if n := run(a, claim); n != want {
			t.Errorf("claim %d got %d rows, want %d", i+1, n, want)
		}
	}
	run(a, "UPDATE work SET at = at - interval '6 minutes'")
	if n := run(a, claim); n != 1 {
		t.Errorf("the claim of a dead process stands")
	}
	run(a, done)
	run(a, "UPDATE work SET at = at - interval '6 minutes'")
	if n := run(a, claim); n != 0 {
		t.Errorf("work that is done was claimed")
	}
}

// TestDeduplicationOnMariaDB plays the statements for MySQL on MariaDB, with deliveries at the same time.
func TestDeduplicationOnMariaDB(t *testing.T) {
	server, err := testenv.StartMariaDB(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	db, err := sql.Open("mysql", "root@tcp("+server.Addr()+")/shop?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	connect := func() *sql.Conn {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	run := func(c *sql.Conn, statement string) int64 {
		t.Helper()
		result, err := c.ExecContext(t.Context(), statement)
		if err != nil {
			t.Fatalf("%v in\n%s", err, statement)
		}
		n, err := result.RowsAffected()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	blocks := statements(t, "docs/howto/deduplicate.md")
	table, delivery, purge := blocks[3], blocks[4], blocks[5]
	parts := strings.SplitAfter(delivery, ";\n")
	begin, insert, update, commit := parts[0], parts[1], parts[2], parts[3]
	const rollback, duplicate, lockWait = "ROLLBACK", 1062, 1205
	failed := func(err error) int {
		var answer *mysql.MySQLError
		if !errors.As(err, &answer) {
			return 0
		}
		return int(answer.Number)
	}
	a, b, watch := connect(), connect(), connect()
	run(a, table+"CREATE TABLE orders (id int PRIMARY KEY, state text NOT NULL); INSERT INTO orders VALUES (8812, 'unpaid');")

	for _, end := range []struct {
		how  string
		code int // of the error of the second delivery
	}{{rollback, 0}, {commit, duplicate}} {
		run(a, begin)
		run(a, insert)
		if n := run(a, update); n != 1 {
			t.Errorf("the first delivery closed %d orders", n)
		}
		run(b, begin)
		second := make(chan error)
		go func() {
			_, err := b.ExecContext(context.Background(), insert)
			second <- err
		}()
		testenv.Eventually(t, 30*time.Second, func() bool {
			var waiting int
			err := watch.QueryRowContext(t.Context(), "SELECT count(*) FROM information_schema.innodb_lock_waits").Scan(&waiting)
			return err == nil && waiting > 0
		}, "the second delivery waits for the first")
		run(a, end.how)
		if err := <-second; failed(err) != end.code || (err == nil) != (end.code == 0) {
			t.Errorf("after %s, the second delivery got %v, want error %d", end.how, err, end.code)
		}
		run(b, rollback)
	}
	var state string
	if err := a.QueryRowContext(t.Context(), "SELECT state FROM orders").Scan(&state); err != nil || state != "closed" {
		t.Errorf("the order is %s: %v", state, err)
	}

	// A delivery that waits for too long ends with the error that the page names.
	other := strings.Replace(insert, "0001'", "0002'", 1)
	run(a, begin)
	run(a, other)
	run(b, "SET innodb_lock_wait_timeout = 1")
	run(b, begin)
	if _, err := b.ExecContext(t.Context(), other); failed(err) != lockWait {
		t.Errorf("a delivery that waits for too long got %v, want error %d", err, lockWait)
	}
	run(b, rollback)
	run(a, rollback)

	// Another case is another id.
	if n := run(a, strings.Replace(insert, "01KDW", "01kdw", 1)); n != 1 {
		t.Errorf("an id in lower case inserted %d rows", n)
	}
	if n := run(a, purge); n != 0 {
		t.Errorf("%d fresh rows were deleted", n)
	}
	run(a, "UPDATE handled SET at = at - INTERVAL 31 DAY")
	if n := run(a, purge); n != 2 {
		t.Errorf("%d old rows were deleted, want 2", n)
	}
}

// TestBullMQ plays the script of the page with a queue that has what the script asks for.
func TestBullMQ(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Log("node is not here: the script is not played")
		return
	}
	s := duehooktest.Start(t)
	block := regexp.MustCompile("(?ms)^ *```js\n(.*?)^ *```$").FindStringSubmatch(read(t, "docs/migrate/bullmq.md"))
	if block == nil {
		t.Fatal("the page has no script")
	}
	due := s.Now().Add(time.Hour)
	script := fmt.Sprintf(`const removed = [];
const job = (id, attemptsMade) => ({ id, attemptsMade, timestamp: %d, delay: 3600000, data: { order: id }, remove: async () => removed.push(id) });
const queue = { name: "orders", getDelayed: async () => [job("1", 0), job("2", 0), job("3", 2)] };
%s
console.log(removed.join());
`, s.Now().UnixMilli(), strings.ReplaceAll(block[1], "http://127.0.0.1:7788", s.URL))
	file := filepath.Join(t.TempDir(), "move.mjs")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, file)
	cmd.Env = append(os.Environ(), "RECEIVER="+s.Sink("shop").URL("/close"))
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Equal(out, []byte("1,2\n")) {
		t.Errorf("%v\n%s", err, out)
	}
	if n := s.AdvanceTo(due); n != 2 {
		t.Errorf("%d jobs were due at their time, want 2", n)
	}
}

// TestTutorialShowsItsFiles: each block of code of the tutorial is a part of a program that a test runs.
func TestTutorialShowsItsFiles(t *testing.T) {
	var programs strings.Builder
	for _, name := range []string{"shop.go", "shop_test.go", "shop.mjs", "shop.test.mjs", "shop.py", "test_shop.py"} {
		programs.WriteString(read(t, "docs/examples/tutorial/"+name) + "\n")
	}
	for _, page := range []string{"docs/tutorial.md", "docs/zh/tutorial.md"} {
		blocks := regexp.MustCompile("(?ms)^```(?:go|js|python)\n(.*?)^```$").FindAllStringSubmatch(read(t, page), -1)
		if len(blocks) != 9 {
			t.Errorf("%s has %d blocks of code, want 9", page, len(blocks))
		}
		for _, block := range blocks {
			if !strings.Contains(programs.String(), block[1]) {
				t.Errorf("%s shows what no program has:\n%s", page, block[1])
			}
		}
	}
}
