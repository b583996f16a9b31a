package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// SQLServer is a process of an SQL server of the tests' own, on loopback, with
// a directory of its own. It is not safe for concurrent use, except URL.
type SQLServer struct {
	name string // of the program, in messages
	dir  string
	port int
	// program gives the program with its arguments; ready reports whether it
	// answers by now.
	program func() (string, []string)
	ready   func(ctx context.Context) error
	url     func(database string) string
	// credential is who runs it; nil is the user of the tests.
	credential *syscall.Credential
	// env is added to the environment of the server.
	env []string

	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has been waited for
	killed bool          // while it served
}

// errEnded: the server ended before it answered.
var errEnded = errors.New("ended by itself")

// URL of a database on the server.
func (s *SQLServer) URL(database string) string { return s.url(database) }

// Addr is the server's host:port; it stays the same over restarts.
func (s *SQLServer) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// PID is the process id of the running server.
func (s *SQLServer) PID() int { return s.cmd.Process.Pid }

// Close ends the server at once and deletes its directory.
func (s *SQLServer) Close() error {
	return errors.Join(s.Kill(), os.RemoveAll(s.dir))
}

// Kill ends the server at once (SIGKILL) and waits for it.
func (s *SQLServer) Kill() error {
	if s.cmd == nil {
		return nil
	}
	err := s.cmd.Process.Kill()
	<-s.exited
	s.cmd, s.killed = nil, true
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Shutdown asks the server to end, in the way that the signal means to it, and waits for it.
func (s *SQLServer) Shutdown(how syscall.Signal) error {
	if err := s.cmd.Process.Signal(how); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.exited
	s.cmd = nil
	return nil
}

// Ended reports whether the server has ended by itself. Start may follow.
func (s *SQLServer) Ended() bool {
	select {
	case <-s.exited:
		s.cmd, s.killed = nil, true
		return true
	default:
		return s.cmd == nil
	}
}

// Freeze stops all processes of the server where they stand; Thaw resumes them.
func (s *SQLServer) Freeze() error { return s.signalAll(syscall.SIGSTOP) }

// Thaw resumes what Freeze stopped.
func (s *SQLServer) Thaw() error { return s.signalAll(syscall.SIGCONT) }

// signalAll signals the server first, so that it starts no other process meanwhile, and then its children.
func (s *SQLServer) signalAll(how syscall.Signal) error {
	if err := s.cmd.Process.Signal(how); err != nil {
		return err
	}
	pids, err := s.pids()
	for _, pid := range pids[1:] {
		if failed := syscall.Kill(pid, how); failed != nil && !errors.Is(failed, syscall.ESRCH) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// LimitFiles bounds the size of files that the server can write, in bytes, as a full disk would; "unlimited" ends that. The server's own user
// may do so without a right.
func (s *SQLServer) LimitFiles(size string) error {
	pids, err := s.pids()
	for _, pid := range pids {
		failed := s.run("prlimit", "--pid", strconv.Itoa(pid), "--fsize="+size+":unlimited")
		if failed != nil && !strings.Contains(failed.Error(), "No such process") {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// pids are those of the server and its children.
func (s *SQLServer) pids() ([]int, error) {
	pids := []int{s.PID()}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", s.PID(), s.PID()))
	for field := range strings.FieldsSeq(string(children)) {
		pid, bad := strconv.Atoi(field)
		err = errors.Join(err, bad)
		pids = append(pids, pid)
	}
	return pids, err
}

// Start starts the server, again if it was killed, on the same port and files,
// and waits until it answers.
func (s *SQLServer) Start() error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	var p polls
	for {
		err := s.start(ctx)
		// PostgreSQL refuses to start while a process of the killed server still runs.
		if !s.killed || !errors.Is(err, errEnded) || p.wait(ctx) != nil {
			return err
		}
	}
}

func (s *SQLServer) start(ctx context.Context) error {
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	program, args := s.program()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.SysProcAttr = procAttr()
	cmd.SysProcAttr.Credential = s.credential
	if s.env != nil {
		cmd.Env = append(os.Environ(), s.env...)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is for the log, which a failure shows
		close(exited)
	}()
	s.cmd, s.exited = cmd, exited
	if err := s.awaitAnswer(ctx); err != nil {
		killed := s.killed
		err = errors.Join(fmt.Errorf("%w; its log ends:\n%s", err, s.logTail()), s.Kill())
		s.killed = killed
		return err
	}
	return nil
}

// startNew prepares and starts a new server in a directory of its own.
func (s *SQLServer) startNew(prepare func() error) (*SQLServer, error) {
	var err error
	if s.dir, err = os.MkdirTemp("", "duehook-"+s.name+"-"); err != nil {
		return nil, err
	}
	if s.credential != nil {
		err = os.Chown(s.dir, int(s.credential.Uid), int(s.credential.Gid))
	}
	if err == nil {
		err = prepare()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	for range portTries { // another process may take the port first
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.Start(); err == nil || !errors.Is(err, errEnded) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *SQLServer) logPath() string { return filepath.Join(s.dir, "server.log") }

// Log is what the server has logged.
func (s *SQLServer) Log() ([]byte, error) { return os.ReadFile(s.logPath()) }

func (s *SQLServer) logTail() []byte {
	const most = 2000
	log, err := os.ReadFile(s.logPath())
	if err != nil {
		return []byte(err.Error())
	}
	return log[max(0, len(log)-most):]
}

func (s *SQLServer) awaitAnswer(ctx context.Context) error {
	var p polls
	for {
		err := s.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("%s %w", s.name, errEnded)
		default:
		}
		if p.wait(ctx) != nil {
			return fmt.Errorf("no answer within %v: %w", startLimit, err)
		}
	}
}

// run runs a program that prepares a server.
func (s *SQLServer) run(program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, out)
	}
	return nil
}

// unprivileged is whom a server runs as that refuses root: the first of names
// that the system has, or nobody else than the tests if they are not root.
func unprivileged(names ...string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("none of the users %v exists", names)
}
