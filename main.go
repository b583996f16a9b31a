// Duehook is a webhook-dispatching delay scheduler.
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/node"
	"github.com/duehook/duehook/node/config"
	"github.com/duehook/duehook/node/demo"
)

// version is set by the linker: -ldflags "-X main.version=1.2.3".
var version string

//go:embed testdata/demo/*.json
var testdata embed.FS

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2 // or a verification could not finish
)

const usage = `duehook is a delay scheduler for webhooks.

Usage:
  duehook serve [flags]    run the server
  duehook demo             run two stories with real callbacks on a fast clock
  duehook config [flags]   print each setting with its origin
  duehook apikey new       create an API key; "duehook apikey --help" lists its flags
  duehook ledger verify [flags]
                           compare the journal with the store and print the differences
  duehook backup dir [flags]
                           copy the data of an embedded node, running or not, to a new directory
  duehook reshard --shards n [flags]
                           move the jobs on Redis to n shards; stop all nodes first
  duehook version          print the version
  duehook help             print this text and the settings

Settings (of serve, config, backup, ledger verify and reshard):

`

func main() {
	// A second signal is not caught: it ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	os.Exit(exitCode(err, os.Stderr))
}

// run runs the command that args name.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) error {
	command := "help"
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	switch command {
	case "serve":
		return withSettings(args, environ, stdout, func(c *config.Config) error { return serve(ctx, c, stderr) })
	case "config":
		return withSettings(args, environ, stdout, func(c *config.Config) error { return c.Print(stdout) })
	case "ledger":
		return verifyLedger(ctx, args, environ, stdout)
	case "backup":
		if len(args) == 0 || strings.HasPrefix(args[0], "-") {
			return &config.UsageError{Message: "backup names its directory first: duehook backup dir [flags]"}
		}
		return withSettings(args[1:], environ, stdout, func(c *config.Config) error { return node.Backup(ctx, c, args[0], stdout) })
	case "reshard":
		return withSettings(args, environ, stdout, func(c *config.Config) error { return node.Reshard(ctx, c, stdout) })
	case "apikey":
		return apikey(args, stdout)
	case "demo":
		return withoutFlags(command, args, stdout, func() error { return runDemo(ctx, stdout) })
	case "version", "--version":
		return withoutFlags(command, args, stdout, func() error {
			_, err := fmt.Fprintln(stdout, node.VersionDetails(node.Version(version)))
			return err
		})
	case "help", "--help", "-h":
		return printHelp(stdout)
	}
	if strings.HasPrefix(command, "-") {
		return &config.UsageError{Message: "the command comes first: duehook serve " + command + " …"}
	}
	return &config.UsageError{Message: fmt.Sprintf("unknown command %q", command)}
}

// uncheckedError reports why journal and store could not be compared.
type uncheckedError struct{ cause error }

func (e *uncheckedError) Error() string { return "could not verify: " + e.cause.Error() }
func (e *uncheckedError) Unwrap() error { return e.cause }

func verifyLedger(ctx context.Context, args, environ []string, stdout io.Writer) error {
	if len(args) == 0 || args[0] != "verify" {
		return &config.UsageError{Message: "ledger has one command: duehook ledger verify [flags]"}
	}
	return withSettings(args[1:], environ, stdout, func(c *config.Config) error {
		n, err := node.VerifyLedger(ctx, c, stdout)
		switch {
		case err != nil:
			return &uncheckedError{err}
		case n > 0:
			return fmt.Errorf("%d differences between the journal and the store", n)
		}
		return nil
	})
}

func apikey(args []string, stdout io.Writer) error {
	err := access.Command(args, job.SystemClock(), stdout)
	if wrong, ok := errors.AsType[*access.UsageError](err); ok {
		return &config.UsageError{Message: wrong.Message}
	}
	return err
}

func withSettings(args, environ []string, stdout io.Writer, do func(*config.Config) error) error {
	c, err := config.Load(args, environ)
	switch {
	case errors.Is(err, config.ErrHelp):
		return printHelp(stdout)
	case err != nil:
		return err
	}
	return do(c)
}

func withoutFlags(command string, args []string, stdout io.Writer, do func() error) error {
	switch {
	case len(args) == 0:
		return do()
	case args[0] == "--help" || args[0] == "-h":
		return printHelp(stdout)
	}
	return &config.UsageError{Message: fmt.Sprintf("unexpected argument %q: %s takes none", args[0], command)}
}

func printHelp(w io.Writer) error {
	_, err := io.WriteString(w, usage+config.Usage())
	return err
}

func serve(ctx context.Context, c *config.Config, stderr io.Writer) error {
	node.KeepHeapFloor()
	log := node.NewLogger(c, stderr)
	// What libraries write to the standard log, such as net/http about unsolicited
	// answers, only matters for debugging.
	slog.SetLogLoggerLevel(slog.LevelDebug)
	slog.SetDefault(log)
	v := node.Version(version)
	return node.Run(ctx, node.Options{
		Config: c, Logger: log, Version: v,
		Ready:   func(base string) { node.Announce(c, v, base, stderr, log) },
		Waiting: func(base string, err error) { node.AnnounceWaiting(c, v, base, log, err) },
	})
}

func runDemo(ctx context.Context, stdout io.Writer) error {
	jobs, err := fs.Sub(testdata, "testdata/demo")
	if err != nil {
		return err
	}
	color := node.IsTerminal(stdout) && os.Getenv("NO_COLOR") == ""
	return demo.Run(ctx, demo.Options{Jobs: jobs, Out: stdout, Color: color, Version: node.Version(version)})
}

// exitCode prints an error and returns the exit code for it.
func exitCode(err error, stderr io.Writer) int {
	var wrong *config.UsageError
	var unchecked *uncheckedError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &unchecked):
		_, _ = fmt.Fprintf(stderr, "duehook: %v\n", err)
		return exitUsage
	case errors.As(err, &wrong):
		_, _ = fmt.Fprintf(stderr, "duehook: %v\nSee duehook help.\n", err)
		return exitUsage
	}
	_, _ = fmt.Fprintf(stderr, "duehook: %v\n", err)
	return exitFailure
}
