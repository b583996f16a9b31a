package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

const (
	startLimit = Patience
	stopLimit  = Patience
	// portTries is how often another port is tried when a free one was taken
	// by someone else before the server had it.
	portTries = 5
)

// RedisOption changes how StartRedis runs the server.
type RedisOption func(*Redis)

// WithAOF makes the server write each change to its append-only file before
// it answers, so that nothing acknowledged is lost by Kill.
func WithAOF() RedisOption {
	return WithArgs("--appendonly", "yes", "--appendfsync", "always")
}

// WithMaxMemory limits the data set, as in "4mb"; past it writes are refused.
func WithMaxMemory(limit string) RedisOption {
	return WithArgs("--maxmemory", limit, "--maxmemory-policy", "noeviction")
}

// WithArgs adds arguments to the server's command line.
func WithArgs(args ...string) RedisOption {
	return func(r *Redis) { r.args = append(r.args, args...) }
}

// WithEnv adds variables to the server's environment, written name=value.
func WithEnv(env ...string) RedisOption {
	return func(r *Redis) { r.env = append(r.env, env...) }
}

// Redis is a redis-server process of the test's own, on loopback, with a
// directory that goes with the test. Its methods fail the test on errors. They
// are not safe for concurrent use, except Addr and URL.
type Redis struct {
	t    testing.TB
	dir  string
	port int
	args []string
	env  []string
	// sentinel, if set, is the configuration of a sentinel, which it is then.
	sentinel  string
	clustered bool // a node of a Cluster
	bus       int  // its port for other nodes

	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has been waited for
}

// StartRedis starts a server that keeps nothing on disk unless an option says
// so, waits until it answers, and ends it with the test. A machine without
// redis-server fails the test: skipping would hide that nothing was tested.
func StartRedis(t testing.TB, opts ...RedisOption) *Redis {
	t.Helper()
	r := &Redis{t: t, dir: t.TempDir()}
	for _, o := range opts {
		o(r)
	}
	t.Cleanup(r.Kill)
	var err error
	for range portTries {
		if r.port, err = freePort(); err != nil {
			break
		}
		if r.clustered {
			if r.bus, err = freePort(); err != nil {
				break
			}
		}
		if err = r.launch(); err == nil {
			return r
		}
	}
	t.Fatalf("redis-server did not start: %v", err)
	return nil
}

// Addr is the server's host:port; it stays the same over restarts.
func (r *Redis) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)) }

// URL is the server as a redis:// URL.
func (r *Redis) URL() string { return "redis://" + r.Addr() + "/0" }

// Dir is where the server keeps its files.
func (r *Redis) Dir() string { return r.dir }

// PID is the process id of the running server.
func (r *Redis) PID() int {
	r.t.Helper()
	if r.cmd == nil {
		r.t.Fatal("redis-server is not running")
	}
	return r.cmd.Process.Pid
}

// Start starts a stopped or killed server again, on the same port and files.
func (r *Redis) Start() {
	r.t.Helper()
	if r.cmd != nil {
		r.t.Fatal("redis-server is running already")
	}
	if err := r.launch(); err != nil {
		r.t.Fatalf("redis-server did not start again: %v", err)
	}
}

// Stop ends the server in good order (SIGTERM) and waits for it.
func (r *Redis) Stop() {
	r.t.Helper()
	r.end(syscall.SIGTERM)
}

// Kill ends the server at once (SIGKILL) and waits for it.
func (r *Redis) Kill() {
	r.t.Helper()
	r.end(syscall.SIGKILL)
}

// Restart is Stop and Start.
func (r *Redis) Restart() {
	r.t.Helper()
	r.Stop()
	r.Start()
}

// Pause freezes the server (SIGSTOP): connections stay, nothing answers.
func (r *Redis) Pause() {
	r.t.Helper()
	r.signal(syscall.SIGSTOP)
}

// Resume wakes a paused server.
func (r *Redis) Resume() {
	r.t.Helper()
	r.signal(syscall.SIGCONT)
}

func (r *Redis) signal(s syscall.Signal) {
	r.t.Helper()
	if r.cmd == nil {
		r.t.Fatal("redis-server is not running")
	}
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatalf("signal %v to redis-server: %v", s, err)
	}
}

func (r *Redis) end(s syscall.Signal) {
	r.t.Helper()
	if r.cmd == nil {
		return
	}
	if err := r.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.t.Errorf("signal %v to redis-server: %v", s, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	select {
	case <-r.exited:
	case <-ctx.Done():
		r.t.Errorf("redis-server did not end within %v of %v: killing it", stopLimit, s)
		_ = r.cmd.Process.Kill()
		<-r.exited
	}
	r.cmd = nil
}

// launch starts the process on r.port and waits until it answers.
func (r *Redis) launch() error {
	log, err := os.OpenFile(r.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	args, err := r.commandLine()
	if err != nil {
		return err
	}
	cmd := exec.Command("redis-server", args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), r.env...)
	cmd.SysProcAttr = procAttr()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start redis-server (package redis-server on Debian): %w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is for the log, which a failure shows
		close(exited)
	}()
	r.cmd, r.exited = cmd, exited
	if err := r.awaitAnswer(); err != nil {
		r.end(syscall.SIGKILL)
		return fmt.Errorf("%w; its log ends:\n%s", err, r.logTail())
	}
	return nil
}

// commandLine is what the server is started with. A sentinel wants a file that
// it can write to.
func (r *Redis) commandLine() ([]string, error) {
	if r.sentinel == "" {
		args := []string{
			"--port", strconv.Itoa(r.port), "--bind", "127.0.0.1", "--dir", r.dir, "--save", "",
			"--repl-diskless-sync-delay", "0", // no other replica is to be waited for
		}
		if r.clustered {
			args = append(args, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", strconv.Itoa(r.bus))
		}
		return append(args, r.args...), nil
	}
	path := filepath.Join(r.dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n%s", r.port, r.dir, r.sentinel)
	return []string{path, "--sentinel"}, os.WriteFile(path, []byte(text), 0o600)
}

func (r *Redis) logPath() string { return filepath.Join(r.dir, "redis.log") }

func (r *Redis) logTail() []byte {
	const most = 2000
	log, err := os.ReadFile(r.logPath())
	if err != nil {
		return []byte(err.Error())
	}
	return log[max(0, len(log)-most):]
}

// awaitAnswer returns when the server answers PING, so not while it loads.
func (r *Redis) awaitAnswer() error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	var p polls
	for {
		err := ping(ctx, r.Addr())
		if err == nil {
			return nil
		}
		select {
		case <-r.exited:
			return errors.New("redis-server ended by itself")
		default:
		}
		if p.wait(ctx) != nil {
			return fmt.Errorf("no answer within %v: %w", startLimit, err)
		}
	}
}

func ping(ctx context.Context, addr string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return err
	}
	answer := make([]byte, 64)
	n, err := conn.Read(answer)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(answer[:n], []byte("+PONG")) {
		return fmt.Errorf("answer to PING: %q", answer[:n])
	}
	return nil
}

// FreeAddr is an address of loopback at which nobody listens, now and later, unless the test does: see freePort.
func FreeAddr(t testing.TB) string {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// freePort returns a port that nothing listens on. It is below the range from which systems choose ports of clients and of
// servers that ask for any: there, anybody may take it before the server starts, or while it is stopped.
func freePort() (int, error) {
	const first, last, tries = 10_000, 32_767, 100
	var err error
	for range tries {
		port := first + rand.IntN(last-first+1)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}
