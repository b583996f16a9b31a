package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra/doc"

	"github.com/duehook/duehook/internal/node"
	"github.com/duehook/duehook/internal/node/config"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store/redisstore"
)

// asProgram makes the test binary behave as duehook itself.
const asProgram = "TEST_RUN_AS_DUEHOOK"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// patience bounds every run of the program.
const patience = testenv.Patience

// program is the command line "duehook args…" in a directory of its own.
func program(t *testing.T, environ []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{
		asProgram + "=1", "HOME=" + cmd.Dir, "TMPDIR=" + cmd.Dir,
		"GOCOVERDIR=" + t.TempDir(), // or a build that counts coverage complains
	}, environ...)
	return cmd
}

func TestExitCodes(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = busy.Close() }) // the parallel tests below outlive this function
	for _, tc := range []struct {
		name    string
		args    []string
		environ []string
		code    int
		stdout  string // parts of what is printed
		stderr  string
	}{
		{name: "no command", code: 0, stdout: "duehook serve"},
		{name: "help", args: []string{"help"}, code: 0, stdout: "Usage:"},
		{name: "help flag", args: []string{"--help"}, code: 0, stdout: "Usage:"},
		{name: "help of serve", args: []string{"serve", "--help"}, code: 0, stdout: "--data-dir"},
		{name: "help of demo", args: []string{"demo", "-h"}, code: 0, stdout: "Usage:"},
		{name: "version", args: []string{"version"}, code: 0, stdout: "duehook 0.1.0-dev ("},
		{name: "version for machines", args: []string{"version", "--json"}, code: 0, stdout: `{"version":"0.1.0-dev",`},
		{name: "version flag", args: []string{"--version"}, code: 0, stdout: "duehook "},
		{name: "config", args: []string{"config", "--workers=7"}, code: 0, stdout: "flag --workers"},
		{name: "variables of commands", args: []string{"config"}, environ: []string{"DUEHOOK_URL=http://a.example", "DUEHOOK_TOKEN=t"}, code: 0, stdout: "workers"},
		{name: "key", args: []string{"apikey", "new", "--scope=read"}, code: 0, stdout: "token dh_"},
		{name: "key for machines", args: []string{"apikey", "new", "--scope=read", "--json"}, code: 0, stdout: `{"token":"dh_`},
		{name: "key until later", args: []string{"apikey", "new", "--scope=read", "--expires=90d", "--topics=a,b-*"}, code: 0, stdout: "topic=a topic=b-* sha256="},
		{name: "key of the past", args: []string{"apikey", "new", "--scope=read", "--expires=0"}, code: 2, stderr: "--expires must be in the future"},
		{name: "key of a wrong namespace", args: []string{"apikey", "new", "--scope=read", "--namespace=a/b"}, code: 2, stderr: "--namespace may contain"},
		{name: "key with two faults", args: []string{"apikey", "new", "--scope=root", "--rate=x"}, code: 2, stderr: "--scope must be read, write, admin or consume\n--rate must be"},
		{name: "help of apikey", args: []string{"apikey", "new", "--help"}, code: 0, stdout: "--expires"},
		{name: "key without a scope", args: []string{"apikey", "new"}, code: 2, stderr: "--scope must be read, write, admin or consume"},
		{name: "no key", args: []string{"apikey"}, code: 2, stderr: "duehook apikey new"},
		{name: "beyond loopback without keys", args: []string{"serve", "--addr=0.0.0.0:0"}, code: 2, stderr: "duehook apikey new --scope admin"},
		{name: "certificate missing", args: []string{"serve", "--tls-cert=none.pem", "--tls-key=none.pem"}, code: 1, stderr: "--tls-cert: open none.pem"},
		{name: "a setting of reshard", args: []string{"reshard", "--worker=1"}, code: 2, stderr: "did you mean --workers?"},
		{name: "reshard without Redis", args: []string{"reshard"}, code: 1, stderr: "set --redis-url"},
		{name: "backup without a directory", args: []string{"backup", "--data-dir=x"}, code: 2, stderr: "duehook backup dir"},
		{name: "unknown command", args: []string{"sevre"}, code: 2, stderr: `unknown command "sevre"`},
		{name: "flag before the command", args: []string{"--adr=:1", "serve"}, code: 2, stderr: "did you mean --addr?"},
		{name: "unknown flag", args: []string{"serve", "--adr=:1"}, code: 2, stderr: "did you mean --addr?"},
		{name: "argument of demo", args: []string{"demo", "fast"}, code: 2, stderr: "duehook demo"},
		{name: "argument of version", args: []string{"version", "--long"}, code: 2, stderr: "See duehook help version."},
		{name: "unknown variable", args: []string{"serve"}, environ: []string{"DUEHOOK_FOO=1"}, code: 2, stderr: "unknown setting DUEHOOK_FOO"},
		{name: "lease too short", args: []string{"serve", "--lease=10s"}, code: 2, stderr: "--lease 10s is too short"},
		{name: "file missing", args: []string{"config", "--config=none.yaml"}, code: 2, stderr: "none.yaml"},
		{name: "port in use", args: []string{"serve", "--addr", busy.Addr().String()}, code: 1, stderr: "listen for the API"},
		{name: "no directory", args: []string{"serve", "--addr=127.0.0.1:0", "--data-dir=/dev/null/x"}, code: 1, stderr: "/dev/null"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := testenv.Result(t, program(t, tc.environ, tc.args...))
			if code != tc.code || !strings.Contains(stdout, tc.stdout) || !strings.Contains(stderr, tc.stderr) {
				t.Errorf("code %d, want %d\nstdout lacks %q or stderr %q:\n%s\n%s", code, tc.code, tc.stdout, tc.stderr, stdout, stderr)
			}
			if code == 2 && !strings.Contains(stderr, "See duehook help") {
				t.Errorf("no hint at the help: %s", stderr)
			}
			if code != 0 && stdout != "" {
				t.Errorf("an error, and yet this on stdout: %s", stdout)
			}
		})
	}
}

func TestConfigHidesPasswords(t *testing.T) {
	code, stdout, stderr := testenv.Result(t, program(t, []string{"DUEHOOK_REDIS_URL=redis://u:hunter2@db:6379"}, "config"))
	if code != 0 || !strings.Contains(stdout, "redis://u:***@db:6379") || strings.Contains(stdout+stderr, "hunter2") {
		t.Errorf("code %d:\n%s\n%s", code, stdout, stderr)
	}
}

func TestHelpTellsCommandsAndSettings(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"help"}, nil, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, command := range commands(nil, io.Discard, io.Discard).Commands() {
		if command.Hidden { // export and import name these two, with --all
			continue
		}
		if !strings.Contains(out.String(), "\n  "+command.Name()+" ") || command.Short == "" || command.GroupID == "" {
			t.Errorf("no %s in the help, or nothing about it", command.Name())
		}
	}
	for _, command := range []string{"serve", "config", "reshard", "export-all", "import-all"} {
		out.Reset()
		if err := run(t.Context(), []string{"help", command}, nil, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(out.String(), config.Usage()) {
			t.Errorf("the help of %s does not end with the settings", command)
		}
	}
}

// TestManPages writes the man pages, for deploy/dist-files to MAN_DIR. The binary cannot: what writes
// them weighs 0.3 MB.
func TestManPages(t *testing.T) {
	dir := os.Getenv("MAN_DIR")
	if dir == "" {
		dir = t.TempDir()
	}
	date := time.Unix(1_800_000_000, 0)
	if epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		date = time.Unix(epoch, 0)
	}
	root := commands(nil, io.Discard, io.Discard)
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Section: "1", Date: &date, Source: "duehook " + node.Version(version), Manual: "duehook"}
	if err := doc.GenManTree(root, header, dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"duehook.1", "duehook-serve.1", "duehook-apikey-new.1", "duehook-send.1", "duehook-completion-zsh.1"} {
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(page), date.Format(`"Jan 2006"`)) {
			t.Errorf("%s: %v, or another date: %.200s", name, err, page)
		}
	}
	page, _ := os.ReadFile(filepath.Join(dir, "duehook-serve.1"))
	if !strings.Contains(string(page), `\fB--retry-steps\fP`) || !strings.Contains(string(page), `\fB--api-keys\fP=none`) {
		t.Error("the page of serve lacks settings")
	}
}

// serving starts "duehook serve" and waits until it says where it listens.
func serving(t *testing.T, dir string, flags ...string) (cmd *exec.Cmd, base string, logs *bufio.Scanner) {
	t.Helper()
	cmd = program(t, nil, append([]string{"serve", "--addr=127.0.0.1:0", "--data-dir", dir, "--workers=8"}, flags...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	logs = bufio.NewScanner(stderr)
	for logs.Scan() {
		var line struct {
			API string `json:"api"`
		}
		if err := json.Unmarshal(logs.Bytes(), &line); err != nil {
			t.Fatalf("no JSON although nobody reads along: %s", logs.Text())
		}
		if line.API != "" {
			return cmd, line.API, logs
		}
	}
	t.Fatalf("duehook does not serve: %v", cmd.Wait())
	return nil, "", nil
}

func get(t *testing.T, url string) int {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// post registers a job.
func post(t *testing.T, base, job string) {
	t.Helper()
	resp, err := http.Post(base+"/v1/jobs", "application/json", strings.NewReader(job))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("registering was answered %d", resp.StatusCode)
	}
}

// A SIGTERM ends duehook cleanly, and a restart finds what was registered.
func TestServeStopsOnSIGTERMAndRemembers(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	cmd, base, logs := serving(t, dir)
	post(t, base, `{"topic":"t","id":"a","url":"https://example.com/","delay":"1h"}`)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data directory: %v, %v; want access for the owner only", info, err)
	}
	for range 2 {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		var last string
		for logs.Scan() {
			last = logs.Text()
		}
		if err := cmd.Wait(); err != nil || !strings.Contains(last, `"stopped"`) {
			t.Errorf("stopping: %v; last line %s", err, last)
		}
		cmd, base, logs = serving(t, dir)
		if status := get(t, base+"/v1/jobs/t/a"); status != http.StatusOK {
			t.Errorf("after the restart, the job is answered %d", status)
		}
	}
	if code, _, stderr := testenv.Result(t, program(t, nil, "serve", "--addr=127.0.0.1:0", "--data-dir", dir)); code != 1 || !strings.Contains(stderr, "--data-dir") {
		t.Errorf("a second duehook on the same data: code %d: %s", code, stderr)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
}

// While a request is under way, the first signal waits for it and the second
// does not.
func TestSecondSignalAborts(t *testing.T) {
	t.Parallel()
	arrived, done := make(chan struct{}), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-done
	}))
	defer receiver.Close()
	defer close(done)
	cmd, base, logs := serving(t, t.TempDir(), "--allow-cidrs=127.0.0.0/8", "--grace=1h", "--timeout=10m", "--max-timeout=10m")
	post(t, base, `{"url":"`+receiver.URL+`"}`)
	<-arrived
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for logs.Scan() {
			// The logs are of no interest, but the pipe must not fill up.
		}
		_ = cmd.Wait() // its state tells
	}()
	for {
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails when it has ended
		select {
		case <-ended:
			status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if !ok || !status.Signaled() || status.Signal() != syscall.SIGTERM {
				t.Errorf("ended with %v, want the signal's own end", cmd.ProcessState)
			}
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// The demo as a newcomer runs it.
func TestDemo(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := testenv.Result(t, program(t, nil, "demo"))
	for _, want := range []string{
		"order-1001 is still not paid, it is closed", "order-1002 is paid; the shop withdraws its job: cancelled",
		`payment-7002  attempt 3  merchant says 200 "please wait"`, "again in 1h, at 02:", "a dead letter",
		"the dead letter payment-7003 is replayed", "All expectations held",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the timeline lacks %q", want)
		}
	}
	// No expectation is broken, and there are no colours for no terminal.
	if code != 0 || strings.Contains(stdout, "✗") || strings.Contains(stdout, "\x1b[") || t.Failed() {
		t.Errorf("code %d\n%s\n%s", code, stdout, stderr)
	}
}

func TestWhatChangesPrintsJSON(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	s, err := redisstore.Open(t.Context(), redisstore.Options{URL: redis.URL(), Namespace: "default", Shards: 4})
	if err == nil {
		err = errors.Join(s.Ping(t.Context()), s.Close()) // which lays the namespace out
	}
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := testenv.Result(t, program(t, nil, "reshard", "--json", "--redis-url="+redis.URL(), "--shards=4"))
	none := `{"unfinished":0,"dead":0,"delivered":0,"cancelled":0,"expired":0}`
	want := `{"namespace":"default","from":4,"to":4,"before":` + none + `,"after":` + none + `,"moved":0,"unreadable":0}` + "\n"
	if code != 0 || stdout != want {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	data, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	cmd, _, logs := serving(t, data)
	code, stdout, stderr = testenv.Result(t, program(t, nil, "backup", to, "--json", "--data-dir="+data))
	if want := `{"dir":"` + to + `","copied":["jobs","master.key","signing-secret"],"master_key_is_a_setting":false}` + "\n"; code != 0 || stdout != want {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	_ = cmd.Process.Kill()
	for logs.Scan() {
	}
	_ = cmd.Wait()
}

func TestZoneOf(t *testing.T) {
	for name, want := range map[string]string{"Asia/Tokyo": "Asia/Tokyo", ":Asia/Tokyo": "Asia/Tokyo", "": "", "/etc/localtime": "", "Nowhere/At_All": ""} {
		got := ""
		if zone := zoneOf(name); zone != nil {
			got = zone.String()
		}
		if got != want {
			t.Errorf("TZ=%s is the zone %q, not %q", name, got, want)
		}
	}
}
