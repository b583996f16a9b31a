// Duehook is a webhook-dispatching delay scheduler.
package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/duehook/duehook/internal/cli"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/nearest"
	"github.com/duehook/duehook/internal/node"
	"github.com/duehook/duehook/internal/node/config"
	"github.com/duehook/duehook/internal/node/demo"
	"github.com/duehook/duehook/internal/node/dev"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/store/walk"
)

// version is set by the linker: -ldflags "-X main.version=1.2.3".
var version string

//go:embed testdata/demo/*.json
var testdata embed.FS

const about = `duehook is a delay scheduler for webhooks.

  duehook demo                        two stories with real deliveries, in a minute
  duehook dev                         a server in memory for tests, which control its clock
  duehook serve                       run the server; duehook serve --help lists its settings
  duehook send URL --in 30m           register a job
  duehook get TOPIC/ID                look at it; duehook explain TOPIC/ID says why it waits
  duehook ls state:dead               search jobs; duehook topics, dead, endpoints show more
  duehook help                        all commands
`

// serverUsage precedes the settings in the help of the commands that take them.
const serverUsage = `Settings of serve, config, doctor, backup and reshard:

`

func main() {
	if zone := zoneOf(os.Getenv("TZ")); zone != nil {
		time.Local = zone
	}
	// A second signal is not caught: it ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	os.Exit(cli.ExitCode(err, slices.Contains(os.Args[1:], "--json"), os.Stderr))
}

// zoneOf is the zone that the variable TZ names, also on a machine without time zones, such as a
// container of ours. It is nil if Go's own rules decide.
func zoneOf(name string) *time.Location {
	zone, _ := schedule.Zone(strings.TrimPrefix(name, ":"))
	return zone
}

// run runs the command that args name.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) error {
	root := commands(environ, stdout, stderr)
	args = ofStore(args)
	root.SetArgs(args)
	if err := unknownCommand(root, misnamed(root, args)); err != nil { // before a flag of it is unknown
		return err
	}
	cmd, err := root.ExecuteContextC(ctx)
	if wrong, ok := errors.AsType[*config.UsageError](err); ok {
		err = &cli.UsageError{Message: wrong.Error()}
	}
	if usage, ok := errors.AsType[*cli.UsageError](err); ok {
		_, usage.Command, _ = strings.Cut(cmd.CommandPath(), " ")
	}
	return err
}

// ofStore has export --all and import --all name the commands that open the store itself: they take the settings of its nodes.
func ofStore(args []string) []string {
	if at := slices.Index(args, "--all"); at > 0 && (args[0] == "export" || args[0] == "import") {
		return slices.Concat([]string{args[0] + "-all"}, args[1:at], args[at+1:])
	}
	return args
}

// commands are all commands.
func commands(environ []string, stdout, stderr io.Writer) *cobra.Command {
	v := node.Version(version)
	root := &cobra.Command{
		Use: "duehook", SilenceErrors: true, SilenceUsage: true,
		Args: unknownCommand,
	}
	// Cobra's own flag needs a template, whose calls by name make the linker keep every
	// method of the program.
	tellVersion := root.Flags().BoolP("version", "v", false, "version for duehook")
	root.RunE = func(*cobra.Command, []string) error {
		text := about
		if *tellVersion {
			text = node.BuildOf(v).String() + "\n"
		}
		_, err := io.WriteString(stdout, text)
		return err
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddGroup(&cobra.Group{ID: "server", Title: "The server:"}, &cobra.Group{ID: "client", Title: "Calls of a running server:"}, &cobra.Group{ID: "tools", Title: "Tools:"})
	root.SetHelpCommandGroupID("tools")
	root.SetCompletionCommandGroupID("tools")
	root.AddCommand(serverCommands(environ, stdout, stderr)...)
	configDir, _ := os.UserConfigDir() // without one, contexts are in the working directory
	root.AddCommand(cli.New(cli.Options{
		Clock: job.SystemClock(), In: os.Stdin, Out: stdout, Err: stderr, Environ: environ, ConfigDir: configDir, Version: v,
		Interactive: node.IsTerminal(stderr) && node.IsTerminal(os.Stdin), Columns: func() int { return columns(stderr) },
	})...)
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil { // without this, it takes a wrong shell for a call for help
		completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	root.SetFlagErrorFunc(unknownFlag)
	refuseArguments(root)
	return root
}

// columns is the width of the terminal that w is; 80 if it is not known.
func columns(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 1 {
			return width
		}
	}
	return 80
}

// misnamed is the first word of args if it should name a command, and does not.
func misnamed(root *cobra.Command, args []string) []string {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") || strings.HasPrefix(args[0], "__") { // cobra's own, for completion
		return nil
	}
	root.InitDefaultHelpCmd()
	if found, _, err := root.Find(args); err != nil || found != root {
		return nil
	}
	return args[:1]
}

// unknownCommand refuses arguments of the root, which are no commands.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	message := fmt.Sprintf("unknown command %q", args[0])
	return &cli.UsageError{Message: message + nearest.Hint(args[0], namesBelow(cmd), "")}
}

// namesBelow are the names of the commands of a command.
func namesBelow(cmd *cobra.Command) (names []string) {
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return names
}

// unknownFlag suggests the flag that was meant.
func unknownFlag(cmd *cobra.Command, err error) error {
	message := err.Error()
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		message += nearest.Hint(unknown.GetSpecifiedName(), names, "--")
	}
	return &cli.UsageError{Message: message}
}

// refuseArguments has wrong arguments of all commands be usage errors.
func refuseArguments(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err == nil || errors.As(err, new(*cli.UsageError)) || errors.As(err, new(*config.UsageError)) {
				return err
			}
			if cmd.HasSubCommands() {
				names := namesBelow(cmd)
				return &cli.UsageError{Message: fmt.Sprintf("unknown command %q: write %s and one of %s%s",
					args[0], cmd.CommandPath(), strings.Join(names, ", "), nearest.Hint(args[0], names, ""))}
			}
			return &cli.UsageError{Message: fmt.Sprintf("%v: the command is %s", err, cmd.UseLine())}
		}
	}
	for _, sub := range cmd.Commands() {
		refuseArguments(sub)
	}
}

// serverCommands are those of the machine that a server runs on.
func serverCommands(environ []string, stdout, stderr io.Writer) []*cobra.Command {
	out := &printer{w: stdout}
	apikey := &cobra.Command{Use: "apikey", Short: "Create an API key for the settings of a server", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		return &cli.UsageError{Message: "apikey has one command: duehook apikey new --scope read|write|admin|consume [flags]"}
	}}
	apikey.AddCommand(out.takes(newKey(out)))
	all := []*cobra.Command{
		withSettings("serve", "Run the server", environ, stdout, func(ctx context.Context, c *config.Config) error { return serve(ctx, c, stderr) }),
		{Use: "demo", Short: "Run two stories with real deliveries on a fast clock", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			return runDemo(cmd.Context(), stdout)
		}},
		devServer(stdout, stderr),
		showConfig(environ, stdout),
		apikey,
		out.takes(backup(environ, stdout, out)),
		doctor(environ, stdout),
		out.takes(exportAll(environ, stdout, stderr, out)),
		out.takes(importAll(environ, stdout, stderr, out)),
		out.takes(withSettings("resume", "Resume the deliveries that serve --start-paused holds, on all nodes", environ, stdout, func(ctx context.Context, c *config.Config) error {
			done, err := node.Resume(ctx, c)
			if err != nil {
				return err
			}
			return out.show(done)
		})),
		out.takes(withSettings("reshard", "Move the jobs on Redis to another number of shards; stop all nodes first", environ, stdout, func(ctx context.Context, c *config.Config) error {
			progress := stdout
			if out.json {
				progress = io.Discard
			}
			done, err := node.Reshard(ctx, c, progress)
			if err != nil {
				return err
			}
			return out.show(done)
		})),
		out.takes(&cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
			return out.show(node.BuildOf(node.Version(version)))
		}}),
	}
	for _, c := range all {
		c.GroupID = "server"
	}
	return all
}

// printer prints what a command did, as text or in JSON.
type printer struct {
	w    io.Writer
	json bool
}

// takes has a command take --json.
func (p *printer) takes(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&p.json, "json", false, "print JSON, one object a line")
	return cmd
}

func (p *printer) show(v fmt.Stringer) error {
	if p.json {
		return json.NewEncoder(p.w).Encode(v)
	}
	_, err := fmt.Fprintln(p.w, v)
	return err
}

// backup takes a directory beside the settings.
func backup(environ []string, stdout io.Writer, out *printer) *cobra.Command {
	cmd := settled("Copy the data of an embedded node, running or not, to a new directory", environ, stdout, func(cmd *cobra.Command, c *config.Config) error {
		done, err := node.Backup(cmd.Context(), c, cmd.Flags().Arg(0))
		if err != nil {
			return err
		}
		return out.show(done)
	})
	cmd.Use = "backup DIR [flags]"
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return &cli.UsageError{Message: "backup names one directory: duehook backup dir [flags]"}
		}
		return nil
	}
	return cmd
}

// exportAll writes a whole store to a file or to standard output.
func exportAll(environ []string, stdout, stderr io.Writer, out *printer) *cobra.Command {
	cmd := settled("Write all that a store has, for import --all; stop its nodes first", environ, stdout, func(cmd *cobra.Command, c *config.Config) error {
		to := stdout
		name := cmd.Flags().Arg(0)
		if name == "" || name == "-" {
			out.w = stderr // the walk is on standard output
		} else {
			file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			defer file.Close() //nolint:errcheck // what was written is synced
			to = file
		}
		done, err := node.ExportAll(cmd.Context(), c, node.Version(version), to, progressOf(out, stderr))
		if file, is := to.(*os.File); is && to != stdout {
			if err == nil {
				err = file.Sync()
			}
			if err != nil {
				return errors.Join(err, os.Remove(name))
			}
		}
		if err != nil {
			return err
		}
		return out.show(done)
	})
	cmd.Use, cmd.Hidden, cmd.Args = "export-all [FILE] [flags]", true, oneFile
	cmd.Long = "duehook export --all writes jobs with their attempts, counts and turns, topics, schedules, groups, rules, keys and signing secrets, which stay\n" +
		"sealed with the master key. Its settings name the store. The file has bodies of jobs: only its owner can read it.\n\n"
	return cmd
}

// importAll fills an empty store with an export of another one.
func importAll(environ []string, stdout, stderr io.Writer, out *printer) *cobra.Command {
	cmd := settled("Fill an empty store with what export --all wrote", environ, stdout, func(cmd *cobra.Command, c *config.Config) error {
		from := io.Reader(os.Stdin)
		if name := cmd.Flags().Arg(0); name != "" && name != "-" {
			file, err := os.Open(name)
			if err != nil {
				return err
			}
			defer file.Close() //nolint:errcheck // it is only read
			if err := walk.CheckEnd(file); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			from = file
		}
		done, err := node.ImportAll(cmd.Context(), c, from, progressOf(out, stderr))
		if err != nil {
			return err
		}
		return out.show(done)
	})
	cmd.Use, cmd.Hidden, cmd.Args = "import-all [FILE] [flags]", true, oneFile
	cmd.Long = "duehook import --all needs an empty store, whose nodes are stopped. Its settings name the store. When it breaks off, the store is held: no node\n" +
		"delivers. Run it again with the same file to continue.\n\n"
	return cmd
}

// oneFile takes one argument at most.
func oneFile(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return config.Unexpected(args[1])
	}
	return nil
}

// progressOf is where progress goes: nowhere with --json.
func progressOf(out *printer, w io.Writer) io.Writer {
	if out.json {
		return io.Discard
	}
	return w
}

// showConfig prints the settings.
func showConfig(environ []string, stdout io.Writer) *cobra.Command {
	var asJSON bool
	cmd := settled("Print each setting with its origin", environ, stdout, func(_ *cobra.Command, c *config.Config) error {
		return c.Print(stdout, asJSON)
	})
	cmd.Use = "config [--json] [flags]"
	cmd.Long = "With --json, each setting is one line of JSON.\n\n"
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each setting as JSON, one a line")
	return cmd
}

// doctor prints what Doctor found.
func doctor(environ []string, stdout io.Writer) *cobra.Command {
	var asJSON, deep bool
	cmd := settled("Check what a server with these settings needs, and say what to do", environ, stdout, func(cmd *cobra.Command, c *config.Config) error {
		findings := node.Doctor(cmd.Context(), c, job.SystemClock(), deep)
		count := map[string]int{}
		lines := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		for _, f := range findings {
			count[f.Status]++
			if asJSON {
				if err := json.NewEncoder(stdout).Encode(f); err != nil {
					return err
				}
				continue
			}
			_, _ = fmt.Fprintf(lines, "%s\t%s\t%s\n", f.Status, f.Check, f.Message) // Flush returns the error
		}
		if err := lines.Flush(); err != nil {
			return err
		}
		switch wrong, missing := count[node.FoundProblem], count[node.FoundUnreachable]; {
		case missing > 0:
			return &cli.UncheckedError{Cause: fmt.Errorf("checks that could not be made: %d; problems found: %d", missing, wrong)}
		case wrong > 0:
			return fmt.Errorf("problems found: %d", wrong)
		}
		return nil
	})
	cmd.Use = "doctor [--deep] [--json] [flags]"
	cmd.Long = "It changes nothing. With --json, each finding is one line of JSON. The exit code is 0 without problems,\n" +
		"1 with problems, 2 with invalid settings, and 4 if the store cannot be reached or read.\n\n"
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each finding as JSON, one a line")
	cmd.Flags().BoolVar(&deep, "deep", false, "read all jobs of the data directory; its node must be stopped")
	return cmd
}

// madeKey is what newKey prints. Each line begins with a word for scripts.
type madeKey struct {
	Token string `json:"token"`
	Line  string `json:"line"`
}

func (k madeKey) String() string { return "token " + k.Token + "\nline  " + k.Line }

// newKey makes an API key, and stores it nowhere.
func newKey(out *printer) *cobra.Command {
	var d access.Draft
	namespace := access.DefaultNamespace
	cmd := &cobra.Command{Use: "new", Short: "Print a token for a client, and the line of its key for --api-keys", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		now := job.InstantOf(job.SystemClock().Now())
		if after, err := job.ParseDuration(d.ExpiresAt); err == nil {
			d.ExpiresAt = now.Add(after).RFC3339()
		}
		if err := job.CheckName(namespace); err != nil {
			return &config.UsageError{Message: "--namespace " + err.Error()}
		}
		token, key, err := d.Key(namespace, now)
		if wrong, ok := errors.AsType[*job.ValidationError](err); ok {
			var lines []string
			for _, f := range wrong.Fields {
				lines = append(lines, "--"+strings.TrimSuffix(string(f.Field), "_at")+" "+f.Message)
			}
			return &config.UsageError{Message: strings.Join(lines, "\n")}
		}
		return out.show(madeKey{token.Reveal(), key.Line()})
	}}
	flags := cmd.Flags()
	flags.StringVar(&d.Scope, "scope", "", "read, write or admin, each of which includes the ones before it; or consume, to fetch jobs from pull queues")
	flags.StringVar(&d.Name, "name", "", "a label for the key")
	flags.StringVar(&namespace, "namespace", namespace, "namespace of the servers that accept the key")
	flags.StringVar(&d.ExpiresAt, "expires", "", "a time such as 2027-01-31T00:00:00Z, or a duration from now such as 90d; by default never")
	flags.StringSliceVar(&d.Topics, "topics", nil, "topics to which the key is restricted, such as orders-*,payments; by default all")
	flags.StringVar(&d.Rate, "rate", "", "rate limit, such as 100/1s; by default that of the server")
	return cmd
}

// withSettings is a command that takes the settings of a server.
func withSettings(name, short string, environ []string, stdout io.Writer, do func(context.Context, *config.Config) error) *cobra.Command {
	cmd := settled(short, environ, stdout, func(cmd *cobra.Command, c *config.Config) error { return do(cmd.Context(), c) })
	cmd.Use = name + " [flags]"
	return cmd
}

// settled is a command that takes the settings of a server from flags, the environment and a file,
// and no arguments. The caller names it.
func settled(short string, environ []string, stdout io.Writer, do func(*cobra.Command, *config.Config) error) *cobra.Command {
	environ = slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(cli.Variables, name)
	})
	cmd := &cobra.Command{Short: short, DisableFlagsInUseLine: true}
	flags := config.AddFlags(cmd.Flags())
	for name, choices := range config.Choices() {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	}
	_ = cmd.MarkFlagDirname("data-dir")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return config.FlagError(err) })
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return config.Unexpected(args[0])
		}
		return nil
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		_, _ = fmt.Fprintf(stdout, "%s.\n\n%sUsage:\n  %s\n\n%s%s", short, cmd.Long, cmd.UseLine(), serverUsage, config.Usage())
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := flags.Load(environ)
		if err != nil {
			return err
		}
		return do(cmd, c)
	}
	return cmd
}

// devServer takes the settings of serve as flags. It does not read the environment.
func devServer(stdout, stderr io.Writer) *cobra.Command {
	var frozen bool
	cmd := withSettings("dev", "Run a server in memory for tests, which control its clock and read what receivers got", dev.Environ, stdout, func(ctx context.Context, c *config.Config) error {
		if err := dev.Complete(c); err != nil {
			return err
		}
		v := node.Version(version)
		return node.Run(ctx, node.Options{
			Config: c, Logger: logger(c, stderr), Version: v, Dev: dev.New(frozen),
			Ready: func(base string) { dev.Announce(stdout, v, base) },
		})
	})
	cmd.Long = "With --frozen, the clock stands still until it is moved. The environment and data directories are not read.\n\n"
	cmd.Flags().BoolVar(&frozen, "frozen", false, "the clock stands still until it is moved")
	return cmd
}

// logger is the log of a server.
func logger(c *config.Config, stderr io.Writer) *slog.Logger {
	log := node.NewLogger(c, stderr)
	// What libraries write to the standard log, such as net/http about unsolicited
	// answers, only matters for debugging.
	slog.SetLogLoggerLevel(slog.LevelDebug)
	slog.SetDefault(log)
	return log
}

func serve(ctx context.Context, c *config.Config, stderr io.Writer) error {
	node.TuneCollector(c.MemoryBudget)
	if c.Embedded() {
		node.AddProcessor()
	}
	log := logger(c, stderr)
	v := node.Version(version)
	return node.Run(ctx, node.Options{
		Config: c, Logger: log, Version: v,
		Ready:   func(base string) { node.Announce(c, v, base, stderr, log) },
		Waiting: func(base string, err error) { node.AnnounceWaiting(c, v, base, log, err) },
	})
}

// demoPause is how long a line of the demo's stories takes on a terminal.
const demoPause = 250 * time.Millisecond

func runDemo(ctx context.Context, stdout io.Writer) error {
	jobs, err := fs.Sub(testdata, "testdata/demo")
	if err != nil {
		return err
	}
	o := demo.Options{Jobs: jobs, Out: stdout, Version: node.Version(version)}
	if node.IsTerminal(stdout) { // somebody reads along
		o.Color, o.Pause = os.Getenv("NO_COLOR") == "", demoPause
	}
	return demo.Run(ctx, o)
}
