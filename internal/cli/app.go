package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/internal/importer"
	"github.com/duehook/duehook/internal/job"
)

// The exit codes.
const (
	ExitOK          = 0 // done; with --wait: delivered
	ExitRefused     = 1 // the job ended otherwise, or the call was refused
	ExitUsage       = 2
	ExitMissing     = 3 // no such job, topic, …
	ExitUnavailable = 4 // no server reached, or it is unavailable
)

// Variables are the environment variables that the commands read. They are no settings of a server.
var Variables = []string{"DUEHOOK_URL", "DUEHOOK_TOKEN", "DUEHOOK_CONTEXT", "DUEHOOK_SECRET", "DUEHOOK_SOURCE", "DUEHOOK_SOURCE_TOKEN"}

// Options are what the commands need of the process.
type Options struct {
	Clock       job.Clock
	In          io.Reader
	Out, Err    io.Writer
	Environ     []string
	Interactive bool       // a person reads Err and can answer
	Columns     func() int // of the terminal that Err is, if Interactive
	ConfigDir   string
	Version     string
}

// app is a run of one command.
type app struct {
	Options
	json       bool
	url, token string
	context    string
	// anyCertificate accepts each certificate, and sends no token.
	anyCertificate bool
	answers        capture
	client         *client.Client
	environ        map[string]string
}

// UsageError is a command line that cannot be run.
type UsageError struct {
	Message string
	Command string // whose help to read, such as "schedule put"; empty for that of all commands
}

func (e *UsageError) Error() string { return e.Message }

func usagef(format string, args ...any) error {
	return &UsageError{Message: fmt.Sprintf(format, args...)}
}

// UncheckedError reports why something could not be examined.
type UncheckedError struct{ Cause error }

func (e *UncheckedError) Error() string { return e.Cause.Error() }
func (e *UncheckedError) Unwrap() error { return e.Cause }

// outcomeError is a job that ended otherwise than delivered.
type outcomeError struct{ message string }

func (e *outcomeError) Error() string { return e.message }

// missingError is something that a command names and the server does not have.
type missingError struct {
	message string
	cause   error // the server's, if it says so
}

func (e *missingError) Error() string { return e.message }
func (e *missingError) Unwrap() error { return e.cause }

// brokenOffError is the end of a command that can be continued.
type brokenOffError struct {
	cause error
	flags string // that continue it; empty: the same command does
	done  int    // jobs
}

func (e *brokenOffError) Error() string { return e.cause.Error() }

// New returns the commands that call a server.
func New(o Options) []*cobra.Command {
	a := &app{Options: o, environ: map[string]string{}}
	out := &output{Writer: o.Out}
	a.Out = out
	for _, variable := range o.Environ {
		name, value, _ := strings.Cut(variable, "=")
		a.environ[name] = value
	}
	commands := []*cobra.Command{
		a.send(), a.get(), a.list(), a.attempts(), a.explain(), a.cancel(), a.run(), a.replay(), a.discard(), a.reschedule(), a.count(),
		a.dead(), a.topics(), a.topic(), a.endpoints(), a.schedule(), a.group(), a.alert(), a.inbox(), a.op(), a.events(), a.listen(), a.imports(), a.export(),
	}
	for _, c := range commands {
		c.GroupID = "client"
	}
	for _, c := range []*cobra.Command{a.contexts(), a.health(), a.secret(), a.verify()} {
		c.GroupID = "tools"
		commands = append(commands, c)
	}
	for _, c := range commands {
		flags := c.PersistentFlags()
		flags.BoolVar(&a.json, "json", false, "print the API's JSON: one object, or one a line")
		flags.StringVar(&a.url, "url", "", "address of the server (DUEHOOK_URL; default http://127.0.0.1:7788)")
		flags.StringVar(&a.token, "token", "", "token of an API key (DUEHOOK_TOKEN)")
		flags.StringVar(&a.context, "context", "", "use this context instead of the current one")
		checked(c, out)
	}
	return commands
}

// checked has a command and those below it refuse empty flags, and report what could not be printed.
func checked(c *cobra.Command, out *output) {
	if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if err := refuseEmpty(cmd); err != nil {
				return err
			}
			if err := run(cmd, args); err != nil {
				return err
			}
			return out.err
		}
	}
	for _, sub := range c.Commands() {
		checked(sub, out)
	}
}

// refuseEmpty refuses flags without a value, such as --id "$ID" of a variable that is not set. Texts may
// be empty, and what is empty at first in a script that works with all servers and repeats an export.
func refuseEmpty(cmd *cobra.Command) (err error) {
	mayBeEmpty := []string{"url", "token", "context", "cursor", "body", "note"}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" && !slices.Contains(mayBeEmpty, f.Name) {
			err = usagef("--%s is empty: give it a value, or leave it out", f.Name)
		}
	})
	return err
}

// output keeps the first error of writing, such as a full disk.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.err == nil && err != nil {
		o.err = fmt.Errorf("print the result: %w", err)
	}
	return n, err
}

// least is a number of a flag that is not below a bound.
type least struct {
	n     *int
	bound int
}

// numberFlag adds a flag for a number of at least bound. The number's value is the default, unless it
// is below.
func numberFlag(cmd *cobra.Command, n *int, name string, bound int, usage string) {
	cmd.Flags().Var(&least{n, bound}, name, usage)
}

func (l *least) Type() string { return "int" }

func (l *least) String() string {
	if *l.n < l.bound { // no default
		return ""
	}
	return strconv.Itoa(*l.n)
}

func (l *least) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < l.bound {
		return fmt.Errorf("must be a number, %d or more", l.bound)
	}
	*l.n = n
	return nil
}

// connected wraps a command that calls the server.
func (a *app) connected(run func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.connect(); err != nil {
			return err
		}
		defer a.client.Close()
		return run(cmd.Context(), args)
	}
}

// connect makes the client, of flags, the environment or a context.
func (a *app) connect() error {
	address, token, err := a.server()
	if err != nil {
		return err
	}
	transport := http.DefaultTransport
	if a.anyCertificate {
		token = ""
		transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // on this machine, without a token
	}
	a.client, err = client.New(address, client.WithToken(token), client.WithUserAgent("duehook-cli/"+a.Version),
		client.WithHTTPClient(&http.Client{Transport: &teeTransport{next: transport, to: &a.answers, clock: a.Clock}}))
	if err != nil {
		return usagef("%v", err)
	}
	return nil
}

// server is the address and the token. The context in use does not matter if the address is given: its
// token is for its own server.
func (a *app) server() (address, token string, err error) {
	address, token = firstOf(a.url, a.environ["DUEHOOK_URL"]), firstOf(a.token, a.environ["DUEHOOK_TOKEN"])
	name := firstOf(a.context, a.environ["DUEHOOK_CONTEXT"])
	if address != "" && name == "" {
		return address, token, nil
	}
	c, err := a.findContext(name)
	return firstOf(address, c.URL, "http://127.0.0.1:7788"), firstOf(token, c.Token), err
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// capture has the last answer of the API as it came, for --json. Commands that make several calls at
// once do not read it.
type capture struct {
	mu    sync.Mutex
	last  []byte
	count int
	heard bool          // an answer with the header Date
	ahead time.Duration // the server's clock minus ours, by that header of its last answer
}

// now is the time of the server, whose clock duehook dev may have turned, once it has answered.
func (a *app) now() time.Time {
	a.answers.mu.Lock()
	defer a.answers.mu.Unlock()
	return a.Clock.Now().Add(a.answers.ahead)
}

// compare compares the clock of the server. Less than two seconds are the rounding of the header.
func (c *capture) compare(date string, now time.Time) {
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = true
	if c.ahead = at.Sub(now); c.ahead.Abs() < 2*time.Second {
		c.ahead = 0
	}
}

// known reports whether the server has said what time it is.
func (c *capture) known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard
}

func (c *capture) keep(data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = data
	c.count++
}

// teeTransport keeps the answers that are JSON.
type teeTransport struct {
	next  http.RoundTripper
	to    *capture
	clock job.Clock
}

// maxCaptured bounds what is kept of an answer: more than the largest page.
const maxCaptured = 64 << 20

func (t *teeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err == nil {
		t.to.compare(resp.Header.Get("Date"), t.clock.Now())
	}
	if err != nil || resp.StatusCode/100 != 2 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		return resp, err
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxCaptured))
	_ = resp.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	t.to.keep(data)
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}

// unavailable reports whether no server was reached, or it cannot answer now.
func unavailable(err error) bool {
	refused, is := errors.AsType[*client.Error](err)
	return is && refused.Status >= 500 || errors.Is(err, client.ErrUnreachable)
}

// ExitCode prints an error and returns its exit code. With jsonOutput it prints the problem document
// of the server, or one of its own for an error on this side.
func ExitCode(err error, jsonOutput bool, w io.Writer) int {
	if err == nil {
		return ExitOK
	}
	broken, isBroken := errors.AsType[*brokenOffError](err)
	if isBroken {
		err = broken.cause
	}
	exit, code, message := ExitRefused, "failed", err.Error()
	refused, isRefusal := errors.AsType[*client.Error](err)
	usage, isUsage := errors.AsType[*UsageError](err)
	switch {
	case isUsage:
		exit, code = ExitUsage, "usage"
		if !jsonOutput {
			message += "\nSee " + strings.TrimSpace("duehook help "+usage.Command) + "."
		}
	case errors.Is(err, client.ErrUnreachable):
		exit, code = ExitUnavailable, "unreachable"
		message += "; name the server with --url, DUEHOOK_URL or a context, or start one with duehook serve"
	case errors.Is(err, importer.ErrUnreachable):
		exit, code = ExitUnavailable, "source_unreachable"
	case errors.Is(err, importer.ErrNothing):
		exit, code = ExitMissing, "nothing_to_import"
	case errors.As(err, new(*UncheckedError)):
		exit, code = ExitUnavailable, "unchecked"
	case errors.As(err, new(*outcomeError)):
		code = "not_delivered"
	case unavailable(err):
		exit = ExitUnavailable
	case isRefusal && refused.Status == http.StatusNotFound:
		exit = ExitMissing
	case errors.As(err, new(*missingError)):
		exit, code = ExitMissing, "missing"
	}
	if isBroken && broken.flags == "" {
		message += fmt.Sprintf("\n%d jobs are done; run the command again to continue: nothing is registered twice", broken.done)
	}
	if !jsonOutput {
		if isBroken && broken.flags != "" {
			message += "\ncontinue with " + broken.flags
		}
		_, _ = fmt.Fprintln(w, "duehook: "+message)
		return exit
	}
	var document json.RawMessage
	if isRefusal {
		document = refused.Document
	}
	if document == nil {
		document, _ = json.Marshal(map[string]string{"code": code, "detail": message}) // strings
	}
	var line bytes.Buffer
	_ = json.Compact(&line, document)
	if isBroken && broken.flags != "" { // one more member
		flags, _ := json.Marshal(broken.flags) // a string
		line.Truncate(line.Len() - 1)
		_, _ = fmt.Fprintf(&line, `,"continue":%s}`, flags)
	}
	_, _ = fmt.Fprintln(w, line.String())
	return exit
}

// address reads T/ID.
func address(arg string) (topic, id string, err error) {
	topic, id, ok := strings.Cut(arg, "/")
	if !ok || topic == "" || id == "" {
		return "", "", usagef("%q does not name a job: write topic/id", arg)
	}
	return topic, id, nil
}

// moment reads a time to come: RFC 3339, or a duration from now by the clock of the server.
func (a *app) moment(ctx context.Context, text string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	d, err := job.ParseDuration(text)
	if err != nil {
		return time.Time{}, usagef("%q is neither a time such as 2026-01-31T09:00:00Z nor a duration such as 30m", text)
	}
	if !a.answers.known() {
		if _, err := a.client.WhoAmI(ctx); err != nil {
			return time.Time{}, err
		}
	}
	return a.now().Add(d), nil
}
