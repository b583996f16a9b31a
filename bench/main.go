// Bench compares duehook with other queues, and with a minimal pipeline, on the
// machine that it runs on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/duehook/duehook/bench/contender"
	"github.com/duehook/duehook/bench/receiver"
	"github.com/duehook/duehook/bench/scenario"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// run runs the benchmark, or one of the processes that it starts.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "contender":
			return contender.Run(ctx, args[1:], out)
		case "receiver":
			return serveReceiver(ctx, args[1:], out)
		}
	}
	return compare(ctx, args, out)
}

func serveReceiver(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("the receiver takes the file for its certificate")
	}
	return receiver.Serve(ctx, args[0], out)
}

func compare(ctx context.Context, args []string, out io.Writer) error {
	o := scenario.Options{Out: out}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	size := flags.String("size", "default", "how much is measured: "+strings.Join(scenario.SizeNames(), ", "))
	only := flags.String("only", "", "scenarios to run, separated by commas: "+strings.Join(scenario.Names(), ", "))
	without := flags.String("without", "", "contenders to leave out, separated by commas")
	rounds := flags.Int("rounds", 0, "rounds of each measure (0: as the size says)")
	waiting := flags.String("waiting", "", "how many jobs wait in restart, debt, scale and pages, separated by commas (default: as the size says)")
	flags.DurationVar(&o.Budget, "budget", 0, "begin no round after this time (0: no limit)")
	flags.StringVar(&o.Docs, "docs", "", "directory of benchmarks.md, to write the results into")
	flags.StringVar(&o.Persistence, "persistence", "everysec", "of every Redis: its appendfsync (everysec, always, no), or none")
	flags.IntVar(&o.Workers, "workers", 256, "requests at a time, of all but River")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o.Only, o.Without = list(*only), list(*without)
	var err error
	if o.Size, err = scenario.SizeOf(*size); err != nil {
		return err
	}
	if *rounds > 0 {
		o.Size.Rounds = *rounds
	}
	if *waiting != "" {
		if o.Size.Waiting, err = numbers(*waiting); err != nil {
			return err
		}
		o.Size.Restart = o.Size.Waiting
	}
	return scenario.Run(ctx, o)
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func numbers(s string) ([]int, error) {
	var all []int
	for _, text := range list(s) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no number of jobs", text)
		}
		all = append(all, n)
	}
	return all, nil
}
