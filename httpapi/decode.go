package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/duehook/duehook/internal/kit/nearest"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/job"
)

// maxFieldErrors bounds the errors that one answer names.
const maxFieldErrors = 32

// fieldErrors gathers what is wrong with the fields of a request.
type fieldErrors struct{ fields []problemField }

func (e *fieldErrors) add(pointer, message string) {
	if len(e.fields) < maxFieldErrors {
		e.fields = append(e.fields, problemField{pointer, message})
	}
}

// unknown notes a name that is not one of known, with the one that may be meant.
func (e *fieldErrors) unknown(pointer, message, name string, known iter.Seq[string], prefix string) {
	if len(e.fields) < maxFieldErrors { // looking for it takes a while
		e.add(pointer, message+nearest.Hint(name, slices.Collect(known), prefix))
	}
}

func (e *fieldErrors) err() error {
	if len(e.fields) == 0 {
		return nil
	}
	return &inputError{e.fields}
}

// merge adds what validation found to what decoding found, so that the client
// learns all of it at once. A field that could not be decoded is absent for
// validation; what that says of it is left out.
func (e *fieldErrors) merge(err error) error {
	var more *job.ValidationError
	switch {
	case len(e.fields) == 0:
		return err
	case errors.As(err, &more) && !e.has(""):
		e.addNew(pointers("", more.Fields))
	}
	return e.err()
}

// addNew adds what is wrong with fields of which nothing is known to be wrong,
// nor of a part of them.
func (e *fieldErrors) addNew(fields []problemField) {
	for _, f := range fields {
		part := func(known problemField) bool { return strings.HasPrefix(known.Pointer, f.Pointer+"/") }
		if !e.has(f.Pointer) && !slices.ContainsFunc(e.fields, part) {
			e.add(f.Pointer, f.Message)
		}
	}
}

func (e *fieldErrors) has(pointer string) bool {
	return slices.ContainsFunc(e.fields, func(f problemField) bool { return f.Pointer == pointer })
}

// field is one member of a request's object, as found.
type field struct {
	raw          []byte
	parent, name string
	errs         *fieldErrors
}

func (f field) pointer() string { return f.parent + "/" + escapePointer(f.name) }

func (f field) fail(message string) { f.errs.add(f.pointer(), message) }

// wrongType says what the field should be and what it is.
func (f field) wrongType(want string) { f.fail("must be " + want + ", not " + kindOf(f.raw)) }

// text is the value of a string, or nil after noting an error.
func (f field) text() *string {
	if f.raw[0] != '"' {
		f.wrongType("a string")
		return nil
	}
	s, ok := unquote(f.raw)
	if !ok {
		f.fail(`has an incomplete \u escape: a surrogate without its other half stands for no character`)
		return nil
	}
	return &s
}

// integer is the value of a whole number, or nil after noting an error. As in
// JSON Schema, 3.0 and 3e0 are whole.
func (f field) integer() *int {
	if kindOf(f.raw) != kindNumber {
		f.wrongType("a whole number")
		return nil
	}
	n, err := strconv.ParseFloat(string(f.raw), 64)
	if n != math.Trunc(n) { // not so of those that are beyond any float64
		f.fail("must be a whole number")
		return nil
	}
	if err != nil || math.Abs(n) > math.MaxInt32 {
		f.fail("is too large a number")
		return nil
	}
	i := int(n)
	return &i
}

// number is the value of a number, or nil after noting an error.
func (f field) number() *float64 {
	if kindOf(f.raw) != kindNumber {
		f.wrongType(kindNumber)
		return nil
	}
	n, err := strconv.ParseFloat(string(f.raw), 64)
	if err != nil {
		f.fail("is too large a number")
		return nil
	}
	return &n
}

// boolean is the value of true or false, or false after noting an error.
func (f field) boolean() bool {
	switch string(f.raw) {
	case "true":
		return true
	case "false":
		return false
	}
	f.wrongType("true or false")
	return false
}

// list is the elements of an array, or nil after noting an error.
func (f field) list() []json.RawMessage {
	if f.raw[0] != '[' {
		f.wrongType("an array")
		return nil
	}
	list := []json.RawMessage{}
	for element := range elements(f.raw) {
		list = append(list, element)
	}
	return list
}

// texts is an object whose values are strings, or nil after noting an error.
func (f field) texts() map[string]string {
	if f.raw[0] != '{' {
		f.wrongType("an object")
		return nil
	}
	texts := map[string]string{}
	for quoted, raw := range members(f.raw) {
		name, ok := unquote(quoted)
		if !ok {
			f.fail(`has a name with an incomplete \u escape`)
			continue
		}
		member := field{raw: raw, parent: f.pointer(), name: shorten(name), errs: f.errs}
		if _, twice := texts[name]; twice {
			member.fail("is given twice")
			continue
		}
		texts[name] = ""
		if value := member.text(); value != nil {
			texts[name] = *value
		}
	}
	return texts
}

// fieldSet is how the members of an object become a T. A member that is not
// in it is an error; one that is null counts as absent, unless it says otherwise.
type fieldSet[T any] map[string]knownField[T]

type knownField[T any] struct {
	name string
	bit  uint32 // marks the field as seen
	set  func(*T, field)
	null func(*T) // what null means; nil: absent
}

// newFieldSet numbers the fields. There are fewer than 32 in any object.
func newFieldSet[T any](setters map[string]func(*T, field)) fieldSet[T] {
	set := fieldSet[T]{}
	for name, setter := range setters {
		set[name] = knownField[T]{name: name, bit: 1 << len(set), set: setter}
	}
	return set
}

// withNull gives null a meaning where a field must be taken away by it.
func (s fieldSet[T]) withNull(meanings map[string]func(*T)) fieldSet[T] {
	for name, meaning := range meanings {
		known := s[name]
		known.null = meaning
		s[name] = known
	}
	return s
}

// only is the set with some of the fields.
func (s fieldSet[T]) only(names ...string) fieldSet[T] {
	some := fieldSet[T]{}
	for _, name := range names {
		some[name] = s[name]
	}
	return some
}

// decode fills into from the object raw; at is the pointer to the object.
func (s fieldSet[T]) decode(raw []byte, at string, into *T, errs *fieldErrors) {
	if raw[0] != '{' {
		errs.add(at, "must be an object, not "+kindOf(raw))
		return
	}
	var seen uint32
	for quoted, value := range members(raw) {
		known, ok := s.find(quoted)
		f := field{raw: value, parent: at, name: known.name, errs: errs}
		switch {
		case !ok:
			errs.unknown(f.pointer(), "is not a field of this object", known.name, maps.Keys(s), "")
		case seen&known.bit != 0:
			f.fail("is given twice")
		default:
			seen |= known.bit
			if kindOf(value) != kindNull {
				known.set(into, f)
			} else if known.null != nil {
				known.null(into)
			}
		}
	}
}

// find looks a quoted name up. For an unknown one only the name is filled in.
func (s fieldSet[T]) find(quoted []byte) (knownField[T], bool) {
	inner := quoted[1 : len(quoted)-1]
	if known, ok := s[string(inner)]; ok { // no copy is made for this
		return known, true
	}
	name, ok := unquote(quoted)
	if !ok {
		name = string(inner)
	}
	if known, ok := s[name]; ok { // written with escapes
		return known, true
	}
	return knownField[T]{name: shorten(name)}, false
}

var (
	draftFields = newFieldSet(map[string]func(*job.Draft, field){
		"topic":        func(d *job.Draft, f field) { d.Topic = f.text() },
		"id":           func(d *job.Draft, f field) { d.ID = f.text() },
		"biz_key":      func(d *job.Draft, f field) { d.BizKey = f.text() },
		"url":          func(d *job.Draft, f field) { d.Destination = (*job.Destination)(f.text()) },
		"method":       func(d *job.Draft, f field) { d.Method = f.text() },
		"delay":        func(d *job.Draft, f field) { d.Delay = f.raw },
		"at":           func(d *job.Draft, f field) { d.At = f.raw },
		"body":         func(d *job.Draft, f field) { d.Body, d.BodyChecked = f.raw, true },
		"body_text":    func(d *job.Draft, f field) { d.BodyText = f.text() },
		"body_base64":  func(d *job.Draft, f field) { d.BodyBase64 = f.text() },
		"content_type": func(d *job.Draft, f field) { d.ContentType = f.text() },
		"headers":      func(d *job.Draft, f field) { d.Headers = f.texts() },
		"timeout":      func(d *job.Draft, f field) { d.Timeout = f.raw },
		"ttl":          func(d *job.Draft, f field) { d.TTL = f.raw },
		"on_conflict":  func(d *job.Draft, f field) { d.OnConflict = f.text() },
		"labels":       func(d *job.Draft, f field) { d.Labels = f.texts() },
		"priority":     func(d *job.Draft, f field) { d.Priority = f.integer() },
		"retry": func(d *job.Draft, f field) {
			d.Retry = &job.DraftRetry{}
			retryFields.decode(f.raw, f.pointer(), d.Retry, f.errs)
		},
		"expect": func(d *job.Draft, f field) {
			d.Expect = &job.DraftExpect{}
			expectFields.decode(f.raw, f.pointer(), d.Expect, f.errs)
		},
	}).withNull(map[string]func(*job.Draft){
		"biz_key": func(d *job.Draft) { d.NoBizKey = true },
		"expect":  func(d *job.Draft) { d.NoExpect = true },
	})
	retryFields = newFieldSet(map[string]func(*job.DraftRetry, field){
		"steps": func(r *job.DraftRetry, f field) { r.Steps = f.list() },
		"limit": func(r *job.DraftRetry, f field) { r.Limit = f.integer() },
	})
	expectFields = newFieldSet(map[string]func(*job.DraftExpect, field){
		"body": func(e *job.DraftExpect, f field) { e.Body = f.text() },
	})
	batchFields = newFieldSet(map[string]func(*batch, field){
		"jobs": func(b *batch, f field) { b.jobs = f.list() },
	})
	keyFields = newFieldSet(map[string]func(*access.Draft, field){
		"name":       func(d *access.Draft, f field) { setText(&d.Name, f) },
		"scope":      func(d *access.Draft, f field) { setText(&d.Scope, f) },
		"expires_at": func(d *access.Draft, f field) { setText(&d.ExpiresAt, f) },
		"rate":       func(d *access.Draft, f field) { setText(&d.Rate, f) },
	})
	noFields = newFieldSet(map[string]func(*struct{}, field){})
)

// setText sets a string for which empty means absent. Given as empty, it is
// more likely a mistake.
func setText(into *string, f field) {
	s := f.text()
	switch {
	case s == nil:
	case *s == "":
		f.fail("must not be empty; leave it out to get the default")
	default:
		*into = *s
	}
}

// batch is the body of a batch registration: its jobs, each yet to be decoded.
type batch struct{ jobs []json.RawMessage }

// decodeObject decodes checked JSON. The result's raw values are parts of
// data: what is kept of them must be copied. Fields with errors are absent.
func decodeObject[T any](data []byte, fields fieldSet[T]) (*T, *fieldErrors) {
	into, errs := new(T), new(fieldErrors)
	fields.decode(bytes.TrimLeft(data, space), "", into, errs)
	return into, errs
}

// The kinds of JSON values, in the words of error messages.
const (
	kindNull   = "null"
	kindNumber = "a number"
)

func kindOf(raw []byte) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return kindNull
	}
	return kindNumber
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// escapePointer writes a name as a part of a JSON pointer (RFC 6901).
func escapePointer(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return pointerEscaper.Replace(name)
}

// shorten bounds what an error repeats of the client's words.
func shorten(s string) string {
	const most = 64
	runes := 0
	for i := range s {
		if runes++; runes > most {
			return s[:i] + "…"
		}
	}
	return s
}
