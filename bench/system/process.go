// Package system runs the processes that a benchmark needs and reads from the
// kernel what they cost.
package system

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	startLimit = 5 * time.Minute // a node may have a million jobs to put back first
	stopLimit  = 30 * time.Second
	// outputDelay is how long the output of children that outlive a process is
	// waited for.
	outputDelay = time.Second
)

// Process is a running program. It is not safe for concurrent use.
type Process struct {
	name   string
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has been waited for
	output output
}

// Start starts a program and returns when a line of its output says that it is
// ready.
func Start(ctx context.Context, name string, cmd *exec.Cmd, ready func(line string) bool) (*Process, error) {
	serving := make(chan struct{})
	p := &Process{name: name, cmd: cmd, exited: make(chan struct{}), output: output{ready: ready, serving: serving}}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	cmd.WaitDelay = outputDelay
	cmd.SysProcAttr = procAttr()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		close(p.exited)
	}()
	limit, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	select {
	case <-serving:
		return p, nil
	case <-p.exited:
		return nil, fmt.Errorf("%s ended before it was ready: %v\n%s", name, cmd.ProcessState, p.output.last())
	case <-limit.Done():
		return nil, errors.Join(fmt.Errorf("%s: %w", name, limit.Err()), p.Kill())
	}
}

// output takes what a process writes, line by line.
type output struct {
	mu      sync.Mutex
	partial []byte   // of a line
	tail    []string // the last lines
	ready   func(string) bool
	serving chan<- struct{} // nil once closed
}

// Write never fails.
func (o *output) Write(b []byte) (int, error) {
	const kept = 20
	o.mu.Lock()
	defer o.mu.Unlock()
	o.partial = append(o.partial, b...)
	for {
		line, rest, found := bytes.Cut(o.partial, []byte("\n"))
		if !found {
			return len(b), nil
		}
		o.partial = rest
		o.tail = append(o.tail[max(0, len(o.tail)-kept+1):], string(line))
		if o.serving != nil && o.ready(string(line)) {
			close(o.serving)
			o.serving = nil
		}
	}
}

// last is how the output ends so far.
func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.tail, "\n")
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop asks the process to end (SIGTERM), and insists after a while.
func (p *Process) Stop() error { return p.end(syscall.SIGTERM) }

// Kill ends the process at once.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL) }

func (p *Process) end(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", p.name, err)
	}
	limit, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	select {
	case <-p.exited:
		return nil
	case <-limit.Done():
	}
	err := p.cmd.Process.Kill()
	<-p.exited
	return errors.Join(fmt.Errorf("%s did not end within %v:\n%s", p.name, stopLimit, p.output.last()), err)
}

// FreeAddress is a loopback address at which nobody listens.
func FreeAddress(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
