package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/duehook/duehook/client"
)

const (
	// importBatch is how many jobs, and importBytes how many bytes, go in one request.
	importBatch = 500
	importBytes = 4 << 20
	// maxLine bounds a line of an import.
	maxLine = 8 << 20
)

// imports registers jobs of a file.
func (a *app) imports() *cobra.Command {
	skip := 0
	cmd := &cobra.Command{
		Use: "import [FILE]", Short: "Register the jobs of a file, one JSON registration a line", Args: cobra.MaximumNArgs(1),
		Long: `Register the jobs of a file, one JSON registration a line, as POST /v1/jobs takes it.

Give each job an id: then the import can be repeated, and registers nothing twice. When it breaks
off, it says with which --skip it continues. Jobs that the server refuses are printed with their
line; the others are registered.`,
		RunE: a.connected(func(ctx context.Context, args []string) error {
			return a.reading(args, func(in io.Reader) error { return a.importFrom(ctx, in, skip) })
		}),
	}
	cmd.Flags().IntVar(&skip, "skip", 0, "leave out this many lines, which an earlier run has registered")
	return cmd
}

// reading passes the file that args name on, or standard input.
func (a *app) reading(args []string, read func(io.Reader) error) error {
	if len(args) == 0 || args[0] == "-" {
		return read(a.In)
	}
	file, err := os.Open(args[0])
	if err != nil {
		return usagef("%v", err)
	}
	defer func() { _ = file.Close() }()
	return read(file)
}

// loading is an import at work.
type loading struct {
	a       *app
	batch   []client.Registration
	bytes   int
	line    int // the last line read
	done    int // the lines that are registered or refused
	created int
	refused int
}

func (a *app) importFrom(ctx context.Context, in io.Reader, skip int) error {
	l := &loading{a: a, done: skip}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		if l.line++; l.line <= skip {
			continue
		}
		if err := l.add(ctx, lines.Bytes()); err != nil {
			return l.brokenOff(err)
		}
	}
	err := lines.Err()
	if err == nil {
		err = l.flush(ctx)
	}
	if err != nil {
		return l.brokenOff(err)
	}
	a.hint("\n")
	if err := a.object(fmt.Appendf(nil, `{"lines":%d,"created":%d,"refused":%d}`, l.done-skip, l.created, l.refused)); err != nil {
		return err
	}
	if l.refused > 0 {
		return &outcomeError{fmt.Sprintf("%d jobs were refused", l.refused)}
	}
	return nil
}

func (l *loading) brokenOff(err error) error {
	return fmt.Errorf("line %d: %w\ncontinue with --skip %d", l.done+1, err, l.done)
}

// add reads a line. An empty one counts as a line only.
func (l *loading) add(ctx context.Context, line []byte) error {
	if len(line) == 0 {
		line = nil
	}
	var r client.Registration
	if line != nil {
		if err := json.Unmarshal(line, &r); err != nil {
			return l.refuse(ctx, usagef("not a registration: %v", err))
		}
		if r.Group != "" {
			return l.refuse(ctx, usagef("a registration for a group cannot be imported; use duehook send --group"))
		}
		l.batch = append(l.batch, r)
		l.bytes += len(line)
	}
	if len(l.batch) < importBatch && l.bytes < importBytes {
		return nil
	}
	return l.flush(ctx)
}

// refuse registers the lines before a bad one.
func (l *loading) refuse(ctx context.Context, err error) error {
	l.line--
	return errors.Join(l.flush(ctx), err)
}

// flush registers what was read.
func (l *loading) flush(ctx context.Context) error {
	if len(l.batch) == 0 {
		l.done = l.line
		return nil
	}
	results, err := l.a.client.RegisterBatch(ctx, l.batch)
	if err != nil {
		return err
	}
	for i := range results {
		switch r := &results[i]; {
		case r.Error != nil:
			l.refused++
			_, _ = fmt.Fprintf(l.a.Err, "%s/%s: %v\n", l.batch[i].Topic, l.batch[i].ID, r.Error)
		case r.Result == "created":
			l.created++
		}
	}
	l.batch, l.bytes, l.done = l.batch[:0], 0, l.line
	if l.a.Interactive {
		l.a.hint("\r%d lines, %d created, %d refused ", l.done, l.created, l.refused)
	}
	return nil
}

// export prints jobs as an import takes them.
func (a *app) export() *cobra.Command {
	cmd := &cobra.Command{
		Use: "export [WORD …]", Short: "Print jobs as import takes them, one a line", Long: "Print unfinished jobs as import takes them, one a line. They need the scope write, since bodies may be secret.\n\n" + searchHelp,
		RunE: a.connected(func(ctx context.Context, args []string) error {
			f, err := a.filterOf(args)
			if err != nil {
				return err
			}
			if len(f.State) == 0 {
				f.State = []client.State{client.StateWaiting, client.StateRetrying}
			}
			return a.exportTo(ctx, f)
		}),
	}
	return cmd
}

func (a *app) exportTo(ctx context.Context, f client.JobFilter) error {
	n := 0
	for j, err := range a.client.Jobs(ctx, client.JobQuery{JobFilter: f, Paging: client.Paging{Limit: 1000}}) {
		if err != nil {
			return err
		}
		r, err := a.client.JobRegistration(ctx, j.Topic, j.ID)
		if errors.Is(err, client.ErrJobNotFound) {
			continue // it ended meanwhile
		}
		if err != nil {
			return err
		}
		r.Topic, r.ID, r.At, r.Delay = j.Topic, j.ID, j.NextAt, 0
		data, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("encode %s/%s: %w", j.Topic, j.ID, err)
		}
		if err := a.object(data); err != nil {
			return err
		}
		n++
	}
	a.hint("%d jobs\n", n)
	return nil
}
