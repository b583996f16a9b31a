package jsonio

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/duehook/duehook/internal/job"
)

// View writes the members of an object.
type View func(w *Writer)

// Shown is the view of v.
func Shown[T any](write func(*Writer, *T), v *T) View { return func(w *Writer) { write(w, v) } }

// TypicalItem is about how many bytes a job takes in an answer.
const TypicalItem = 512

// Writer writes JSON.
type Writer struct {
	B []byte // what was written
	// Pass takes what was written, between two elements of a list, as soon as it has Part bytes; nil: B has all. Err is its
	// first error: what is written later goes nowhere.
	Pass func(text []byte) error
	Part int
	Err  error
}

// AppendObject appends the object of a view.
func AppendObject(b []byte, v View) []byte { return (&Writer{B: b}).Object(v) }

// Object writes the object of a view.
func (w *Writer) Object(v View) []byte {
	w.Bracket('{')
	v(w)
	w.Bracket('}')
	return w.B
}

// Bracket writes one of {}[].
func (w *Writer) Bracket(b byte) { w.B = append(w.B, b) }

// Next separates a member or element from the one before.
func (w *Writer) Next() {
	if last := w.B[len(w.B)-1]; last != '{' && last != '[' {
		w.B = append(w.B, ',')
	}
}

// Name begins a member. Names need no escapes.
func (w *Writer) Name(name string) {
	w.Next()
	w.B = append(append(append(w.B, '"'), name...), '"', ':')
}

// Null writes a member that is null.
func (w *Writer) Null(name string) {
	w.Name(name)
	w.B = append(w.B, "null"...)
}

// Nullable writes a member; nil is null.
func Nullable[T any](w *Writer, name string, v *T, write func(name string, v T)) {
	if v == nil {
		w.Null(name)
		return
	}
	write(name, *v)
}

// IfGiven writes a member, and leaves it out if it is nil.
func IfGiven[T any](name string, v *T, write func(name string, v T)) {
	if v != nil {
		write(name, *v)
	}
}

// Quote replaces what is not valid UTF-8.
func (w *Writer) Quote(s string) { w.B, _ = jsontext.AppendQuote(w.B, s) }

// Pair writes a member whose name and value are texts.
func (w *Writer) Pair(name, value string) {
	w.Next()
	w.Quote(name)
	w.B = append(w.B, ':')
	w.Quote(value)
}

// Text writes a text.
func (w *Writer) Text(name, s string) {
	w.Name(name)
	w.Quote(s)
}

// TextOrNull writes a text; empty is null.
func (w *Writer) TextOrNull(name, s string) {
	if s == "" {
		w.Null(name)
		return
	}
	w.Text(name, s)
}

// TextIfAny writes a text, and leaves out an empty one.
func (w *Writer) TextIfAny(name, s string) {
	if s != "" {
		w.Text(name, s)
	}
}

// Integer writes a number.
func (w *Writer) Integer(name string, n int) { w.Number(name, int64(n)) }

// Number writes a number.
func (w *Writer) Number(name string, n int64) {
	w.Name(name)
	w.B = strconv.AppendInt(w.B, n, 10)
}

// NumberOrNull writes a number; zero is null.
func (w *Writer) NumberOrNull(name string, n int64) {
	if n == 0 {
		w.Null(name)
		return
	}
	w.Number(name, n)
}

// NumberIfAny writes a number, and leaves out zero.
func (w *Writer) NumberIfAny(name string, n int) {
	if n != 0 {
		w.Integer(name, n)
	}
}

// Float writes a number.
func (w *Writer) Float(name string, f float64) {
	w.Name(name)
	w.B = strconv.AppendFloat(w.B, f, 'f', -1, 64)
}

// Boolean writes true or false.
func (w *Writer) Boolean(name string, v bool) {
	w.Name(name)
	w.B = strconv.AppendBool(w.B, v)
}

// Duration writes a duration as job.FormatDuration does.
func (w *Writer) Duration(name string, d time.Duration) { w.Text(name, job.FormatDuration(d)) }

// Phase writes the time of a phase in whole milliseconds: zero for a short one, null for
// one that did not happen.
func (w *Writer) Phase(name string, d time.Duration) {
	if d == 0 {
		w.Null(name)
		return
	}
	w.Number(name, d.Milliseconds())
}

// Instant writes a time; none is null.
func (w *Writer) Instant(name string, i job.Instant) {
	if i == 0 {
		w.Null(name)
		return
	}
	w.Moment(name, i.Time())
}

// InstantIfAny leaves a time out that is not given.
func (w *Writer) InstantIfAny(name string, i job.Instant) {
	if i != 0 {
		w.Instant(name, i)
	}
}

// Moment writes a time of a timetable; none is null. The beginning of 1970 is a time, too.
func (w *Writer) Moment(name string, t time.Time) {
	if t.IsZero() {
		w.Null(name)
		return
	}
	w.Name(name)
	w.B = append(t.UTC().AppendFormat(append(w.B, '"'), job.TimeFormat), '"')
}

// MomentIfAny writes a time, and leaves out none.
func (w *Writer) MomentIfAny(name string, t time.Time) {
	if !t.IsZero() {
		w.Moment(name, t)
	}
}

// Base64 writes bytes.
func (w *Writer) Base64(name string, bytes []byte) {
	w.Name(name)
	w.B = append(base64.StdEncoding.AppendEncode(append(w.B, '"'), bytes), '"')
}

// Labels writes labels as an object.
func (w *Writer) Labels(name string, list []job.Label) {
	w.In(name, func() {
		for _, l := range list {
			w.Pair(l.Key, l.Value)
		}
	})
}

// Headers writes headers as an object.
func (w *Writer) Headers(name string, list []job.Header) {
	w.In(name, func() {
		for _, h := range list {
			w.Pair(h.Name, h.Value)
		}
	})
}

// In writes an object.
func (w *Writer) In(name string, members func()) {
	w.Name(name)
	w.Bracket('{')
	members()
	w.Bracket('}')
}

// Part writes an object; nil is null.
func Part[T any](w *Writer, name string, v *T, write func(*Writer, *T)) {
	if v == nil {
		w.Null(name)
		return
	}
	w.In(name, func() { write(w, v) })
}

// List writes an array of objects.
func List[T any](w *Writer, name string, all []T, write func(*Writer, *T)) {
	w.list(name, len(all), func(i int) { write(w, &all[i]) })
}

// list is List without its type: the compiler copies List for each T.
func (w *Writer) list(name string, length int, write func(i int)) {
	w.Name(name)
	room := length * TypicalItem
	if w.Pass != nil {
		room = min(room, w.Part)
	}
	w.B = slices.Grow(w.B, room)
	w.Bracket('[')
	for i := range length {
		w.Next()
		w.Bracket('{')
		write(i)
		w.Bracket('}')
		w.passOn()
	}
	w.Bracket(']')
}

// passOn passes on what was written except its last byte, which Next looks at.
func (w *Writer) passOn() {
	last := len(w.B) - 1
	if w.Pass == nil || last < w.Part {
		return
	}
	if w.Err == nil {
		w.Err = w.Pass(w.B[:last])
	}
	w.B = append(w.B[:0], w.B[last])
}

// Member writes a value of Go's own types by reflection.
func (w *Writer) Member(name string, v any) {
	w.Name(name)
	text := bytes.NewBuffer(w.B)
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v) // these types always have a form
	w.B = bytes.TrimSuffix(text.Bytes(), []byte{'\n'})
}
