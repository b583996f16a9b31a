package v1

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/job"
)

// Jobs and their attempts are written without reflection, which took a sixth of a node's
// time for a batch.

// writable is a view that writes its members itself.
type writable interface{ members(w *writer) }

// typicalResult is about how many bytes a job takes in an answer.
const typicalResult = 512

// writer writes JSON.
type writer struct{ b []byte }

// appendView appends the JSON of a view.
func appendView(b []byte, v writable) []byte {
	w := writer{b}
	w.object(v)
	return w.b
}

// answerWritten answers with v, as WriteJSON does.
func answerWritten(c *httpapi.Call, status int, v writable) error {
	b := httpapi.Buffer()
	defer httpapi.Release(b)
	b.Write(append(appendView(b.AvailableBuffer(), v), '\n')) // in place, if there was room for it
	return c.Write(status, httpapi.MIMEJSON, b.Bytes())
}

func (w *writer) bracket(b byte) { w.b = append(w.b, b) }

func (w *writer) object(v writable) {
	w.bracket('{')
	v.members(w)
	w.bracket('}')
}

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

func (w *writer) null() { w.b = append(w.b, "null"...) }

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

// optional writes a text; empty is null.
func (w *writer) optional(name, s string) {
	w.name(name)
	if s == "" {
		w.null()
		return
	}
	w.quote(s)
}

// given writes a text, and leaves out a member without one.
func (w *writer) given(name string, s *string) {
	if s != nil {
		w.text(name, *s)
	}
}

func (w *writer) number(name string, n int64) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, n, 10)
}

// known writes a number; zero is null.
func (w *writer) known(name string, n uint64) {
	w.name(name)
	if n == 0 {
		w.null()
		return
	}
	w.b = strconv.AppendUint(w.b, n, 10)
}

// phase writes the time of a phase in whole milliseconds: zero for a short one, null for
// one that did not happen.
func (w *writer) phase(name string, d time.Duration) {
	w.name(name)
	if d == 0 {
		w.null()
		return
	}
	w.b = strconv.AppendInt(w.b, d.Milliseconds(), 10)
}

func (w *writer) boolean(name string, v bool) {
	w.name(name)
	w.b = strconv.AppendBool(w.b, v)
}

func (w *writer) instant(name string, i job.Instant) {
	w.name(name)
	w.b = instant(i).append(w.b)
}

// base64 writes bytes.
func (w *writer) base64(name string, bytes []byte) {
	w.name(name)
	w.b = append(base64.StdEncoding.AppendEncode(append(w.b, '"'), bytes), '"')
}

func (w *writer) labels(name string, list []job.Label) {
	w.name(name)
	w.bracket('{')
	for _, l := range list {
		w.pair(l.Key, l.Value)
	}
	w.bracket('}')
}

func (w *writer) headers(name string, list []job.Header) {
	w.name(name)
	w.bracket('{')
	for _, h := range list {
		w.pair(h.Name, h.Value)
	}
	w.bracket('}')
}

// member writes a value that does not write itself.
func (w *writer) member(name string, v any) {
	w.name(name)
	text := bytes.NewBuffer(w.b)
	_ = httpapi.Encode(text, v) // a view always has a form
	w.b = bytes.TrimSuffix(text.Bytes(), []byte{'\n'})
}

// list writes an array.
func list[T writable](w *writer, name string, all []T) {
	w.name(name)
	w.b = slices.Grow(w.b, len(all)*typicalResult)
	w.bracket('[')
	for _, v := range all {
		w.next()
		w.object(v)
	}
	w.bracket(']')
}

// instant is a job.Instant in JSON; none is null.
type instant job.Instant

func (i instant) MarshalJSON() ([]byte, error) {
	return i.append(make([]byte, 0, len(job.TimeFormat)+2)), nil
}

func (i instant) append(b []byte) []byte {
	if i == 0 {
		return append(b, "null"...)
	}
	return append(job.Instant(i).Time().AppendFormat(append(b, '"'), job.TimeFormat), '"')
}
