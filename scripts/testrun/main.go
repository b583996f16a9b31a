// Command testrun runs the parts of `make test` and `make soak`, and summarizes them.
//
//	testrun go PART ARGUMENT...      runs go test -json with these arguments
//	testrun exec PART COMMAND...     runs any command
//	testrun summary [PACKAGE...]     prints all parts, the slowest tests and the failures;
//	                                 fails if a test of these packages ran in no part
//
// It prints a line for each package as it ends, the whole output of each test that
// failed, and every half minute the tests that are still running. Each part writes a
// record to build/tests.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// records is the directory of the records, below the root of the module.
const records = "build/tests"

// tickEvery is the interval of progress reports, if there is anything to report.
const tickEvery = 5 * time.Second

var clock = job.SystemClock()

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
	}
	if err != nil || !ok {
		os.Exit(1) //nolint:gocritic // stop only restores the signals
	}
}

// run reports whether all tests passed.
func run(ctx context.Context, args []string, out io.Writer) (ok bool, err error) {
	switch {
	case len(args) >= 3 && args[0] == "go":
		return runPart(ctx, goTest(args[2:]), newProgress(args[1], true, out))
	case len(args) >= 3 && args[0] == "exec":
		return runPart(ctx, args[2:], newProgress(args[1], false, out))
	case len(args) >= 1 && args[0] == "summary":
		return summarize(ctx, records, args[1:], out)
	}
	return false, errors.New("usage: testrun go PART ARGUMENT... | exec PART COMMAND... | summary [PACKAGE...]")
}

// goTest adds -json. The go command requires -C and its directory first.
func goTest(args []string) []string {
	command := []string{"go", "test"}
	if len(args) > 1 && args[0] == "-C" {
		command, args = append(command, args[:2]...), args[2:]
	}
	return append(append(command, "-json"), args...)
}

// runPart runs a command and writes the record of the part.
func runPart(ctx context.Context, command []string, p *progress) (ok bool, err error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // it is the caller's command
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	cmd.Stderr = cmd.Stdout
	began := clock.Now()
	if err := cmd.Start(); err != nil {
		return false, err
	}
	p.read(ctx, pipe)
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return false, err
	}
	p.part.OK, p.part.Seconds = err == nil, clock.Now().Sub(began).Seconds()
	p.part.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	return p.part.OK, p.part.write(records)
}

// read handles lines until the output ends.
func (p *progress) read(ctx context.Context, from io.Reader) {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group.Go(func() {
		for job.Sleep(ctx, clock, tickEvery) == nil {
			p.tick(clock.Now())
		}
	})
	for r := bufio.NewReader(from); ; {
		text, err := r.ReadBytes('\n')
		if len(text) > 0 {
			p.line(text)
		}
		if err != nil {
			return
		}
	}
}
