package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

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
	bar     *bar
	read    func() int64 // bytes of the input so far
}

func (a *app) importFrom(ctx context.Context, in io.Reader, skip int) error {
	counted := &counter{Reader: in}
	l := &loading{a: a, done: skip, bar: a.newBar("bytes"), read: func() int64 { return counted.n }}
	if file, is := in.(*os.File); is {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			l.bar.total = info.Size()
		}
	}
	lines := bufio.NewScanner(counted)
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
	l.bar.end()
	if err := a.object(fmt.Appendf(nil, `{"lines":%d,"created":%d,"refused":%d}`, l.done-skip, l.created, l.refused)); err != nil {
		return err
	}
	if l.refused > 0 {
		return &outcomeError{fmt.Sprintf("%d jobs were refused", l.refused)}
	}
	return nil
}

// counter counts the bytes that were read.
type counter struct {
	io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

func (l *loading) brokenOff(err error) error {
	l.bar.end()
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
	l.bar.show(l.read())
	return nil
}

// exportPage is how many jobs an export reads at a time, exportCalls how many of them at once.
const (
	exportPage  = 200
	exportCalls = 8
)

// export prints jobs as an import takes them.
func (a *app) export() *cobra.Command {
	cursor := ""
	cmd := &cobra.Command{
		Use: "export [WORD …]", Short: "Print jobs as import takes them, one a line",
		Long: `Print unfinished jobs as import takes them, one a line. They need the scope write, since bodies may
be secret. When the export breaks off, it says with which --cursor it continues.

` + searchHelp,
		RunE: a.connected(func(ctx context.Context, args []string) error {
			f, err := a.filterOf(args)
			if err != nil {
				return err
			}
			if len(f.State) == 0 {
				f.State = []client.State{client.StateWaiting, client.StateRetrying}
			}
			return a.exportTo(ctx, f, cursor)
		}),
	}
	cmd.Flags().StringVar(&cursor, "cursor", "", "continue an export that broke off here")
	return cmd
}

// exportTo prints page after page, each of them whole, so that its cursor is where to continue.
func (a *app) exportTo(ctx context.Context, f client.JobFilter, cursor string) error {
	bar := a.newBar("jobs")
	if a.Interactive && !a.json {
		counted, err := a.client.CountOperation(ctx, client.OperationDraft{Action: "cancel", Filter: f, All: true})
		if err == nil && counted.Complete && cursor == "" {
			bar.total = counted.Matched
		}
	}
	n := int64(0)
	for {
		page, err := a.client.JobPage(ctx, client.JobQuery{JobFilter: f, Paging: client.Paging{Limit: exportPage, Cursor: cursor}})
		var lines []string
		if err == nil {
			lines, err = a.registrations(ctx, page.Data)
		}
		if err == nil {
			_, err = io.WriteString(a.Out, strings.Join(lines, ""))
		}
		if err != nil {
			bar.end()
			if cursor != "" {
				err = fmt.Errorf("%w\ncontinue with --cursor %s", err, cursor)
			}
			return err
		}
		n += int64(len(lines))
		bar.show(n)
		if page.NextCursor == "" {
			break
		}
		cursor = page.NextCursor
	}
	bar.end()
	a.hint("%d jobs\n", n)
	return nil
}

// registrations are the lines of jobs. Those that ended meanwhile have none.
func (a *app) registrations(ctx context.Context, jobs []client.Job) ([]string, error) {
	lines := make([]string, len(jobs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(exportCalls)
	for i := range jobs {
		group.Go(func() error {
			j := &jobs[i]
			r, err := a.client.JobRegistration(ctx, j.Topic, j.ID)
			if errors.Is(err, client.ErrJobNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			r.Topic, r.ID, r.At, r.Delay = j.Topic, j.ID, j.NextAt, 0
			data, err := json.Marshal(r)
			if err != nil {
				return fmt.Errorf("encode %s/%s: %w", j.Topic, j.ID, err)
			}
			lines[i] = string(data) + "\n"
			return nil
		})
	}
	err := group.Wait()
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" }), err
}
