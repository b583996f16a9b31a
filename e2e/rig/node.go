package rig

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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/testing/testenv"
)

const (
	startLimit = 2 * time.Minute
	stopLimit  = 2 * time.Minute
)

// Node is a process of `duehook serve`. It may be started again after its end,
// at another address. It is not safe for concurrent use, except Base.
type Node struct {
	Name string
	// Args and Env are what the next Start gives the process.
	Args, Env []string

	t      testing.TB
	binary string
	log    string // path of the file that all its lives log to

	address atomic.Pointer[string] // of the API, while it is served
	cmd     *exec.Cmd
	serving chan struct{} // closed when the API is served
	exited  chan struct{} // closed when cmd has been waited for
}

// masterKey of all nodes seals the signing secrets that they share.
const masterKey = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

// NewNode is a node that is not started yet; it ends with the test. flags come
// on top of those that every test needs.
func NewNode(t testing.TB, binary, name string, flags ...string) *Node {
	t.Helper()
	n := &Node{t: t, binary: binary, Name: name, log: filepath.Join(t.TempDir(), name+".log")}
	n.Args = append([]string{
		"serve", "--addr", "127.0.0.1:0", "--allow-cidrs", "127.0.0.0/8", "--log-format", "json",
	}, flags...)
	// As if each node ran on a machine of its own, where it was given the key.
	n.Env = append(withoutSettings(os.Environ()), "DUEHOOK_MASTER_KEY="+masterKey)
	t.Cleanup(n.cleanUp)
	return n
}

// Base is the URL of the API, or empty while the node is down.
func (n *Node) Base() string {
	if a := n.address.Load(); a != nil {
		return *a
	}
	return ""
}

// PID is the process id of the running node.
func (n *Node) PID() int {
	n.t.Helper()
	if n.cmd == nil {
		n.t.Fatalf("%s is not running", n.Name)
	}
	return n.cmd.Process.Pid
}

// Start starts the process and returns when it serves its API.
func (n *Node) Start() {
	n.t.Helper()
	n.launch()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	select {
	case <-n.serving:
		return
	case <-n.exited:
		n.t.Fatalf("%s ended before it served: %v", n.Name, n.cmd.ProcessState)
	case <-ctx.Done():
		n.t.Fatalf("%s does not serve after %v", n.Name, startLimit)
	}
}

func (n *Node) launch() {
	n.t.Helper()
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	cmd := exec.Command(n.binary, n.Args...)
	cmd.Env, cmd.Dir = n.Env, filepath.Dir(n.log)
	cmd.SysProcAttr = procAttr() // no clean-up runs when the test panics
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_ = log.Close()
		n.t.Fatalf("start %s: %v", n.Name, err)
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
func (n *Node) follow(log io.Reader, serving chan<- struct{}) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Msg, API string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.API != "" && n.Base() == "" {
			n.address.Store(&line.API)
			close(serving)
		}
	}
	n.address.Store(nil)
	_, _ = io.Copy(io.Discard, log) // after a line that was too long
}

// Kill ends the process at once (SIGKILL) and returns when it is gone.
func (n *Node) Kill() {
	n.t.Helper()
	n.end(syscall.SIGKILL)
}

// Stop asks the process to end (SIGTERM) and returns its exit code.
func (n *Node) Stop() int {
	n.t.Helper()
	return n.end(syscall.SIGTERM)
}

// Freeze stops the process where it stands (SIGSTOP): its connections stay.
func (n *Node) Freeze() {
	n.t.Helper()
	n.signal(syscall.SIGSTOP)
}

// Thaw resumes a frozen process.
func (n *Node) Thaw() {
	n.t.Helper()
	n.signal(syscall.SIGCONT)
}

func (n *Node) signal(s syscall.Signal) {
	n.t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		n.t.Errorf("signal %v to %s: %v", s, n.Name, err)
	}
}

// AwaitExit waits for the process to exit, and reports whether it did
// within the limit. Start may follow.
func (n *Node) AwaitExit(limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	select {
	case <-n.exited:
		n.cmd = nil
		return true
	case <-ctx.Done():
		return false
	}
}

func (n *Node) end(s syscall.Signal) int {
	n.t.Helper()
	n.signal(s)
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	select {
	case <-n.exited:
	case <-ctx.Done():
		n.t.Errorf("%s did not end within %v of %v: killing it", n.Name, stopLimit, s)
		_ = n.cmd.Process.Kill()
		<-n.exited
	}
	code := n.cmd.ProcessState.ExitCode()
	n.cmd = nil
	return code
}

// Alive reports whether the process that Start started still runs.
func (n *Node) Alive() bool {
	select {
	case <-n.exited:
		return false
	default:
		return n.cmd != nil
	}
}

// cleanUp ends the process, and fails the test for what its log gives away.
func (n *Node) cleanUp() {
	if n.cmd != nil {
		n.Kill()
	}
	log, err := os.ReadFile(n.log)
	if err != nil {
		n.t.Errorf("log of %s: %v", n.Name, err)
	}
	for _, sign := range []string{"WARNING: DATA RACE", "panic:", `"msg":"panic`, "fatal error:", "goroutine 1 ["} {
		if at := bytes.Index(log, []byte(sign)); at >= 0 {
			n.t.Errorf("%s logged %q:\n%s", n.Name, sign, log[at:min(len(log), at+4000)])
		}
	}
	if n.t.Failed() {
		n.t.Logf("the log of %s ends:\n%s", n.Name, log[max(0, len(log)-4000):])
	}
}

// withoutSettings removes settings of the caller's environment.
func withoutSettings(environ []string) []string {
	var kept []string
	for _, e := range environ {
		if !strings.HasPrefix(e, "DUEHOOK_") {
			kept = append(kept, e)
		}
	}
	return kept
}

// AwaitReady waits until the node answers that it can serve.
func (n *Node) AwaitReady() {
	n.t.Helper()
	testenv.Eventually(n.t, startLimit, func() bool {
		a, err := Call(context.Background(), "GET", n.Base()+"/readyz", nil, nil)
		return err == nil && a.Status == 200
	}, n.Name+" is ready")
}
