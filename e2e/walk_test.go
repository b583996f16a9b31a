package e2e

import (
	"database/sql"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/e2e/rig"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// duehook runs a command of the program on its machine, and returns what it printed.
func duehook(t *testing.T, n *node, args ...string) (stdout, stderr string) {
	t.Helper()
	path, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = n.Env
	code, stdout, stderr := testenv.Result(t, cmd)
	if code != 0 {
		t.Fatalf("duehook %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout, stderr
}

// TestWalk: everything of a store goes on in another one, at its time.
func TestWalk(t *testing.T) {
	t.Parallel()
	postgres := testenv.Postgres(t, true)
	redis := testenv.StartRedis(t)
	t.Run("disk to PostgreSQL", func(t *testing.T) {
		t.Parallel()
		walks(t, nil, []string{"--postgres-url", postgres.URL("postgres")})
	})
	t.Run("Redis to disk", func(t *testing.T) {
		t.Parallel()
		walks(t, []string{"--redis-url", redis.URL(), "--shards", "3"}, nil)
	})
}

func walks(t *testing.T, from, to []string) {
	// The directory has the master key and the signing secret, so it walks along.
	from, to = append(from, "--data-dir", t.TempDir()), append(to, "--data-dir", t.TempDir())
	r := receiver.Start(t, func(d receiver.Delivery) receiver.Answer {
		if d.ID == "dead" || d.ID == "retrying" && d.Attempt == 1 {
			return receiver.Answer{Status: http.StatusInternalServerError}
		}
		return receiver.Answer{}
	})
	a := newNode(t, shipped, "a", from...)
	a.start()
	must(t, http.StatusCreated, "PUT", a.base()+"/v1/topics/orders", map[string]any{"weight": 20})
	must(t, http.StatusCreated, "PUT", a.base()+"/v1/groups/g", map[string]any{"members": []any{map[string]any{"name": "m", "url": r.URL()}}})
	must(t, http.StatusCreated, "PUT", a.base()+"/v1/schedules/nightly", map[string]any{
		"cron": "0 3 * * *", "job": map[string]any{"topic": "nightly", "url": r.URL()},
	})
	must(t, http.StatusOK, "POST", a.base()+"/v1/topics/held/pause", map[string]any{"note": "until it is looked at"})
	retry := map[string]any{"steps": []string{"8s"}}
	add := func(topic, id, delay string, retry map[string]any) jobView {
		return register(t, a.base(), registration{Topic: topic, ID: id, URL: r.URL(), Delay: delay, Body: id, Retry: retry})
	}
	jobs := map[string]jobView{}
	for _, id := range []string{"retrying", "dead"} {
		limits := retry
		if id == "dead" {
			limits = map[string]any{"limit": 0}
		}
		jobs[id] = add("orders", id, "0s", limits)
	}
	jobs["held"] = add("held", "held", "0s", nil)
	jobs["later"] = add("orders", "later", "8s", nil)
	var ordered []string
	for _, id := range []string{"first", "second", "third"} {
		must(t, http.StatusCreated, "POST", a.base()+"/v1/jobs", map[string]any{
			"topic": "orders", "id": id, "url": r.URL(), "delay": "8s", "order_key": "k", "body": id,
		}).into(t, new(jobView))
		ordered = append(ordered, id)
	}
	testenv.Eventually(t, testenv.Patience, func() bool {
		return getJob(t, a.base(), "orders", "retrying").State == "retrying" && getJob(t, a.base(), "orders", "dead").State == "dead"
	}, "one fails, and one is dead")
	before := map[string]jobView{}
	for id, j := range jobs {
		before[id] = getJob(t, a.base(), j.Topic, id)
	}
	secret := signingID(t, a.base())
	if code := a.stop(); code != 0 {
		t.Fatalf("exit code %d", code)
	}

	file := filepath.Join(t.TempDir(), "walk.ndjson")
	told, _ := duehook(t, a, slices.Concat([]string{"export", "--all", file}, from)...)
	if want := "exported: 1 dead, 6 unfinished jobs"; !strings.Contains(told, want) {
		t.Errorf("export printed %s, want %s", told, want)
	}
	told, _ = duehook(t, a, slices.Concat([]string{"import", file, "--all"}, to)...)
	if want := "imported: 1 dead, 6 unfinished jobs"; !strings.Contains(told, want) {
		t.Errorf("import printed %s, want %s", told, want)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the export has the mode %v: %v", info.Mode(), err)
	}

	b := newNode(t, shipped, "b", to...)
	b.start()
	for id, was := range before {
		is := getJob(t, b.base(), was.Topic, id)
		if diff := cmp.Diff(was, is); diff != "" && len(r.Of(was.Topic, id)) == was.Attempts {
			t.Errorf("%s (-before +after):\n%s", id, diff)
		}
	}
	if is := signingID(t, b.base()); is != secret {
		t.Errorf("deliveries are signed with %s, before with %s", is, secret)
	}
	for _, path := range []string{"/v1/schedules/nightly", "/v1/groups/g", "/v1/topics/orders"} {
		must(t, http.StatusOK, "GET", b.base()+path, nil)
	}
	testenv.Eventually(t, testenv.Patience, func() bool {
		return len(r.Of("orders", "retrying")) == 2 && len(r.Of("orders", "later")) == 1 && len(r.Of("orders", "third")) == 1
	}, "the jobs arrive")
	for _, id := range []string{"retrying", "later"} {
		sent := r.Of("orders", id)
		last := sent[len(sent)-1]
		if last.UID != before[id].UID || last.Attempt != len(sent) || last.Arrived.Before(before[id].NextAt.Add(-time.Millisecond)) {
			t.Errorf("%s is due at %v; sent:\n%s", before[id].UID, before[id].NextAt, rig.Describe(sent))
		}
	}
	var came []string
	for _, d := range r.Deliveries() {
		if slices.Contains(ordered, d.ID) {
			came = append(came, d.ID)
		}
	}
	if diff := cmp.Diff(ordered, came); diff != "" {
		t.Errorf("in order (-want +got):\n%s", diff)
	}
	if n := len(r.Of("held", "held")); n > 0 {
		t.Errorf("the job of a paused topic was sent %d times", n)
	}
	must(t, http.StatusOK, "POST", b.base()+"/v1/topics/held/resume", nil)
	testenv.Eventually(t, testenv.Patience, func() bool { return len(r.Of("held", "held")) == 1 }, "it is sent after a resume")
	if sent := r.Of("orders", "dead"); len(sent) != 1 {
		t.Errorf("the dead letter was sent %d times", len(sent))
	}
}

// signingID names the secret that signs.
func signingID(t *testing.T, base string) string {
	t.Helper()
	return string(must(t, http.StatusOK, "GET", base+"/v1/signing", nil).body)
}

// inboxOf is an inbox of a database of its own.
type inboxOf struct {
	t   *testing.T
	url string
	db  *sql.DB
}

func newInbox(t *testing.T, on *testenv.SQLServer, database string) *inboxOf {
	t.Helper()
	admin, err := sql.Open("pgx", on.URL("postgres"))
	if err == nil {
		_, err = admin.Exec("CREATE DATABASE " + database)
		_ = admin.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	in := &inboxOf{t: t, url: on.URL(database)}
	if in.db, err = sql.Open("pgx", in.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.db.Close() })
	path, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	code, table, why := testenv.Result(t, exec.Command(path, "inbox", "sql", "--dialect", "postgres", "--application", "postgres", "--reader", "postgres"))
	if code != 0 {
		t.Fatal(why)
	}
	in.exec(table)
	return in
}

func (in *inboxOf) exec(statement string, args ...any) {
	in.t.Helper()
	if _, err := in.db.Exec(statement, args...); err != nil {
		in.t.Fatal(err)
	}
}

// TestStartPaused: no node delivers or reads inboxes until an operator has looked and resumes, and then pauses of topics still hold.
func TestStartPaused(t *testing.T) {
	t.Parallel()
	postgres := testenv.Postgres(t, true)
	redis := testenv.StartRedis(t)
	for name, on := range map[string][]string{
		"disk": {"--data-dir", t.TempDir()}, "Redis": {"--redis-url", redis.URL()}, "PostgreSQL": {"--postgres-url", postgres.URL("postgres")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inbox := newInbox(t, postgres, strings.ToLower(name))
			startsPaused(t, append(on, "--inbox-url", "shop="+inbox.url), inbox, name == "disk")
		})
	}
}

func startsPaused(t *testing.T, on []string, inbox *inboxOf, alone bool) {
	r := receiver.Start(t, receiver.Accept)
	first := newNode(t, shipped, "first", on...)
	first.start()
	must(t, http.StatusOK, "POST", first.base()+"/v1/topics/own/pause", map[string]any{"note": "until it is looked at"})
	for topic, id := range map[string]string{"own": "paused", "orders": "open"} {
		register(t, first.base(), registration{Topic: topic, ID: id, URL: r.URL(), Delay: "1h", Body: id})
	}
	must(t, http.StatusCreated, "POST", first.base()+"/v1/jobs", map[string]any{"topic": "prints", "id": "print", "pull": true, "delay": "1h"})
	first.stop()

	first.Args = append(first.Args, "--start-paused")
	first.start()
	first.Args = first.Args[:len(first.Args)-1]
	nodes := []*node{first}
	if !alone {
		second := newNode(t, shipped, "second", on...)
		second.start()
		nodes = append(nodes, second)
	}
	for _, id := range []string{"own/paused", "orders/open", "prints/print"} {
		must(t, http.StatusOK, "POST", first.base()+"/v1/jobs/"+id+"/run", nil)
	}
	inbox.exec("INSERT INTO duehook_inbox (request) VALUES ($1)", `{"topic":"rows","id":"row","url":"`+r.URL()+`"}`)
	pull := map[string]any{"wait": "1500ms"}
	none := func(n *node) {
		t.Helper()
		var pulled struct {
			Jobs []any `json:"jobs"`
		}
		must(t, http.StatusOK, "POST", n.base()+"/v1/topics/prints/pull", pull).into(t, &pulled)
		if sent := r.Count(); len(pulled.Jobs) > 0 || sent > 0 {
			t.Errorf("a consumer got %d jobs, and a receiver %d", len(pulled.Jobs), sent)
		}
	}
	for _, n := range nodes {
		none(n)
	}
	for _, n := range nodes {
		var why struct {
			Reasons []struct{ Detail string }
		}
		must(t, http.StatusOK, "GET", n.base()+"/v1/jobs/orders/open/explain", nil).into(t, &why)
		if len(why.Reasons) != 1 || !strings.Contains(why.Reasons[0].Detail, "duehook resume") {
			t.Errorf("explain answered %+v", why)
		}
	}
	last := nodes[len(nodes)-1]
	last.stop()
	last.start()
	none(last)
	would := listJobs(t, first.base()+"/v1/jobs?due_to="+clock.Now().UTC().Format("2006-01-02T15:04:05Z"))
	if len(would) != 3 {
		t.Errorf("%d jobs would go now, want 3", len(would))
	}

	if told, _ := duehook(t, first, slices.Concat([]string{"resume"}, on)...); !strings.Contains(told, "deliveries are resumed") {
		t.Errorf("resume printed %s", told)
	}
	testenv.Eventually(t, testenv.Patience, func() bool { return len(r.Of("orders", "open")) == 1 }, "what is due is sent")
	testenv.Eventually(t, testenv.Patience, func() bool { return len(r.Of("rows", "row")) == 1 }, "rows are read")
	if n := len(r.Of("own", "paused")); n > 0 {
		t.Errorf("the job of a topic that was paused before was sent %d times", n)
	}
	if told, _ := duehook(t, first, slices.Concat([]string{"resume"}, on)...); !strings.Contains(told, "were not held") {
		t.Errorf("resume printed %s", told)
	}
}
