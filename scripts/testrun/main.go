// Command testrun runs the parts of `make test` and `make soak`, and sums them up.
//
//	testrun go PART ARGUMENT...      runs go test -json with these arguments
//	testrun exec PART COMMAND...     runs any command
//	testrun summary                  prints all parts, the slowest tests and the failures
//
// It prints a line for each package as it ends, the whole output of each test that
// failed, and every half minute the tests that are still running. Each part leaves a
// record in build/tests.
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
	"syscall"
	"time"

	"github.com/duehook/duehook/job"
)

// records is the directory of the records, below the root of the module.
const records = "build/tests"

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
		return runPart(ctx, args[1], goTest(args[2:]), newEvents(args[1], out))
	case len(args) >= 3 && args[0] == "exec":
		return runPart(ctx, args[1], args[2:], &lines{part: args[1], out: out})
	case len(args) == 1 && args[0] == "summary":
		return summarize(records, out)
	}
	return false, errors.New("usage: testrun go PART ARGUMENT... | exec PART COMMAND... | summary")
}

// goTest adds -json. The go command wants -C and its directory first.
func goTest(args []string) []string {
	command := []string{"go", "test"}
	if len(args) > 1 && args[0] == "-C" {
		command, args = append(command, args[:2]...), args[2:]
	}
	return append(append(command, "-json"), args...)
}

// reader takes the output of a command, line by line.
type reader interface {
	line(text []byte)
	// tick is called every few seconds while the command runs.
	tick(now time.Time)
	// end adds what was read to the record of the part.
	end(p *part)
}

// runPart runs a command and leaves the record of the part.
func runPart(ctx context.Context, name string, command []string, r reader) (ok bool, err error) {
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
	read(ctx, pipe, r)
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return false, err
	}
	p := part{
		Name: name, OK: err == nil, Seconds: clock.Now().Sub(began).Seconds(),
		CPU: (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(),
	}
	r.end(&p)
	return p.OK, p.write(records)
}

// tickEvery is how often a reader can report progress.
const tickEvery = 5 * time.Second

// read passes lines on until the output ends.
func read(ctx context.Context, from io.Reader, to reader) {
	texts := make(chan []byte)
	go func() {
		defer close(texts)
		r := bufio.NewReader(from)
		for {
			text, err := r.ReadBytes('\n')
			if len(text) > 0 {
				texts <- text
			}
			if err != nil {
				return
			}
		}
	}()
	ticker, stop := newTicker(ctx)
	defer stop()
	for {
		select {
		case text, more := <-texts:
			if !more {
				return
			}
			to.line(text)
		case <-ticker:
			to.tick(clock.Now())
		}
	}
}

func newTicker(ctx context.Context) (ticks <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	out, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for job.Sleep(ctx, clock, tickEvery) == nil {
			select {
			case out <- struct{}{}:
			case <-ctx.Done():
			}
		}
	}()
	return out, func() {
		cancel()
		<-done
	}
}

// lines prints each line with the name of the part.
type lines struct {
	part string
	out  io.Writer
}

func (l *lines) line(text []byte) { _, _ = fmt.Fprintf(l.out, "%-9s %s", l.part, text) }
func (l *lines) tick(time.Time)   {}
func (l *lines) end(*part)        {}
