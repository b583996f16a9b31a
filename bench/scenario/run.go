// Package scenario measures contenders side by side.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/duehook/duehook/bench/contender"
	"github.com/duehook/duehook/bench/receiver"
	"github.com/duehook/duehook/bench/report"
	"github.com/duehook/duehook/bench/system"
	"github.com/duehook/duehook/e2e/rig"
	"github.com/duehook/duehook/internal/job"
)

// Options of a run.
type Options struct {
	Size Size
	// Only names the scenarios to run, and Without the contenders to leave out.
	Only, Without []string
	// Budget is how long all may take, more or less: each scenario runs once, and
	// again while it has not used up its share; 0: no limit.
	Budget time.Duration
	// Docs is the directory of the documents for the results; empty: none.
	Docs        string
	Persistence string
	Workers     int
	Out         io.Writer
}

// result is what a scenario found.
type result struct {
	tables []report.Table
	charts []chart
	// sizing is for the document on sizing: what follows from the figures, with
	// the charts if they are to be seen there, too.
	sizing      *report.Table
	sizingChart bool
}

// chart is a picture with the name of its file.
type chart struct {
	name, title, svg string
}

// scenario is a measure with a part of the document.
type scenario struct {
	name string
	// long: left out unless the size is long.
	long bool
	// share is the part of the budget that it may use, in percent of that of all
	// which are not long. The last ones take theirs with one round already.
	share int
	run   func(ctx context.Context, r *runner) (*result, error)
}

// all scenarios, the most telling first.
var all = []scenario{
	{name: "drain", share: 30, run: drains},
	{name: "registrations", share: 9, run: registrations},
	{name: "inserts", share: 2, run: inserts},
	{name: "lateness", share: 7, run: lateness},
	{name: "memory", share: 1, run: memory},
	{name: "idle", share: 8, run: idle},
	{name: "lanes", share: 5, run: lanes},
	{name: "storm", share: 3, run: storm},
	{name: "restart", share: 15, run: restart},
	{name: "scale", share: 22, run: scale},
	{name: "debt", long: true, run: debt},
	{name: "pages", long: true, run: pages},
	{name: "tls", long: true, run: secure},
	{name: "nodes", long: true, run: nodes},
	{name: "failing", long: true, run: failing},
	{name: "callbacks", long: true, run: callbacks},
	{name: "counts", long: true, run: counts},
	{name: "order", long: true, run: ordered},
	{name: "pull", long: true, run: pulls},
	{name: "consumers", long: true, run: consumers},
	{name: "inbox", long: true, run: inboxes},
}

// Names are the names of all scenarios.
func Names() []string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.name
	}
	return names
}

// runner is what scenarios share.
type runner struct {
	Options
	clock    job.Clock
	until    time.Time // when the scenario's share of the budget is used up; zero: never
	setup    contender.Setup
	process  *system.Process // the receiver
	receiver receiver.Client
}

// Run runs the scenarios, prints what they find, and writes it down.
func Run(ctx context.Context, o Options) (err error) {
	chosen, err := choose(&o)
	if err != nil {
		return err
	}
	r := &runner{Options: o, clock: job.SystemClock()}
	start := r.clock.Now()
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.open(ctx); err != nil {
		return err
	}
	for i, s := range chosen {
		if o.Budget > 0 {
			r.until = start.Add(o.Budget * time.Duration(shares(chosen[:i+1])) / time.Duration(max(1, shares(chosen))))
		}
		r.printf("%s …\n", s.name)
		began := r.clock.Now()
		found, err := s.run(ctx, r)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		for _, t := range found.tables {
			r.printf("%s", t.Text())
		}
		r.printf("  (%.0f s)\n", r.clock.Now().Sub(began).Seconds())
		if err := r.write(ctx, s.name, found); err != nil {
			return err
		}
	}
	return nil
}

func shares(of []scenario) (sum int) {
	for _, s := range of {
		sum += s.share
	}
	return sum
}

// choose gives the scenarios to be run.
func choose(o *Options) ([]scenario, error) {
	for _, name := range o.Only {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("there is no scenario %q; scenarios are %s", name, strings.Join(Names(), ", "))
		}
	}
	var chosen []scenario
	for _, s := range all {
		if slices.Contains(o.Only, s.name) || len(o.Only) == 0 && (o.Size.Long || !s.long) {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

// open starts what all scenarios need.
func (r *runner) open(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "duehook-bench-")
	if err != nil {
		return err
	}
	r.setup = contender.Setup{
		Dir: dir, Persistence: r.Persistence, Workers: r.Workers, CertFile: filepath.Join(dir, "receiver.pem"),
	}
	if r.setup.Binary, err = rig.Build(dir, "duehook", "-trimpath"); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "receiver", r.setup.CertFile) //nolint:gosec,noctx // ourselves; close ends it
	r.process, err = system.Start(ctx, "receiver", cmd, func(line string) bool {
		client, ok := receiver.ParseReady(line)
		r.receiver = client
		return ok
	})
	return err
}

func (r *runner) close() error {
	var errs []error
	if r.process != nil {
		errs = append(errs, r.process.Stop())
	}
	if r.setup.Postgres != nil {
		errs = append(errs, r.setup.Postgres.Close())
	}
	if r.setup.Dir != "" {
		errs = append(errs, os.RemoveAll(r.setup.Dir))
	}
	return errors.Join(errs...)
}

// contend makes a contender in a fresh state.
func (r *runner) contend(ctx context.Context, name string, s contender.Setup) (contender.Contender, error) {
	if (name == contender.River || name == contender.OnSQL) && r.setup.Postgres == nil {
		server, err := contender.StartPostgres()
		if err != nil {
			return nil, err
		}
		r.setup.Postgres = server
	}
	s.Postgres = r.setup.Postgres
	return contender.New(ctx, name, &s)
}

// among leaves out of names who is to be left out.
func (r *runner) among(names ...string) []string {
	return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(r.Without, n) })
}

// rounds calls do for each of names in each round, in turn, each round
// beginning with another. It stops early when the time is up, but not within a
// round.
func (r *runner) rounds(names []string, do func(name string) error) error {
	for round := range r.Size.Rounds {
		if round > 0 && !r.inBudget() {
			return nil
		}
		for i := range names {
			if err := do(names[(i+round)%len(names)]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *runner) inBudget() bool {
	return r.until.IsZero() || r.clock.Now().Before(r.until)
}

func (r *runner) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(r.Out, format, args...) // nobody to tell when it fails
}

// write writes the results into the document.
func (r *runner) write(ctx context.Context, name string, found *result) error {
	if r.Docs == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(r.Docs, "benchmarks"), 0o755); err != nil { //nolint:gosec // documents are for everybody
		return err
	}
	var pictures strings.Builder
	for _, c := range found.charts {
		path := filepath.Join("benchmarks", c.name+".svg")
		if err := os.WriteFile(filepath.Join(r.Docs, path), []byte(c.svg), 0o644); err != nil { //nolint:gosec // a document is for everybody
			return err
		}
		fmt.Fprintf(&pictures, "\n![%s](%s)\n", c.title, filepath.ToSlash(path))
	}
	var tables strings.Builder
	for _, t := range found.tables {
		tables.WriteString("\n" + t.Markdown())
	}
	made := "\n" + r.made(ctx) + "\n\n"
	err := report.Put(filepath.Join(r.Docs, "benchmarks.md"), name, pictures.String()+tables.String()+made)
	if err != nil || found.sizing == nil {
		return err
	}
	text := "\n" + found.sizing.Markdown() + made
	if found.sizingChart {
		text = pictures.String() + text
	}
	return report.Put(filepath.Join(r.Docs, "sizing.md"), name, text)
}
