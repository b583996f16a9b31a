package contender

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/duehook/duehook/bench/system"
)

// readyLine is what a child prints when it delivers.
const readyLine = "contender is ready"

// child is a contender that is compiled into this program, which runs itself
// again to be its process.
type child struct {
	setup     *Setup
	processes []*system.Process
}

// start starts as many processes as the setup wants.
func (c *child) start(ctx context.Context, name, storeURL string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for range max(1, c.setup.Nodes) {
		cmd := exec.Command(self, "contender", name, //nolint:gosec,noctx // ourselves; Stop ends it
			"-store", storeURL, "-workers", strconv.Itoa(c.setup.Workers), "-again", c.setup.Again.String())
		cmd.Env = c.setup.environ()
		p, err := system.Start(ctx, name, cmd, func(line string) bool { return line == readyLine })
		if err != nil {
			return err
		}
		c.processes = append(c.processes, p)
	}
	return nil
}

func (c *child) stop() error {
	var errs []error
	for _, p := range c.processes {
		errs = append(errs, p.Stop())
	}
	c.processes = nil
	return errors.Join(errs...)
}

// environ is the environment of contenders.
func (s *Setup) environ() []string {
	env := cleanEnviron()
	if s.CertFile != "" {
		env = append(env, "SSL_CERT_FILE="+s.CertFile)
	}
	return env
}

// options are the flags of a child.
type options struct {
	storeURL string
	workers  int
	again    time.Duration
	jobs     int // how many carry is to carry
	out      io.Writer
}

// ready reports to the parent that jobs are delivered from now on.
func (o *options) ready() error {
	_, err := fmt.Fprintln(o.out, readyLine)
	return err
}

// Run is the process of a child: it delivers until ctx ends.
func Run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("a contender has to be named")
	}
	o := options{out: out}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&o.storeURL, "store", "", "URL of the store")
	flags.IntVar(&o.workers, "workers", 1, "requests at a time")
	flags.DurationVar(&o.again, "again", 0, "when a failed delivery is tried again")
	flags.IntVar(&o.jobs, "jobs", 0, "how many jobs to carry")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	run, ok := children[args[0]]
	if !ok {
		return fmt.Errorf("there is no contender %q", args[0])
	}
	return run(ctx, &o)
}

var children = map[string]func(context.Context, *options) error{
	Limit: runLimit,
	Asynq: runAsynq,
	River: runRiver,
	Echo:  runEcho,
	carry: runCarry,
}
