package v1

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/job"
)

// Answers are written without reflection, which took a sixth of a node's time for a batch.

// view writes the members of an object.
type view func(w *writer)

// shown is the view of v.
func shown[T any](write func(*writer, *T), v *T) view { return func(w *writer) { write(w, v) } }

// typicalItem is about how many bytes a job takes in an answer.
const typicalItem = 512

// writer writes JSON.
type writer struct {
	b []byte
	// masked hides what may be secret: the caller could not have set it.
	masked bool
}

// appendObject appends the object of a view, with secrets.
func appendObject(b []byte, v view) []byte { return (&writer{b: b}).object(v) }

func (w *writer) object(v view) []byte {
	w.bracket('{')
	v(w)
	w.bracket('}')
	return w.b
}

// answer answers with the object of a view. Only callers who may write see what may be secret.
func answer(c *httpapi.Call, status int, v view) error {
	b := httpapi.Buffer()
	defer httpapi.Release(b)
	w := writer{b: b.AvailableBuffer(), masked: c.Allow(access.Write) != nil}
	b.Write(append(w.object(v), '\n')) // in place, if there was room for it
	return c.Write(status, httpapi.MIMEJSON, b.Bytes())
}

func (w *writer) bracket(b byte) { w.b = append(w.b, b) }

// next separates a member or element from the one before.
func (w *writer) next() {
	if last := w.b[len(w.b)-1]; last != '{' && last != '[' {
		w.b = append(w.b, ',')
	}
}

// name begins a member. Names need no escapes.
func (w *writer) name(name string) {
	w.next()
	w.b = append(append(append(w.b, '"'), name...), '"', ':')
}

func (w *writer) null(name string) {
	w.name(name)
	w.b = append(w.b, "null"...)
}

// nullable writes a member; nil is null.
func nullable[T any](w *writer, name string, v *T, write func(name string, v T)) {
	if v == nil {
		w.null(name)
		return
	}
	write(name, *v)
}

// ifGiven writes a member, and leaves it out if it is nil.
func ifGiven[T any](name string, v *T, write func(name string, v T)) {
	if v != nil {
		write(name, *v)
	}
}

// quote replaces what is not valid UTF-8.
func (w *writer) quote(s string) { w.b, _ = jsontext.AppendQuote(w.b, s) }

func (w *writer) pair(name, value string) {
	w.next()
	w.quote(name)
	w.b = append(w.b, ':')
	w.quote(value)
}

func (w *writer) text(name, s string) {
	w.name(name)
	w.quote(s)
}

// textOrNull writes a text; empty is null.
func (w *writer) textOrNull(name, s string) {
	if s == "" {
		w.null(name)
		return
	}
	w.text(name, s)
}

// textIfAny writes a text, and leaves out an empty one.
func (w *writer) textIfAny(name, s string) {
	if s != "" {
		w.text(name, s)
	}
}

// revealing writes a text that may contain secrets, such as a URL with its query. Empty is null.
func (w *writer) revealing(name, s string) {
	if w.masked {
		s = access.Redact(s)
	}
	w.textOrNull(name, s)
}

// url writes a URL, the query of which may be secret.
func (w *writer) url(name, url string) {
	if w.masked {
		url = access.Redact(url)
	}
	w.text(name, url)
}

// secretHeaders writes headers of requests, which may be secret: null if the writer masks them.
func (w *writer) secretHeaders(name string, list []job.Header) {
	if w.masked {
		w.null(name)
		return
	}
	w.headers(name, list)
}

func (w *writer) integer(name string, n int) { w.number(name, int64(n)) }

func (w *writer) number(name string, n int64) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, n, 10)
}

// numberOrNull writes a number; zero is null.
func (w *writer) numberOrNull(name string, n int64) {
	if n == 0 {
		w.null(name)
		return
	}
	w.number(name, n)
}

// numberIfAny writes a number, and leaves out zero.
func (w *writer) numberIfAny(name string, n int) {
	if n != 0 {
		w.integer(name, n)
	}
}

func (w *writer) float(name string, f float64) {
	w.name(name)
	w.b = strconv.AppendFloat(w.b, f, 'f', -1, 64)
}

func (w *writer) boolean(name string, v bool) {
	w.name(name)
	w.b = strconv.AppendBool(w.b, v)
}

func (w *writer) duration(name string, d time.Duration) { w.text(name, job.FormatDuration(d)) }

// phase writes the time of a phase in whole milliseconds: zero for a short one, null for
// one that did not happen.
func (w *writer) phase(name string, d time.Duration) {
	if d == 0 {
		w.null(name)
		return
	}
	w.number(name, d.Milliseconds())
}

// instant writes a time; none is null.
func (w *writer) instant(name string, i job.Instant) {
	if i == 0 {
		w.null(name)
		return
	}
	w.moment(name, i.Time())
}

// instantIfAny leaves a time out that is not given.
func (w *writer) instantIfAny(name string, i job.Instant) {
	if i != 0 {
		w.instant(name, i)
	}
}

// moment writes a time of a timetable; none is null. The beginning of 1970 is a time, too.
func (w *writer) moment(name string, t time.Time) {
	if t.IsZero() {
		w.null(name)
		return
	}
	w.name(name)
	w.b = append(t.UTC().AppendFormat(append(w.b, '"'), job.TimeFormat), '"')
}

// base64 writes bytes.
func (w *writer) base64(name string, bytes []byte) {
	w.name(name)
	w.b = append(base64.StdEncoding.AppendEncode(append(w.b, '"'), bytes), '"')
}

func (w *writer) labels(name string, list []job.Label) {
	w.in(name, func() {
		for _, l := range list {
			w.pair(l.Key, l.Value)
		}
	})
}

func (w *writer) headers(name string, list []job.Header) {
	w.in(name, func() {
		for _, h := range list {
			if w.masked {
				h.Value = access.Redact(h.Value)
			}
			w.pair(h.Name, h.Value)
		}
	})
}

// in writes an object.
func (w *writer) in(name string, members func()) {
	w.name(name)
	w.bracket('{')
	members()
	w.bracket('}')
}

// part writes an object; nil is null.
func part[T any](w *writer, name string, v *T, write func(*writer, *T)) {
	if v == nil {
		w.null(name)
		return
	}
	w.in(name, func() { write(w, v) })
}

// list writes an array of objects.
func list[T any](w *writer, name string, all []T, write func(*writer, *T)) {
	w.name(name)
	w.b = slices.Grow(w.b, len(all)*typicalItem)
	w.bracket('[')
	for i := range all {
		w.next()
		w.bracket('{')
		write(w, &all[i])
		w.bracket('}')
	}
	w.bracket(']')
}

// member writes a value of Go's own types by reflection.
func (w *writer) member(name string, v any) {
	w.name(name)
	text := bytes.NewBuffer(w.b)
	_ = httpapi.Encode(text, v) // these types always have a form
	w.b = bytes.TrimSuffix(text.Bytes(), []byte{'\n'})
}
