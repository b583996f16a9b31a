package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/internal/importer"
)

const (
	// importBatch is how many jobs, and importBytes how many bytes, go in one request.
	importBatch = 500
	importBytes = 4 << 20
	// maxLine bounds a line of an import.
	maxLine = 8 << 20
	// maxImportTopics bounds the topics of which a dry run shows figures.
	maxImportTopics = 1000
	// maxRefusals bounds the refused jobs that are printed one by one.
	maxRefusals = 1000
	// ofFile is the source of lines.
	ofFile = "ndjson"
)

// importing are the flags of an import.
type importing struct {
	from     string
	skip     int
	unpaused bool
	set      []string
	importer.Options
}

// imports registers the jobs of a file, or those that wait elsewhere.
func (a *app) imports() *cobra.Command {
	d := &importing{}
	cmd := &cobra.Command{
		Use: "import [FILE]", Short: "Register the jobs of a file, or those that wait in another system", Args: cobra.MaximumNArgs(1),
		Long: `Register the jobs of a file, one JSON registration a line, as POST /v1/jobs takes it; or with
--from those that wait in another system. An import only reads there.

Give each job of a file an id: then the import can be repeated, and registers nothing twice. When it
breaks off, it says how it continues. Jobs that cannot be registered are printed with the reason, up to
1,000 of them; the others are registered. --dry-run registers nothing, and prints what would be registered.

With --all, it fills an empty store with what export --all wrote; see duehook import --all --help.

Jobs of an export keep their uids and the ends of their ttls. Those of a paused topic are refused unless the
topic is paused here, too. What the export left behind is printed, by number.`,
		RunE: a.connected(func(ctx context.Context, args []string) error { return a.importFrom(ctx, d, args) }),
	}
	f := cmd.Flags()
	f.StringVar(&d.from, "from", ofFile, "where the jobs are: ndjson for a file, "+strings.Join(importer.Names(), ", "))
	f.StringVar(&d.Address, "source", "", "address of the other system, such as redis://:PASSWORD@127.0.0.1:6379/0 (DUEHOOK_SOURCE)")
	f.StringVar(&d.URL, "to", "", "URL for jobs without one, with {topic} and {type}; without it, the topic's settings decide")
	f.BoolVar(&d.Pull, "pull", false, "consumers fetch the jobs")
	f.StringArrayVar(&d.set, "set", nil, "a setting of the other system, as NAME=VALUE; repeatable")
	f.BoolVar(&d.DryRun, "dry-run", false, "print what would be registered, and register nothing")
	f.BoolVar(&d.unpaused, "unpaused", false, "register jobs of an export whose topics were paused there, although they are not paused here")
	numberFlag(cmd, &d.skip, "skip", 0, "leave out this many lines of a file, which an earlier run has registered")
	return cmd
}

func (a *app) importFrom(ctx context.Context, d *importing, args []string) error {
	if d.from == ofFile {
		return a.reading(args, func(in io.Reader) error { return a.importLines(ctx, d, in) })
	}
	if len(args) > 0 || d.skip > 0 {
		return usagef("a FILE and --skip are for --from %s", ofFile)
	}
	d.Clock, d.Address, d.Set = a.Clock, firstOf(d.Address, a.environ["DUEHOOK_SOURCE"]), map[string]string{}
	d.Token = a.environ["DUEHOOK_SOURCE_TOKEN"]
	for _, setting := range d.set {
		name, value, ok := strings.Cut(setting, "=")
		if !ok {
			return usagef("--set %s: write NAME=VALUE", setting)
		}
		d.Set[name] = value
	}
	source, err := importer.Open(ctx, d.from, d.Options)
	if err != nil {
		return ofSource(err)
	}
	defer func() { _ = source.Close() }()
	l := a.newLoading(d, "jobs")
	address, token, err := a.server()
	if err != nil {
		return err
	}
	l.server = importer.NewServer(address, token)
	l.progress = func() int64 { return int64(l.done) }
	return l.load(ctx, source.Jobs, func(err error) error {
		if err = ofSource(err); l.done == 0 && ctx.Err() == nil {
			return err
		}
		return &brokenOffError{cause: err, done: l.done}
	})
}

// ofSource makes wrong flags an error of usage.
func ofSource(err error) error {
	if errors.Is(err, importer.ErrUsage) {
		return usagef("%v", err)
	}
	return err
}

// importLines registers the jobs of a file.
func (a *app) importLines(ctx context.Context, d *importing, in io.Reader) error {
	counted := &counter{Reader: in}
	l := a.newLoading(d, "bytes")
	l.progress = func() int64 { return counted.n }
	if file, is := in.(*os.File); is {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			l.bar.total = info.Size()
		}
	}
	take := func(j *importer.Job, note *exportNote) error { return l.take(ctx, j, note) }
	return l.load(ctx, lines(counted, d.skip, take), func(err error) error {
		done := d.skip + l.done
		return &brokenOffError{cause: fmt.Errorf("line %d: %w", done+1, err), flags: fmt.Sprintf("--skip %d", done)}
	})
}

// lines are the registrations of a file. An empty line is none. take sees what an export noted of a job.
func lines(in io.Reader, skip int, take func(*importer.Job, *exportNote) error) iter.Seq2[importer.Job, error] {
	return func(yield func(importer.Job, error) bool) {
		scanner := bufio.NewScanner(in)
		scanner.Buffer(make([]byte, 0, 64<<10), maxLine)
		for n := 1; scanner.Scan(); n++ {
			if n <= skip {
				continue
			}
			var j importer.Job
			var err error
			if line := scanner.Bytes(); len(line) == 0 {
				j.Empty = true
			} else {
				var is exported
				if is, err = exportedOf(line); err != nil && n == 1 && bytes.HasPrefix(line, []byte(`{"walk":`)) {
					err = usagef("the file has a whole store: stop the nodes of an empty one, and run duehook import --all with its settings")
				} else if err != nil {
					err = usagef("not a registration: %v", err)
				} else if j.Registration = is.Registration; is.Export != nil {
					err = take(&j, is.Export)
				} else if j.Registration.Group != "" {
					err = usagef("a registration for a group cannot be imported; use duehook send --group")
				}
			}
			if !yield(j, err) || err != nil {
				return
			}
		}
		if err := scanner.Err(); err != nil {
			yield(importer.Job{}, err)
		}
	}
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

// loading is an import at work.
type loading struct {
	a        *app
	dryRun   bool
	server   *importer.Server
	batch    []importer.Job
	bytes    int
	read     int // jobs and empty lines
	done     int // those that are registered or refused
	bar      *bar
	progress func() int64
	report   importReport
	topics   map[string]*importedTopic
	unpaused bool
	left     *left
}

// importReport is the result of an import.
type importReport struct {
	Read    int              `json:"read"`
	Created int              `json:"created"`
	Kept    int              `json:"kept"` // registered before
	Refused int              `json:"refused"`
	LeftOut map[string]int64 `json:"left_out,omitempty"` // of an export, by kind
	DryRun  bool             `json:"dry_run,omitempty"`
	Topics  []*importedTopic `json:"topics,omitempty"` // in a dry run
}

// importedTopic is the share of a topic in an import.
type importedTopic struct {
	Topic    string     `json:"topic"`
	Created  int        `json:"created"`
	Kept     int        `json:"kept"`
	Refused  int        `json:"refused"`
	FirstDue *time.Time `json:"first_due,omitempty"` // of those that are not refused
	LastDue  *time.Time `json:"last_due,omitempty"`
}

func (a *app) newLoading(d *importing, unit string) *loading {
	return &loading{a: a, dryRun: d.DryRun, unpaused: d.unpaused, left: newLeft(), bar: a.newBar(unit), topics: map[string]*importedTopic{}}
}

// load registers jobs. brokenOff says how to continue after an error.
func (l *loading) load(ctx context.Context, jobs iter.Seq2[importer.Job, error], brokenOff func(error) error) error {
	var err error
	for j, failed := range jobs {
		if failed != nil {
			err = errors.Join(l.flush(ctx), failed)
		} else {
			err = l.add(ctx, &j)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = l.flush(ctx)
	}
	l.bar.end()
	switch {
	case err != nil && ctx.Err() != nil: // the server or the source did not fail
		return brokenOff(context.Cause(ctx))
	case err != nil:
		return brokenOff(err)
	}
	return l.print()
}

func (l *loading) add(ctx context.Context, j *importer.Job) error {
	r := &j.Registration
	switch {
	case j.Note != "":
		l.a.hint("%s\n", j.Note)
		return nil
	case j.Err != nil:
		l.read++
		l.refuse(r, j.Err)
		return nil //nolint:nilerr // the error is that of one job, which is reported
	case !j.Empty:
		l.batch = append(l.batch, *j)
		body, _ := r.Body.(json.RawMessage)
		const rest = 512 // of a registration
		l.bytes += len(body) + len(r.BodyText) + len(r.BodyBytes)/3*4 + rest
		if j.Call != nil {
			l.bytes += len(j.Call.Body)
		}
	}
	l.read++
	if len(l.batch) < importBatch && l.bytes < importBytes {
		return nil
	}
	return l.flush(ctx)
}

// flush registers what was read.
func (l *loading) flush(ctx context.Context) error {
	if len(l.batch) > 0 {
		results, err := l.register(ctx)
		if err != nil {
			return err
		}
		for i := range results {
			l.count(&l.batch[i].Registration, &results[i])
		}
	}
	l.batch, l.bytes, l.done = l.batch[:0], 0, l.read
	l.bar.show(l.progress())
	return nil
}

// register registers the batch, whose jobs are of one kind.
func (l *loading) register(ctx context.Context) ([]importer.Result, error) {
	if l.batch[0].Call != nil {
		return l.server.Register(ctx, l.batch)
	}
	var options []client.CallOption
	if l.dryRun {
		options = append(options, client.DryRun())
	}
	registrations := make([]client.Registration, len(l.batch))
	for i := range l.batch {
		registrations[i] = l.batch[i].Registration
	}
	answers, err := l.a.client.RegisterBatch(ctx, registrations, options...)
	results := make([]importer.Result, len(answers))
	for i := range answers {
		results[i].Created = answers[i].Result == "created"
		if e := answers[i].Error; e != nil && (e.UID == "" || e.UID != registrations[i].UID) { // the same uid is the same job, with a ttl of then
			results[i].Err = e
		}
	}
	return results, err
}

func (l *loading) count(r *client.Registration, result *importer.Result) {
	if result.Err != nil {
		l.refuse(r, result.Err)
		return
	}
	t := l.topic(r)
	if result.Created {
		l.report.Created++
		t.Created++
	} else {
		l.report.Kept++
		t.Kept++
	}
	due := r.At
	if due.IsZero() {
		due = l.a.Clock.Now().Add(time.Duration(r.Delay))
	}
	due = due.UTC().Truncate(time.Second)
	if t.FirstDue == nil || due.Before(*t.FirstDue) {
		t.FirstDue = &due
	}
	if t.LastDue == nil || due.After(*t.LastDue) {
		t.LastDue = &due
	}
}

func (l *loading) refuse(r *client.Registration, err error) {
	l.report.Refused++
	l.topic(r).Refused++
	switch n := l.report.Refused; {
	case n <= maxRefusals && l.a.json:
		code := client.Code("failed")
		if refused, ok := errors.AsType[*client.Error](err); ok {
			code = refused.Code
		}
		line, _ := json.Marshal(map[string]string{"code": string(code), "detail": err.Error(), "topic": r.Topic, "id": r.ID}) // strings
		_, _ = fmt.Fprintf(l.a.Err, "%s\n", line)
	case n <= maxRefusals:
		_, _ = fmt.Fprintf(l.a.Err, "%s/%s: %v\n", r.Topic, r.ID, err)
	case n == maxRefusals+1:
		l.a.hint("further refused jobs are counted only\n")
	}
}

// topic is the share of a job's topic.
func (l *loading) topic(r *client.Registration) *importedTopic {
	name := cmp.Or(r.Topic, "default")
	t, ok := l.topics[name]
	if !ok {
		if len(l.topics) == maxImportTopics {
			return &importedTopic{}
		}
		t = &importedTopic{Topic: name}
		l.topics[name] = t
	}
	return t
}

// print prints the result.
func (l *loading) print() error {
	r := &l.report
	if r.LeftOut = l.left.counts; len(r.LeftOut) > 0 {
		l.a.hint("not imported: %s\n", l.left)
	}
	if r.Read, r.DryRun = l.read, l.dryRun; r.DryRun {
		r.Topics = slices.SortedFunc(maps.Values(l.topics), func(a, b *importedTopic) int { return strings.Compare(a.Topic, b.Topic) })
		l.table()
	}
	if !r.DryRun || l.a.json {
		data, err := json.Marshal(r)
		if err == nil {
			err = l.a.object(data)
		}
		if err != nil {
			return err
		}
	}
	if r.Refused > 0 {
		return fmt.Errorf("%d jobs were refused", r.Refused)
	}
	return nil
}

// table prints for people what an import would do.
func (l *loading) table() {
	if l.a.json {
		return
	}
	w := tabwriter.NewWriter(l.a.Out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "TOPIC\tNEW\tREGISTERED\tREFUSED\tFIRST DUE\tLAST DUE")
	day := func(t *time.Time) string {
		if t == nil {
			return "-"
		}
		return t.Format(time.RFC3339)
	}
	for _, t := range l.report.Topics {
		_, _ = fmt.Fprintln(w, strings.Join([]string{
			t.Topic, strconv.Itoa(t.Created), strconv.Itoa(t.Kept), strconv.Itoa(t.Refused), day(t.FirstDue), day(t.LastDue),
		}, "\t"))
	}
	_ = w.Flush()
	l.a.printf("%d jobs would be registered, %d are registered, %d would be refused\n", l.report.Created, l.report.Kept, l.report.Refused)
}
