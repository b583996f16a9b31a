package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/duehook/duehook/client"
)

// one prints the result of a call: the API's object, or lines for people.
func (a *app) one(err error, lines func()) error {
	if err != nil {
		return err
	}
	if !a.json {
		lines()
		return nil
	}
	return a.object(a.answers.last)
}

// object prints JSON in one line.
func (a *app) object(data []byte) error {
	var line bytes.Buffer
	if err := json.Compact(&line, data); err != nil {
		return fmt.Errorf("the answer is not JSON: %w", err)
	}
	line.WriteByte('\n')
	_, err := a.Out.Write(line.Bytes())
	return err
}

func (a *app) printf(format string, args ...any) { _, _ = fmt.Fprintf(a.Out, format, args...) }

// hint prints something for people that is no part of the result.
func (a *app) hint(format string, args ...any) {
	if !a.json {
		_, _ = fmt.Fprintf(a.Err, format, args...)
	}
}

// table prints up to limit entries of a list: a row each, or the API's object a line.
func table[T any](a *app, entries iter.Seq2[T, error], limit int, header string, row func(T) []string) error {
	t := a.newRows(header)
	for entry, err := range entries {
		if err != nil {
			return t.broken(err)
		}
		if t.n == limit {
			return t.cut()
		}
		if err := t.add(func() []string { return row(entry) }); err != nil {
			return err
		}
	}
	return t.w.Flush()
}

// rows is a table without its type: the compiler copies table for each T.
type rows struct {
	app  *app
	w    *tabwriter.Writer
	n    int
	of   int // the answer of page
	page []json.RawMessage
}

func (a *app) newRows(header string) *rows {
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	if !a.json {
		_, _ = fmt.Fprintln(w, strings.ReplaceAll(header, " ", "\t"))
	}
	return &rows{app: a, w: w, of: -1}
}

// broken prints the rows so far.
func (t *rows) broken(err error) error {
	if t.n > 0 {
		_ = t.w.Flush()
	}
	return err
}

// cut prints the rows, and that there are more.
func (t *rows) cut() error {
	defer t.app.hint("only the first %d are shown; --limit shows more\n", t.n)
	return t.w.Flush()
}

func (t *rows) add(cells func() []string) error {
	t.n++
	if !t.app.json {
		_, _ = fmt.Fprintln(t.w, strings.Join(cells(), "\t"))
		return nil
	}
	if answers := &t.app.answers; answers.count != t.of {
		var answer struct{ Data []json.RawMessage }
		if err := json.Unmarshal(answers.last, &answer); err != nil {
			return fmt.Errorf("the answer is not a list: %w", err)
		}
		t.of, t.page = answers.count, answer.Data
	}
	entry := t.page[0]
	t.page = t.page[1:]
	return t.app.object(entry)
}

// when is a time for people, such as "in 29m" or "3h ago".
func (a *app) when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := t.Sub(a.now()).Round(time.Second)
	switch {
	case d > 0:
		return "in " + short(d)
	case d > -time.Second:
		return "now"
	}
	return short(-d) + " ago"
}

// short is a duration in its two largest units.
func short(d time.Duration) string {
	const day = 24 * time.Hour
	days := d / day
	d %= day
	parts := []string{}
	for _, part := range []struct {
		n    time.Duration
		unit string
	}{{days, "d"}, {d / time.Hour, "h"}, {d / time.Minute % 60, "m"}, {d / time.Second % 60, "s"}} {
		if part.n > 0 && len(parts) < 2 {
			parts = append(parts, fmt.Sprintf("%d%s", part.n, part.unit))
		} else if len(parts) > 0 {
			break
		}
	}
	if len(parts) == 0 {
		return "0s"
	}
	return strings.Join(parts, "")
}

// stamp is a time for people, in the zone of the machine.
func stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") }

// dash stands for an empty text.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// jobLine says in one line what a job is and what comes next.
func (a *app) jobLine(j *client.Job) string {
	line := fmt.Sprintf("%s/%s  %s", j.Topic, j.ID, j.State)
	switch {
	case j.State.Final():
		line += fmt.Sprintf(" (%s) %s", j.Reason, a.when(j.EndedAt))
	case !j.NextAt.IsZero():
		line += fmt.Sprintf(", due %s (%s)", a.when(j.NextAt), stamp(j.NextAt))
	}
	return line
}
