package decode

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/internal/kit/nearest"
)

// MaxErrors bounds the errors that one answer names. In a batch, each job that is wrong names one at least.
const MaxErrors = job.MaxFindings

// Errors gathers what is wrong with the fields of a request.
type Errors struct {
	Fields []httpapi.FieldError
	most   int // zero: MaxErrors
}

func (e *Errors) full() bool { return len(e.Fields) >= cmp.Or(e.most, MaxErrors) }

// Add notes what is wrong with the field at a pointer.
func (e *Errors) Add(pointer, message string) {
	if !e.full() {
		e.Fields = append(e.Fields, httpapi.FieldError{Pointer: pointer, Message: message})
	}
}

// Unknown notes a name that is not one of known, with the one that may be meant.
func (e *Errors) Unknown(pointer, message, name string, known iter.Seq[string], prefix string) {
	if !e.full() { // looking for it takes a while
		e.Add(pointer, message+nearest.Hint(name, slices.Collect(known), prefix))
	}
}

// Err is the answer that names the fields; nil if nothing is wrong.
func (e *Errors) Err() error {
	if len(e.Fields) == 0 {
		return nil
	}
	return httpapi.Invalid(e.Fields...)
}

// Merge adds what validation found to what decoding found, so that the client
// learns all of it at once. A field that could not be decoded is absent for
// validation; what that says of the field, its parts and the object around it is left out.
func (e *Errors) Merge(err error) error {
	more, ok := errors.AsType[*job.ValidationError](err)
	if !ok && len(e.Fields) == 0 {
		return err
	}
	if ok {
		for _, f := range httpapi.Pointers("", more.Fields) {
			related := func(known httpapi.FieldError) bool {
				return known.Pointer == f.Pointer || strings.HasPrefix(known.Pointer, f.Pointer+"/") || strings.HasPrefix(f.Pointer, known.Pointer+"/")
			}
			if !slices.ContainsFunc(e.Fields, related) {
				e.Add(f.Pointer, f.Message)
			}
		}
	}
	return e.Err()
}

// Field is one member of a request's object, as found.
type Field struct {
	Raw          []byte
	Parent, Name string
	Errs         *Errors
}

// Pointer is the JSON pointer of the field.
func (f Field) Pointer() string { return f.Parent + "/" + httpapi.EscapePointer(f.Name) }

// Fail notes what is wrong with the field.
func (f Field) Fail(message string) { f.Errs.Add(f.Pointer(), message) }

// WrongType says what the field should be and what it is.
func (f Field) WrongType(want string) { f.Fail("must be " + want + ", not " + KindOf(f.Raw)) }

// Text is the value of a string, or nil after noting an error.
func (f Field) Text() *string {
	if f.Raw[0] != '"' {
		f.WrongType("a string")
		return nil
	}
	s, ok := jsonio.Unquote(f.Raw)
	if !ok {
		f.Fail(`has an incomplete \u escape: a surrogate without its other half stands for no character`)
		return nil
	}
	return &s
}

// Integer is the value of a whole number, or nil after noting an error. As in
// JSON Schema, 3.0 and 3e0 are whole.
func (f Field) Integer() *int {
	if KindOf(f.Raw) != KindNumber {
		f.WrongType("a whole number")
		return nil
	}
	n, err := strconv.ParseFloat(string(f.Raw), 64)
	if n != math.Trunc(n) { // infinity is equal to itself
		f.Fail("must be a whole number")
		return nil
	}
	if err != nil || math.Abs(n) > math.MaxInt32 {
		f.Fail("is too large a number")
		return nil
	}
	i := int(n)
	return &i
}

// Long is integer as an int64.
func (f Field) Long() *int64 {
	if n := f.Integer(); n != nil {
		return new(int64(*n))
	}
	return nil
}

// Number is the value of a number, or nil after noting an error.
func (f Field) Number() *float64 {
	if KindOf(f.Raw) != KindNumber {
		f.WrongType(KindNumber)
		return nil
	}
	n, err := strconv.ParseFloat(string(f.Raw), 64)
	if err != nil {
		f.Fail("is too large a number")
		return nil
	}
	return &n
}

// Boolean is the value of true or false, or false after noting an error.
func (f Field) Boolean() bool {
	switch string(f.Raw) {
	case "true":
		return true
	case "false":
		return false
	}
	f.WrongType("true or false")
	return false
}

// Duration is the value of a duration: a number of whole seconds, or a string for
// job.ParseDuration. Numbers are judged by their value, as JSON Schema's integers
// are: 90, 90.0 and 9e1 are the same. After noting an error it is zero, so that
// validation does not miss the field.
func (f Field) Duration() *time.Duration {
	d, err := ParseDuration(f.Raw)
	if err != nil {
		f.Fail(err.Error())
	}
	return &d
}

// ParseDuration is Field.Duration of a value.
func ParseDuration(raw []byte) (time.Duration, error) {
	switch KindOf(raw) {
	case KindString:
		s, _ := jsonio.Unquote(raw) // half a surrogate pair is in no duration
		return job.ParseDuration(s)
	case KindNumber:
		n, _ := strconv.ParseFloat(string(raw), 64) // infinite if it is too large
		return job.Seconds(n)
	}
	return 0, errors.New(`must be a number of whole seconds or a string such as "90s", "1d12h" or "PT30M"`)
}

// Instant is the value of a time: a string for job.ParseTime, or Unix time as a
// number. After noting an error it is long past.
func (f Field) Instant() *job.Instant {
	at, err := ParseInstant(f.Raw)
	if err != nil {
		f.Fail(err.Error())
		at = 1
	}
	return &at
}

// ParseInstant is Field.Instant of a value.
func ParseInstant(raw []byte) (job.Instant, error) {
	switch KindOf(raw) {
	case KindString:
		s, _ := jsonio.Unquote(raw)
		return job.ParseTime(s)
	case KindNumber:
		return job.ParseUnix(string(raw))
	}
	return 0, errors.New(`must be a time such as "2026-01-31T09:30:00Z" (RFC 3339), or Unix time as a number`)
}

// Steps is the delays of a ladder, or nil after noting an error. Of those beyond the
// largest number, only the number matters.
func (f Field) Steps() []time.Duration {
	list := f.List()
	if list == nil {
		return nil
	}
	steps := make([]time.Duration, len(list))
	for i, raw := range list[:min(len(list), job.MaxRetrySteps)] {
		steps[i] = *Field{Raw: raw, Parent: f.Pointer(), Name: strconv.Itoa(i), Errs: f.Errs}.Duration()
	}
	return steps
}

// maxItems is more than an array or object of a request may have. What is beyond is left out: it takes ten times its bytes in
// memory.
const maxItems = 1001

// List is the elements of an array, up to maxItems, or nil after noting an error.
func (f Field) List() []json.RawMessage {
	list, _ := f.First(maxItems)
	return list
}

// First is the first elements of an array and the number of all, or nil after noting an error.
func (f Field) First(most int) (list []json.RawMessage, n int) {
	if f.Raw[0] != '[' {
		f.WrongType("an array")
		return nil, 0
	}
	list = []json.RawMessage{}
	for element := range jsonio.Elements(f.Raw) {
		if n++; n <= most {
			list = append(list, element)
		}
	}
	return list, n
}

// Elements is list with the pointers of the elements.
func (f Field) Elements() []Field {
	var all []Field
	for i, raw := range f.List() {
		all = append(all, Field{Raw: raw, Parent: f.Pointer(), Name: strconv.Itoa(i), Errs: f.Errs})
	}
	return all
}

// TextList is the strings of an array, or nil after noting an error.
func (f Field) TextList() []string {
	if f.Raw[0] != '[' {
		f.WrongType("an array")
		return nil
	}
	texts := []string{}
	for _, element := range f.Elements() {
		if text := element.Text(); text != nil {
			texts = append(texts, *text)
		}
	}
	return texts
}

// Texts is an object whose values are strings, up to maxItems of them, or nil after noting an error.
func (f Field) Texts() map[string]string {
	if f.Raw[0] != '{' {
		f.WrongType("an object")
		return nil
	}
	texts := map[string]string{}
	for quoted, raw := range jsonio.Members(f.Raw) {
		if len(texts) == maxItems {
			break
		}
		name, ok := jsonio.Unquote(quoted)
		if !ok {
			f.Fail(`has a name with an incomplete \u escape`)
			continue
		}
		member := Field{Raw: raw, Parent: f.Pointer(), Name: httpapi.Shorten(name), Errs: f.Errs}
		if _, twice := texts[name]; twice {
			member.Fail("is given twice")
			continue
		}
		texts[name] = ""
		if value := member.Text(); value != nil {
			texts[name] = *value
		}
	}
	return texts
}

// FieldSet is how the members of an object become a T. A member that is not
// in it is an error; one that is null counts as absent, unless it says otherwise.
type FieldSet[T any] struct{ known fields }

// fields is a FieldSet without its type: the compiler makes a copy of each method of a FieldSet for each T.
type fields map[string]knownField

// knownField sets a part of the value to which into points.
type knownField struct {
	name string
	bit  uint64 // marks the field as seen
	set  func(into any, f Field)
	null func(into any) // what null means; nil: absent
}

// MaxKnown is the most fields that an object may know: one for each bit.
const MaxKnown = 64

// NewFieldSet numbers the fields.
func NewFieldSet[T any](setters map[string]func(*T, Field)) FieldSet[T] {
	if len(setters) > MaxKnown {
		panic(fmt.Sprintf("an object with %d fields: a field without a bit could be given twice", len(setters)))
	}
	known := fields{}
	for name, setter := range setters {
		known[name] = knownField{name: name, bit: 1 << len(known), set: func(into any, f Field) { setter(into.(*T), f) }}
	}
	return FieldSet[T]{known}
}

// WithNull gives null a meaning where a field must be taken away by it.
func (s FieldSet[T]) WithNull(meanings map[string]func(*T)) FieldSet[T] {
	for name, meaning := range meanings {
		known := s.known[name]
		known.null = func(into any) { meaning(into.(*T)) }
		s.known[name] = known
	}
	return s
}

// Only is the set with some of the fields.
func (s FieldSet[T]) Only(names ...string) FieldSet[T] { return FieldSet[T]{s.known.only(names)} }

func (s fields) only(names []string) fields {
	some := fields{}
	for _, name := range names {
		some[name] = s[name]
	}
	return some
}

// Names are the names of the fields.
func (s FieldSet[T]) Names() iter.Seq[string] { return maps.Keys(s.known) }

// Into fills into from the object of a field.
func (s FieldSet[T]) Into(into *T, f Field) { s.Decode(f.Raw, f.Pointer(), into, f.Errs) }

// New is a new value with the members of the object of a field.
func (s FieldSet[T]) New(f Field) *T {
	into := new(T)
	s.Into(into, f)
	return into
}

// Decode fills into from the object raw; at is the pointer to the object.
func (s FieldSet[T]) Decode(raw []byte, at string, into *T, errs *Errors) {
	s.known.decode(raw, at, into, errs)
}

func (s fields) decode(raw []byte, at string, into any, errs *Errors) {
	if raw[0] != '{' {
		errs.Add(at, "must be an object, not "+KindOf(raw))
		return
	}
	var seen uint64
	for quoted, value := range jsonio.Members(raw) {
		known, ok := s.find(quoted)
		f := Field{Raw: value, Parent: at, Name: known.name, Errs: errs}
		switch {
		case !ok:
			errs.Unknown(f.Pointer(), "is not a field of this object", known.name, maps.Keys(s), "")
		case seen&known.bit != 0:
			f.Fail("is given twice")
		default:
			seen |= known.bit
			if KindOf(value) != KindNull {
				known.set(into, f)
			} else if known.null != nil {
				known.null(into)
			}
		}
	}
}

// find looks a quoted name up. For an unknown one only the name is filled in.
func (s fields) find(quoted []byte) (knownField, bool) {
	inner := quoted[1 : len(quoted)-1]
	if known, ok := s[string(inner)]; ok { // no copy is made for this
		return known, true
	}
	name, ok := jsonio.Unquote(quoted)
	if !ok {
		name = string(inner)
	}
	if known, ok := s[name]; ok { // written with escapes
		return known, true
	}
	return knownField{name: httpapi.Shorten(name)}, false
}

// SetText sets a string for which empty means absent. Given as empty, it is
// more likely a mistake.
func SetText(into *string, f Field) {
	s := f.Text()
	switch {
	case s == nil:
	case *s == "":
		f.Fail("must not be empty; leave it out to get the default")
	default:
		*into = *s
	}
}

// OfText sets a part of T that is written as a string. set notes what is wrong with it
// at the pointer.
func OfText[T any](set func(into *T, e *Errors, at, s string)) func(*T, Field) {
	return func(into *T, f Field) {
		if s := f.Text(); s != nil {
			set(into, f.Errs, f.Pointer(), *s)
		}
	}
}

// Decode decodes checked JSON. The result's raw values are parts of
// data: what is kept of them must be copied. Fields with errors are absent.
func Decode[T any](data []byte, fields FieldSet[T]) (*T, *Errors) {
	return Part(data, fields, MaxErrors)
}

// Part is Decode for a part of a request. It names at most so many errors, at least one.
func Part[T any](data []byte, fields FieldSet[T], most int) (*T, *Errors) {
	into, errs := new(T), &Errors{most: max(1, most)}
	fields.Decode(jsonio.Trim(data), "", into, errs)
	return into, errs
}

// The kinds of JSON values, in the words of error messages.
const (
	KindNull   = "null"
	KindNumber = "a number"
	KindString = "a string"
)

// KindOf names the kind of a value.
func KindOf(raw []byte) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return KindString
	case 't', 'f':
		return "a boolean"
	case 'n':
		return KindNull
	}
	return KindNumber
}

// Moment is a time, before 1970 and with fractions of a millisecond, too.
func (f Field) Moment() *time.Time {
	if f.Raw[0] != '"' {
		return new(f.Instant().Time())
	}
	text, _ := jsonio.Unquote(f.Raw)
	at, err := job.ParseMoment(text)
	if err != nil {
		f.Fail(err.Error())
	}
	return &at
}

// Invalid is an error with one part of the request.
func Invalid(pointer, message string) error {
	return httpapi.Invalid(httpapi.FieldError{Pointer: pointer, Message: message})
}
