package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/testenv"
)

const (
	startLimit = time.Minute
	stopLimit  = time.Minute
)

// node is a process of `duehook serve`. It may be started again after its end,
// at another address. It is not safe for concurrent use, but for base.
type node struct {
	t      testing.TB
	binary string
	args   []string
	env    []string // on top of that of the tests
	name   string
	log    string // path of the file that all its lives log to

	address atomic.Pointer[string] // of the API, while it is served
	cmd     *exec.Cmd
	serving chan struct{} // closed when the API is served
	exited  chan struct{} // closed when cmd has been waited for
}

// newNode is a node that is not started yet. flags come on top of those that
// every test needs.
func newNode(t testing.TB, binary func() (string, error), name string, flags ...string) *node {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, binary: path, name: name, log: filepath.Join(t.TempDir(), name+".log")}
	n.args = append([]string{
		"serve", "--addr", "127.0.0.1:0", "--allow-cidrs", "127.0.0.0/8", "--log-format", "json",
	}, flags...)
	t.Cleanup(n.cleanUp)
	return n
}

// startEmbedded starts a node on the embedded store in a directory of its own.
func startEmbedded(t testing.TB, binary func() (string, error), flags ...string) *node {
	t.Helper()
	n := newNode(t, binary, "node", append([]string{"--data-dir", t.TempDir()}, flags...)...)
	n.start()
	return n
}

// startNodes starts nodes that share a Redis.
func startNodes(t testing.TB, binary func() (string, error), names string, redisURL string, flags ...string) []*node {
	t.Helper()
	var nodes []*node
	for _, name := range strings.Fields(names) {
		n := newNode(t, binary, name, append([]string{"--redis-url", redisURL}, flags...)...)
		n.start()
		nodes = append(nodes, n)
	}
	return nodes
}

// base is the URL of the API, or empty while the node is down.
func (n *node) base() string {
	if a := n.address.Load(); a != nil {
		return *a
	}
	return ""
}

func (n *node) pid() int {
	n.t.Helper()
	if n.cmd == nil {
		n.t.Fatalf("%s is not running", n.name)
	}
	return n.cmd.Process.Pid
}

// start starts the process and returns when it serves its API.
func (n *node) start() {
	n.t.Helper()
	n.launch()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	select {
	case <-n.serving:
		return
	case <-n.exited:
		n.t.Fatalf("%s ended before it served: %v", n.name, n.cmd.ProcessState)
	case <-ctx.Done():
		n.t.Fatalf("%s does not serve after %v", n.name, startLimit)
	}
}

func (n *node) launch() {
	n.t.Helper()
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	cmd := exec.Command(n.binary, n.args...)
	cmd.Env = append(withoutSettings(os.Environ()), n.env...)
	cmd.SysProcAttr = procAttr() // no clean-up runs when the test panics
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_ = log.Close()
		n.t.Fatalf("start %s: %v", n.name, err)
	}
	serving, exited := make(chan struct{}), make(chan struct{})
	go func() {
		n.follow(io.TeeReader(stderr, log), serving)
		_ = cmd.Wait() // how it ended is in ProcessState
		_ = log.Close()
		close(exited)
	}()
	n.cmd, n.serving, n.exited = cmd, serving, exited
}

// follow reads the log to its end, and learns from it where the API is.
func (n *node) follow(log io.Reader, serving chan<- struct{}) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Msg, API string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.API != "" && n.base() == "" {
			n.address.Store(&line.API)
			close(serving)
		}
	}
	n.address.Store(nil)
	_, _ = io.Copy(io.Discard, log) // after a line that was too long
}

// kill ends the process at once (SIGKILL) and returns when it is gone.
func (n *node) kill() {
	n.t.Helper()
	n.end(syscall.SIGKILL)
}

// stop asks the process to end (SIGTERM) and returns its exit code.
func (n *node) stop() int {
	n.t.Helper()
	return n.end(syscall.SIGTERM)
}

func (n *node) end(s syscall.Signal) int {
	n.t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		n.t.Errorf("signal %v to %s: %v", s, n.name, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	select {
	case <-n.exited:
	case <-ctx.Done():
		n.t.Errorf("%s did not end within %v of %v: killing it", n.name, stopLimit, s)
		_ = n.cmd.Process.Kill()
		<-n.exited
	}
	code := n.cmd.ProcessState.ExitCode()
	n.cmd = nil
	return code
}

// alive reports whether the process that start started still runs.
func (n *node) alive() bool {
	select {
	case <-n.exited:
		return false
	default:
		return n.cmd != nil
	}
}

// cleanUp ends the process, and fails the test for what its log gives away.
func (n *node) cleanUp() {
	if n.cmd != nil {
		n.kill()
	}
	log, err := os.ReadFile(n.log)
	if err != nil {
		n.t.Errorf("log of %s: %v", n.name, err)
	}
	for _, sign := range []string{"WARNING: DATA RACE", "panic:", `"msg":"panic`, "fatal error:", "goroutine 1 ["} {
		if at := bytes.Index(log, []byte(sign)); at >= 0 {
			n.t.Errorf("%s logged %q:\n%s", n.name, sign, log[at:min(len(log), at+4000)])
		}
	}
	if n.t.Failed() {
		n.t.Logf("the log of %s ends:\n%s", n.name, log[max(0, len(log)-4000):])
	}
}

// withoutSettings keeps settings of whoever runs the tests out of the nodes.
func withoutSettings(environ []string) []string {
	var kept []string
	for _, e := range environ {
		if !strings.HasPrefix(e, "DUEHOOK_") {
			kept = append(kept, e)
		}
	}
	return kept
}

// awaitReady waits until the node answers that it can serve.
func (n *node) awaitReady() {
	n.t.Helper()
	testenv.Eventually(n.t, startLimit, func() bool {
		a, err := call(context.Background(), "GET", n.base()+"/readyz", nil, nil)
		return err == nil && a.status == 200
	}, n.name+" is ready")
}

// bases gives the addresses of the nodes that are up now.
type bases struct {
	mu    sync.Mutex
	nodes []*node
	next  int
}

// pick is the address of one node after the other, or empty when all are down.
func (b *bases) pick() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.nodes {
		b.next++
		if base := b.nodes[b.next%len(b.nodes)].base(); base != "" {
			return base
		}
	}
	return ""
}
