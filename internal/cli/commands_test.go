package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/e2e/rig"
	"github.com/duehook/duehook/internal/cli"
	"github.com/duehook/duehook/internal/node"
	"github.com/duehook/duehook/internal/node/config"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// user runs commands against a server, as a person at a shell does.
type user struct {
	t        *testing.T
	environ  []string
	receiver string                 // answers 200 below /ok and 500 below /bad
	last     atomic.Pointer[[]byte] // the last request of the receiver
}

func newUser(t *testing.T) *user {
	t.Helper()
	u := &user{t: t}
	r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if dump, err := httputil.DumpRequest(r, true); err == nil {
			u.last.Store(&dump)
		}
		if strings.HasPrefix(r.URL.Path, "/bad") {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(r.Close)
	u.receiver = r.URL
	c, err := config.Load([]string{"--addr=127.0.0.1:0", "--data-dir", t.TempDir(), "--workers=8", "--allow-cidrs=127.0.0.0/8"}, nil)
	must.OK(t, err)
	base, stop, err := node.Start(t.Context(), node.Options{Config: c, Logger: slog.New(slog.DiscardHandler), Version: node.Version("")})
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, stop()) })
	u.environ = []string{"DUEHOOK_URL=" + base, "XDG_CONFIG_HOME=" + t.TempDir()}
	return u
}

// program is the binary.
var program string

func TestMain(m *testing.M) { os.Exit(withProgram(m.Run)) }

// withProgram builds the binary: commands have exit codes, and signals interrupt them.
func withProgram(run func() int) int {
	dir, err := os.MkdirTemp("", "duehook-cli-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		program, err = rig.Build(dir, "duehook", "-ldflags=-w")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run()
}

// command is the command line "duehook args…" in a directory of its own.
func command(t *testing.T, environ []string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"HOME=" + cmd.Dir, "TMPDIR=" + cmd.Dir}, environ...)
	return cmd
}

// run runs a command, and wants an exit code and parts of what it prints.
func (u *user) run(code int, args string, want ...string) string {
	u.t.Helper()
	return u.runWith(code, "", strings.Fields(args), want...)
}

func (u *user) runWith(code int, stdin string, args []string, want ...string) string {
	u.t.Helper()
	cmd := command(u.t, u.environ, args...)
	cmd.Stdin = strings.NewReader(stdin)
	got, stdout, stderr := testenv.Result(u.t, cmd)
	if got != code {
		u.t.Errorf("duehook %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, stdout, stderr)
	}
	for _, part := range want {
		if !strings.Contains(stdout+stderr, part) {
			u.t.Errorf("duehook %s: %q is missing in\n%s%s", strings.Join(args, " "), part, stdout, stderr)
		}
	}
	return stdout
}

func TestCommandsOnJobs(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.run(cli.ExitOK, "send "+u.receiver+"/ok --id a --topic t --wait --header x-tenant:acme --label shop=7 --label env:a=b --body {\"n\":1}", "t/a  delivered")
	if got := string(*u.last.Load()); !strings.Contains(got, "X-Tenant: acme") || !strings.HasSuffix(got, `{"n":1}`) {
		t.Errorf("the receiver got %s", got)
	}
	u.run(cli.ExitOK, "send "+u.receiver+"/ok --id empty --topic empty --wait --body -", "delivered") // nothing comes from the pipe
	u.run(cli.ExitRefused, "send "+u.receiver+"/bad --id b --topic t --wait --limit 0", "t/b is dead (retry_limit)", "duehook explain t/b")
	u.run(cli.ExitOK, "get t/a", "delivered", "1 of 10", "200 in")
	u.run(cli.ExitOK, "attempts t/b", "http_500")
	u.run(cli.ExitOK, "explain t/b", "t/b  dead")
	u.run(cli.ExitOK, "dead", "retry_limit", u.receiver)
	u.run(cli.ExitOK, "ls state:dead", "t/b")
	u.run(cli.ExitOK, "ls labels:shop:7 labels:env:a=b", "t/a")
	if out := u.run(cli.ExitOK, "ls dialect:qstash"); strings.Contains(out, "t/") {
		t.Errorf("a search for another dialect finds %s", out)
	}
	u.run(cli.ExitRefused, "cancel t/b", "duehook discard t/b")
	u.run(cli.ExitOK, "replay t/b --in 1h", "waiting, due in ")
	u.run(cli.ExitOK, "reschedule t/b --in 2h", "waiting, due in ")
	u.run(cli.ExitRefused, "discard t/b", "not a dead letter")
	u.run(cli.ExitOK, "cancel t/b", "cancelled")
	u.run(cli.ExitOK, "send "+u.receiver+"/ok --id c --topic t --count 2", "waiting")
	u.run(cli.ExitOK, "count t/c --key one", "1 of 2")
	u.run(cli.ExitOK, "count t/c", "2 of 2, fired")
	u.run(cli.ExitOK, "send "+u.receiver+"/ok --id d --topic t --in 1h", "waiting, due in ")
	u.run(cli.ExitOK, "run t/d", "t/d")
	u.run(cli.ExitRefused, "send "+u.receiver+"/ok --id e --topic t --wait --limit 0 --expect success", "t/e is dead", "retry_limit")
	u.run(cli.ExitOK, "send "+u.receiver+"/ok --id f --topic t --in PT90M --ttl 36h --timeout 1500ms", "waiting, due in 1h")
	u.run(cli.ExitOK, "get t/f", "timeout    1s500ms", "ttl        1d12h")
	u.run(cli.ExitOK, "topics", "t  ")
}

func TestExitCodesOfCalls(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.run(cli.ExitMissing, "get t/none", "duehook: ")
	u.run(cli.ExitMissing, "topic get none")
	u.run(cli.ExitUsage, "get t", "write topic/id")
	u.run(cli.ExitUsage, "get", "duehook get TOPIC/ID", "See duehook help get.")
	u.run(cli.ExitUsage, "schedule list", `unknown command "list": write duehook schedule and one of`, "preview")
	u.run(cli.ExitUsage, "completion tcsh", "bash, fish")
	u.run(cli.ExitUsage, "send", "name either a URL or a group")
	u.run(cli.ExitUsage, "send http://a.example --in soon", "--in")
	u.run(cli.ExitUsage, "send http://a.example --colour red", "unknown flag")
	u.run(cli.ExitUsage, "ls foo:bar", "no word of a search")
	u.run(cli.ExitUsage, "ls topic:a topic:b", "another word names topic, too")
	u.run(cli.ExitUsage, "ls key biz_key:other", "another word names biz_key, too")
	u.run(cli.ExitUsage, "ls labels:a:1 labels:b:2 labels:a:3", "another word names labels:a, too")
	u.run(cli.ExitUsage, "nosuch --in 3m", `unknown command "nosuch"`)
	u.run(cli.ExitUsage, "--json topics", "unknown flag: --json")
	u.run(cli.ExitUsage, "reschedule t/a --in soon", "--in")
	u.run(cli.ExitUsage, "reschedule t/a --at noon", "--at")
	u.run(cli.ExitUsage, "replay t/a --in soon", "--in")
	u.run(cli.ExitUsage, "ls --limit 0", "must be a number, 1 or more")
	u.run(cli.ExitUsage, "send http://a.example --limit -1", "must be a number, 0 or more")
	u.run(cli.ExitUsage, "send http://a.example --id=", "--id is empty")
	u.run(cli.ExitUsage, "topic pause t --until=", "--until is empty")
	u.run(cli.ExitUsage, "send http://a.example --body @/dev/zero", "more than 32 MiB")
	u.run(cli.ExitUsage, "group put g --file /dev/zero", "more than 32 MiB")
	u.run(cli.ExitUsage, "context rm none", "duehook context ls")
	u.run(cli.ExitUsage, "context add shop --url localhost:7788", "must begin with http://")
	u.run(cli.ExitRefused, "send http://169.254.169.254/ --id x")
	u.run(cli.ExitUnavailable, "--url http://127.0.0.1:1 get t/a", "cannot be reached", "start one with duehook serve")
	u.run(cli.ExitOK, "send http://a.example --in 1h --topic t --id live")
	if full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0); err == nil { // Linux has it
		defer func() { _ = full.Close() }()
		cmd := command(t, u.environ, "get", "t/live")
		cmd.Stdout = full
		if err := cmd.Run(); err == nil {
			t.Error("exit code 0, although nothing was printed")
		}
	}
	for _, tc := range []struct {
		args, code string
		exit       int
	}{
		{"get t/none", "job_not_found", cli.ExitMissing},
		{"get t", "usage", cli.ExitUsage},
		{"send --limit 0 --wait " + u.receiver + "/bad", "not_delivered", cli.ExitRefused},
		{"ls --url http://127.0.0.1:1", "unreachable", cli.ExitUnavailable},
		{"op cancel topic:t --url http://127.0.0.1:1", "unreachable", cli.ExitUnavailable},
		{"discard t/live", "failed", cli.ExitRefused},
		{"doctor --redis-url redis://127.0.0.1:1", "unchecked", cli.ExitUnavailable},
	} {
		var problem struct{ Code, Detail string }
		exit, _, stderr := testenv.Result(t, command(t, u.environ, strings.Fields(tc.args+" --json")...))
		if err := json.Unmarshal([]byte(stderr), &problem); err != nil || problem.Code != tc.code || problem.Detail == "" || exit != tc.exit {
			t.Errorf("duehook %s --json: exit code %d, want %d; error %s", tc.args, exit, tc.exit, stderr)
		}
	}
	if stdout := u.run(cli.ExitUnavailable, "ls --url http://127.0.0.1:1"); stdout != "" {
		t.Errorf("an error, and yet this on stdout: %s", stdout)
	}
}

// TestTypos: a misspelt name is an error that suggests the right one, and changes nothing.
func TestTypos(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.run(cli.ExitOK, "send "+u.receiver+"/ok --in 1h --topic order-timeout --id a")
	for _, change := range []string{"pause", "drain", "resume", "set"} {
		args := "topic " + change + " ordr-timeot"
		if change == "set" {
			args += " rate=5"
		}
		u.run(cli.ExitMissing, args, `there is no topic "ordr-timeot"; did you mean order-timeout?`)
		u.run(cli.ExitMissing, args+" --json", `"code":"topic_not_found"`)
	}
	u.run(cli.ExitMissing, "topic drain payments", `there is no topic "payments"; --new is for`)
	u.run(cli.ExitMissing, "endpoints try http://nowhere.example", "no job is for the endpoint http://nowhere.example", "duehook endpoints")
	u.run(cli.ExitMissing, "endpoints try http://nowhere.example --json", `"code":"missing"`)
	u.run(cli.ExitRefused, "endpoints try nowhere", "")
	u.run(cli.ExitOK, "endpoints try "+u.receiver+"/any", "closed")
	if out := u.run(cli.ExitOK, "topics"); strings.Contains(out, "ordr-timeot") || strings.Contains(out, "payments") {
		t.Errorf("a typo made a topic:\n%s", out)
	}
	for args, want := range map[string]string{
		"ls topic=order-timeout":           `"topic=order-timeout": write topic:order-timeout, with a colon`,
		"ls staet=dead":                    "write state:dead, with a colon",
		"op cancel id=order-":              "write id:order-, with a colon",
		"ls topik:order-timeout":           "did you mean topic:order-timeout?",
		"export bizkey:7":                  "did you mean biz_key:7?",
		"exprt":                            "did you mean export?",
		"topcs":                            "did you mean topics?",
		"schedule paus x":                  "did you mean pause?",
		"send --tpic x http://a":           "unknown flag: --tpic; did you mean --topic?",
		"schedule ls --limt 3":             "did you mean --limit?",
		"send http://a.example --in PT30X": "--in",
	} {
		u.run(cli.ExitUsage, args, want)
	}
	u.run(cli.ExitUsage, "exp", `unknown command "exp"`) // explain and export are as near
}

func TestCommandsPrintJSON(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	for _, id := range []string{"a", "b", "c"} {
		u.run(cli.ExitOK, "send "+u.receiver+"/ok --in 1h --topic t --id "+id)
	}
	lines := strings.Split(strings.TrimSpace(u.run(cli.ExitOK, "ls topic:t --json --limit 2")), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines, want one for each of 2 jobs: %q", len(lines), lines)
	}
	listed := map[string]any{}
	if err := json.Unmarshal([]byte(lines[0]), &listed); err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	if err := json.Unmarshal([]byte(u.run(cli.ExitOK, "get --json t/"+listed["id"].(string))), &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"uid", "next_at", "ended_at", "version"} { // also what is null
		if value, ok := got[name]; !ok || value != listed[name] {
			t.Errorf("%s is %v and %v", name, value, listed[name])
		}
	}
}

func TestCommandsOnTheRest(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.run(cli.ExitOK, "topic pause t --new --note deploy --until 1h", "paused since", "until", "deploy")
	u.run(cli.ExitOK, "topic resume t", "active")
	u.run(cli.ExitOK, "topic set t --new rate=50 retry.limit=3", "t  active")
	u.run(cli.ExitOK, "topic set t rate=")
	u.run(cli.ExitOK, "topic drain t --note moves", "draining since", "moves")
	u.run(cli.ExitOK, "topic resume t", "active")
	u.run(cli.ExitOK, "topic set t retry.steps=15s,1m callbacks.dead.url=http://a.example callbacks.retry.steps=1m timeout=30500ms ttl=PT36H", "t  active")
	u.run(cli.ExitOK, "topic get t", `"steps":["15s","1m"]`, `"timeout":"30s500ms"`, `"retry":{"steps":["1m"]}`, `"ttl":"1d12h"`)
	u.run(cli.ExitRefused, "topic set t retry.steps=soon", "retry/steps")
	if got := u.run(cli.ExitOK, "topic get t"); !strings.Contains(got, `"limit":3`) || strings.Contains(got, `"rate"`) {
		t.Errorf("after set, the settings are %s", got)
	}
	u.runWith(cli.ExitOK, "", []string{"schedule", "put", "s", u.receiver + "/ok", "--cron", "30 2 * * *", "--timezone", "Europe/Berlin"}, "s  active", "next in")
	u.run(cli.ExitOK, "schedule ls", "30 2 * * *")
	u.run(cli.ExitOK, "schedule preview s --limit 3", "T02:30:00")
	u.runWith(cli.ExitOK, "", []string{"schedule", "put", "e", u.receiver + "/ok", "--cron", "30 2 * * *", "--except", "2028-02-29"}, "e  active")
	u.run(cli.ExitOK, "schedule rm e", "deleted")
	u.run(cli.ExitOK, "schedule skip s", "skips ", "next in")
	u.run(cli.ExitOK, "schedule preview s --limit 1", "skipped")
	u.run(cli.ExitOK, "schedule unskip s", "next in")
	u.run(cli.ExitOK, "schedule pause s --note why --until 2h", "paused", "until", "why")
	u.run(cli.ExitOK, "schedule run s", "created")
	u.run(cli.ExitOK, "schedule rm s", "deleted")
	u.runWith(cli.ExitOK, `{"members":[{"name":"m","url":"`+u.receiver+`/ok"}]}`, strings.Fields("group put g"), "1 members")
	u.run(cli.ExitOK, "send --group g --id order-1 --topic t", "t/order-1:m")
	u.run(cli.ExitOK, "group members g --find 127.0.0.1", u.receiver+"/ok")
	if out := u.run(cli.ExitOK, "group members g --find nobody --json"); out != "" {
		t.Errorf("members with that name: %s", out)
	}
	u.run(cli.ExitMissing, "group members none", "No group has this name")
	u.runWith(cli.ExitUsage, `{"member":[]}`, strings.Fields("group put g"), `unknown field "member"`)
	u.runWith(cli.ExitUsage, `{"metric":"open_circuits","abve":1}`, strings.Fields("alert put down"), `unknown field "abve"`)
	u.runWith(cli.ExitUsage, `{"every":"1h","job":{"url":"http://a.example","retyr":{}}}`, strings.Fields("schedule put f --file -"), `job: json: unknown field "retyr"`)
	u.run(cli.ExitOK, "topic pause f --new")
	u.runWith(cli.ExitOK, `{"every":"1h","job":{"topic":"f","url":"http://a.example","body":{"n": 1.50}}}`, strings.Fields("schedule put f --file -"), "f  active")
	u.run(cli.ExitOK, "schedule run f", "created")
	if got := u.run(cli.ExitOK, "export topic:f"); !strings.Contains(got, `"body":{"n":1.50}`) {
		t.Errorf("the job of a schedule is %s", got)
	}
	u.runWith(cli.ExitOK, `{"metric":"open_circuits"}`, strings.Fields("alert put down"), "down")
	u.run(cli.ExitOK, "alert rules --limit 1", "open_circuits")
	u.run(cli.ExitOK, "alert ls --limit 1", "SUBJECT")
	u.run(cli.ExitOK, "inbox ls", "INBOX")
	u.run(cli.ExitMissing, "inbox ls none --state waiting", "No inbox has this name")
	u.run(cli.ExitMissing, "inbox retry none --all", "No inbox has this name")
	u.run(cli.ExitMissing, "inbox drop none 17", "No inbox has this name")
	u.run(cli.ExitUsage, "inbox drop none", "either rows or --all")
	u.run(cli.ExitUsage, "inbox drop none 1 --all", "either rows or --all")
	u.run(cli.ExitUsage, "inbox retry none x", "not the number of a row")
	u.run(cli.ExitOK, "endpoints", "closed")
	u.run(cli.ExitOK, "endpoints test "+u.receiver+"/ok", "200 in")
	u.run(cli.ExitRefused, "endpoints test "+u.receiver+"/bad", "http_500")
	u.run(cli.ExitOK, "health", "ready")
	u.run(cli.ExitUnavailable, "health --addr 127.0.0.1:1 --timeout 1s --url= ")
	_, port, _ := strings.Cut(strings.TrimPrefix(u.environ[0], "DUEHOOK_URL=http://"), ":")
	u.environ[0] = "DUEHOOK_ADDR=:" + port // as in a container
	u.run(cli.ExitOK, "health", "ready")
	u.environ[0] = "DUEHOOK_ADDR=0.0.0.0:1"
	u.run(cli.ExitUnavailable, "health")
}

func TestImportAndExport(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	var lines bytes.Buffer
	for _, id := range []string{"a", "b", "c"} {
		lines.WriteString(`{"topic":"t","id":"` + id + `","url":"` + u.receiver + `/ok","delay":"1h","body":{"n": 1.50}}` + "\n")
	}
	u.runWith(cli.ExitOK, lines.String(), []string{"import"}, `{"read":3,"created":3,"kept":0,"refused":0}`)
	u.runWith(cli.ExitOK, lines.String(), []string{"import"}, `"created":0,"kept":3`)
	u.runWith(cli.ExitOK, "\n"+lines.String(), []string{"import", "--dry-run"}, "t      0    3           0", "0 jobs would be registered, 3 are registered")
	u.runWith(cli.ExitRefused, `{"topic":"u","id":"x","pull":true}`+"\n{}", []string{"import", "--dry-run", "--json"}, `{"read":2,"created":1,"kept":0,"refused":1,"dry_run":true`)
	u.run(cli.ExitMissing, "get u/x")
	exported := u.run(cli.ExitOK, "export topic:t", "3 jobs")
	if strings.Count(exported, `"body":{"n":1.50}`) != 3 {
		t.Errorf("exported %s", exported)
	}
	if again := u.run(cli.ExitOK, "export topic:t --cursor="); again != exported {
		t.Errorf("exported again: %s", again)
	}
	u.run(cli.ExitRefused, "export topic:t --cursor nowhere", "continue with --cursor nowhere")
	u.run(cli.ExitRefused, "export topic:t --cursor nowhere --json", `"errors":`, `"continue":"--cursor nowhere"}`)
	u.run(cli.ExitUsage, "op cancel", "words of a search", "--all")
	u.run(cli.ExitUsage, "ls due_to:", `"due_to:": write a value after the colon`)
	u.run(cli.ExitUsage, "op cancel topic:t", "3 jobs", "--yes")
	u.run(cli.ExitOK, "op cancel topic:t --dry-run", "3 jobs")
	u.run(cli.ExitOK, "op cancel topic:t --yes", "done: 3 changed")
	u.runWith(cli.ExitOK, exported, []string{"import"}, `"created":0,"kept":3`) // their uids tell that they are those jobs
	newUser(t).runWith(cli.ExitOK, exported, []string{"import"}, `"created":3`)
	u.runWith(cli.ExitRefused, `{"topic":"t","id":"x"}`, []string{"import"}, `t/x: `, `"refused":1`)
	u.runWith(cli.ExitRefused, `{"topic":"t","id":"x"}`, []string{"import", "--json"}, `{"code":"invalid_request","detail":"`, `"id":"x","topic":"t"}`)
	many := command(t, u.environ, "import")
	many.Stdin = strings.NewReader(strings.Repeat(`{"topic":"t","id":"y"}`+"\n", 1_010))
	if _, stdout, stderr := testenv.Result(t, many); !strings.Contains(stdout, `"refused":1010`) || strings.Count(stderr, "t/y: ") != 1_000 {
		t.Errorf("of 1,010 refused jobs %d are printed; %s", strings.Count(stderr, "t/y: "), stdout)
	}
	u.runWith(cli.ExitUsage, lines.String()+"{", []string{"import"}, "line 4: not a registration", "--skip 3")
	u.runWith(cli.ExitUsage, `{"url":"`+u.receiver+`/ok","dealy":"1h"}`, []string{"import"}, `unknown field "dealy"`)
	u.runWith(cli.ExitUsage, `{"url":"`+u.receiver+`/ok"} {}`, []string{"import"}, "something follows")
}

// A job keeps its uid and the end of its ttl from an export to an import, a paused one does not go out by that, and both
// say what stays behind.
func TestWhatAnExportKeeps(t *testing.T) {
	t.Parallel()
	from, to := newUser(t), newUser(t)
	for _, args := range []string{
		"send URL/ok --topic held --id a --in 1h --ttl 3h", "send URL/ok --topic held --id b --in 1h", "send URL/ok --topic free --id c --in 1h --order-key k --ttl 90m",
		"send URL/ok --topic free --in 2h", "topic pause held", "topic set free weight=7", "schedule put s URL/ok --every 1h", "send URL/bad --topic free --id dead --limit 0 --wait",
	} {
		args = strings.ReplaceAll(args, "URL", from.receiver)
		code := cli.ExitOK
		if strings.Contains(args, "--wait") {
			code = cli.ExitRefused
		}
		from.run(code, args)
	}
	const leaves = "1 dead letters, 1 paused topics, 1 schedules, 1 topics with settings"
	lines := from.run(cli.ExitOK, "export", "4 jobs", "not exported: "+leaves)
	to.runWith(cli.ExitRefused, lines, []string{"import"}, "held/a: deliveries of topic held were paused", "duehook topic pause held --new", "--unpaused", "not imported: "+leaves, `"created":2,"kept":0,"refused":2`)
	to.run(cli.ExitOK, "topic pause held --new")
	to.runWith(cli.ExitOK, lines, []string{"import"}, `"created":2,"kept":2,"refused":0`)
	ended := strings.ReplaceAll(lines, `"expires_at":"2`, `"expires_at":"1`)
	to.run(cli.ExitOK, "topic resume held")
	to.runWith(cli.ExitOK, ended, []string{"import", "--unpaused"}, "2 jobs whose ttl has ended", `"created":0,"kept":2`)
	type kept struct {
		UID, Topic, ID, State string
		TTL                   client.Duration
		CreatedAt             time.Time `json:"created_at"`
	}
	for line := range strings.Lines(lines) {
		var is, was kept
		must.OK(t, json.Unmarshal([]byte(line), &is))
		if is.ID == "" {
			continue
		}
		at := "get " + is.Topic + "/" + is.ID + " --json"
		must.OK(t, json.Unmarshal([]byte(from.run(cli.ExitOK, at)), &was))
		must.OK(t, json.Unmarshal([]byte(to.run(cli.ExitOK, at)), &is))
		end, ended := is.CreatedAt.Add(time.Duration(is.TTL)), was.CreatedAt.Add(time.Duration(was.TTL))
		if is.UID != was.UID || is.TTL != 0 && end.Sub(ended).Abs() > time.Second {
			t.Errorf("%s is %+v, was %+v", is.ID, is, was)
		}
	}
	must.Equal(t, "lines", strings.Count(lines, "\n"), 5)
	line := `{"topic":"t","id":"x","url":"` + to.receiver + `/ok","uid":"01M8KQXTCMASKQPERGG1TRHNRH"}`
	to.runWith(cli.ExitRefused, line, []string{"import"}, "t/x: ", "uid")
}

// An import that is interrupted says so and how it continues, and doesn't blame the server.
func TestInterruptedImport(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"import":               "duehook: line 1: interrupt signal received\ncontinue with --skip 0\n",
		"import --from qstash": "duehook: interrupt signal received\n0 jobs are done; run the command again to continue: nothing is registered twice\n",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				close(asked)
				<-r.Context().Done()
			}))
			t.Cleanup(server.Close)
			environ := []string{"DUEHOOK_URL=" + server.URL, "DUEHOOK_SOURCE=" + server.URL, "DUEHOOK_SOURCE_TOKEN=x"}
			cmd := command(t, environ, strings.Fields(args)...)
			cmd.Stdin = strings.NewReader(`{"topic":"t","id":"a"}`)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-asked
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != cli.ExitRefused || stderr.String() != want {
				t.Errorf("exit code %d, %q, want %q", code, stderr.String(), want)
			}
		})
	}
}

// TestTroublesOfAlerts: an alert about an inbox or a server has no topic; its trouble is the subject.
func TestTroublesOfAlerts(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"data":[{"rule":"r","metric":"inbox_trouble","trouble":"shop: rows have failed","value":1}],"next_cursor":null}`)
	}))
	defer server.Close()
	u.run(cli.ExitOK, "alert ls --url "+server.URL, "shop: rows have failed")
}

func TestContexts(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	base := strings.TrimPrefix(u.environ[0], "DUEHOOK_URL=")
	u.environ = u.environ[1:]
	u.run(cli.ExitOK, "context add shop --token secret --url "+base)
	u.run(cli.ExitOK, "context add nowhere --url http://127.0.0.1:1")
	u.run(cli.ExitUnavailable, "topics")
	u.run(cli.ExitOK, "topics --context shop")
	u.run(cli.ExitOK, "context use shop")
	u.run(cli.ExitOK, "topics")
	u.run(cli.ExitOK, "context ls", "* shop  "+base)
	u.run(cli.ExitUsage, "topics --context lost", "duehook context ls")
	u.run(cli.ExitUnavailable, "topics --url http://127.0.0.1:1", "127.0.0.1:1: connect")
	name := filepath.Join(strings.TrimPrefix(u.environ[0], "XDG_CONFIG_HOME="), "duehook", "contexts.json")
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file with tokens: %v, %v", info, err)
	}
	var token atomic.Value
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token.Store(r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusNotFound)
	}))
	defer other.Close()
	u.run(cli.ExitMissing, "topics --url "+other.URL)
	if got := token.Load(); got != "" {
		t.Errorf("the token of the context in use went to another server: %s", got)
	}
	u.run(cli.ExitMissing, "topics --context shop --url "+other.URL)
	if got := token.Load(); got != "Bearer secret" {
		t.Errorf("the token of a context that is named was sent as %q", got)
	}
	if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.run(cli.ExitUsage, "topics", "correct or delete the file")
	u.run(cli.ExitOK, "topics --url "+base)
}

func TestVerifyADelivery(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	secret := strings.TrimSpace(u.run(cli.ExitOK, "secret new", "whsec_"))
	req, err := http.NewRequest(http.MethodPut, strings.TrimPrefix(u.environ[0], "DUEHOOK_URL=")+"/v1/signing", strings.NewReader(`{"secret":"`+secret+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	u.run(cli.ExitOK, "send "+u.receiver+"/ok --wait --body hello")
	delivery := string(*u.last.Load())
	u.runWith(cli.ExitOK, delivery, []string{"verify", "--secret", secret}, "verified: ")
	u.runWith(cli.ExitRefused, strings.Replace(delivery, "hello", "jello", 1), []string{"verify", "--secret", secret}, "not verified")
	u.runWith(cli.ExitUsage, "hello", []string{"verify", "--secret", secret}, "no HTTP request")
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	u := &user{t: t}
	u.run(cli.ExitOK, "__complete serve --retry-j", "--retry-jitter\t")
	u.run(cli.ExitOK, "__complete serve --log-format j", "json")
	u.run(cli.ExitOK, "__complete sched", "schedule\t")
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	u := &user{t: t}
	u.run(cli.ExitOK, "doctor --addr=127.0.0.1:0 --data-dir "+filepath.Join(t.TempDir(), "d"), "ok", "free space")
	u.run(cli.ExitRefused, "doctor --workers=100000", "problem", "LimitNOFILE")
	u.run(cli.ExitUsage, "doctor --lease=1s", "--lease")
	out := u.run(cli.ExitUnavailable, "doctor --json --redis-url=redis://127.0.0.1:1", "checks that could not be made: 1")
	for line := range strings.Lines(out) {
		var f struct{ Check, Status, Message string }
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.Check == "" || f.Status == "" || f.Message == "" {
			t.Errorf("%s: %v", line, err)
		}
	}
	u.run(cli.ExitOK, "help doctor", "With --json", "--redis-url")
}

// start runs a command that goes on. It returns its lines as they come, what types into it, and what
// interrupts it and returns the exit code.
func (u *user) start(args string) (lines *bufio.Scanner, stdin io.Writer, end func() int) {
	u.t.Helper()
	cmd := command(u.t, u.environ, strings.Fields(args)...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		u.t.Fatal(err)
	}
	if stdin, err = cmd.StdinPipe(); err != nil {
		u.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return bufio.NewScanner(stdout), stdin, func() int {
		_ = cmd.Process.Signal(os.Interrupt)
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}
}

// What listen passes on is what the server would have sent.
func TestListen(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	secret := strings.TrimSpace(u.run(cli.ExitOK, "secret new"))
	request := func() *http.Request {
		t.Helper()
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(*u.last.Load())))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	u.run(cli.ExitOK, "send "+u.receiver+"/ok --topic t --id a --body {\"n\":1} --header x-tenant:acme --wait")
	pushed := request()
	lines, stdin, end := u.start("listen " + u.receiver + "/ok --topic p --topic t --secret " + secret)
	u.run(cli.ExitOK, "send --pull --topic t --id b --body {\"n\":1} --header x-tenant:acme --wait", "t/b  delivered")
	if !lines.Scan() || !strings.Contains(lines.Text(), "delivered t/b  attempt 1  200 in ") {
		t.Fatalf("listen printed %q", lines.Text())
	}
	u.runWith(cli.ExitOK, string(*u.last.Load()), []string{"verify", "--secret", secret}, "verified: ")
	pulled := request()
	for _, r := range []*http.Request{pushed, pulled} {
		if r.Header.Get("Webhook-Id") == "" || r.Header.Get("Duehook-Due-At") == "" || r.Header.Get("Webhook-Signature") == "" || r.Header.Get("Duehook-Topic-Signature") == "" {
			t.Errorf("the header is %v", r.Header)
		}
		for _, own := range []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "Duehook-Topic-Signature", "Duehook-Due-At", "Duehook-Job-Id"} {
			r.Header.Del(own)
		}
	}
	if diff := cmp.Diff(pushed.Header, pulled.Header); diff != "" || pulled.Method != pushed.Method || pulled.ContentLength != pushed.ContentLength {
		t.Errorf("%s %d; header (-pushed +pulled):\n%s", pulled.Method, pulled.ContentLength, diff)
	}
	if _, err := io.WriteString(stdin, "r\n"); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || !strings.Contains(lines.Text(), "replayed  t/b") {
		t.Errorf("after r, listen printed %q", lines.Text())
	}
	u.run(cli.ExitOK, "get t/b", "none: consumers fetch the job", "1 of 10")
	if code := end(); code != cli.ExitOK {
		t.Errorf("interrupted: exit code %d", code)
	}

	lines, _, end = u.start("listen " + u.receiver + "/bad --json")
	u.run(cli.ExitRefused, "send --pull --id c --limit 0 --wait", "default/c is dead (retry_limit)")
	var line struct {
		ID, Result string
		Status     int
	}
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &line) != nil || line.ID != "c" || line.Result != "failed" || line.Status != 500 {
		t.Errorf("listen --json printed %q", lines.Text())
	}
	end()
	u.run(cli.ExitUsage, "listen", "duehook listen URL")
	u.run(cli.ExitUsage, "listen localhost:3000", "must start with http://")
	u.run(cli.ExitUsage, "listen "+u.receiver+"/ok --secret nonsense", "must begin with whsec_")
	u.run(cli.ExitUsage, "send "+u.receiver+"/ok --pull", "name either")
	u.run(cli.ExitUnavailable, "listen "+u.receiver+"/ok --url http://127.0.0.1:1", "cannot be reached")
	u.run(cli.ExitRefused, "listen "+u.receiver+"/ok --lease 24h", "1s to 12h")
}
