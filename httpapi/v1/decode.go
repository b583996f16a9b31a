package v1

import (
	"encoding/base64"
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
	"github.com/duehook/duehook/internal/kit/nearest"
	"github.com/duehook/duehook/internal/kit/strictjson"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/job"
)

// maxFieldErrors bounds the errors that one answer names.
const maxFieldErrors = 32

// fieldErrors gathers what is wrong with the fields of a request.
type fieldErrors struct{ fields []httpapi.FieldError }

func (e *fieldErrors) add(pointer, message string) {
	if len(e.fields) < maxFieldErrors {
		e.fields = append(e.fields, httpapi.FieldError{Pointer: pointer, Message: message})
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
	return httpapi.Invalid(e.fields...)
}

// merge adds what validation found to what decoding found, so that the client
// learns all of it at once. A field that could not be decoded is absent for
// validation; what that says of the field, its parts and the object around it is left out.
func (e *fieldErrors) merge(err error) error {
	if len(e.fields) == 0 {
		return err
	}
	if more, ok := errors.AsType[*job.ValidationError](err); ok {
		for _, f := range httpapi.Pointers("", more.Fields) {
			related := func(known httpapi.FieldError) bool {
				return known.Pointer == f.Pointer || strings.HasPrefix(known.Pointer, f.Pointer+"/") || strings.HasPrefix(f.Pointer, known.Pointer+"/")
			}
			if !slices.ContainsFunc(e.fields, related) {
				e.add(f.Pointer, f.Message)
			}
		}
	}
	return e.err()
}

// field is one member of a request's object, as found.
type field struct {
	raw          []byte
	parent, name string
	errs         *fieldErrors
}

func (f field) pointer() string { return f.parent + "/" + httpapi.EscapePointer(f.name) }

func (f field) fail(message string) { f.errs.add(f.pointer(), message) }

// wrongType says what the field should be and what it is.
func (f field) wrongType(want string) { f.fail("must be " + want + ", not " + kindOf(f.raw)) }

// text is the value of a string, or nil after noting an error.
func (f field) text() *string {
	if f.raw[0] != '"' {
		f.wrongType("a string")
		return nil
	}
	s, ok := strictjson.Unquote(f.raw)
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

// long is integer as an int64.
func (f field) long() *int64 {
	if n := f.integer(); n != nil {
		return new(int64(*n))
	}
	return nil
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

// duration is the value of a duration: a number of whole seconds, or a string for
// job.ParseDuration. Numbers are judged by their value, as JSON Schema's integers
// are: 90, 90.0 and 9e1 are the same. After noting an error it is zero, so that
// validation does not miss the field.
func (f field) duration() *time.Duration {
	d, err := parseDuration(f.raw)
	if err != nil {
		f.fail(err.Error())
	}
	return &d
}

func parseDuration(raw []byte) (time.Duration, error) {
	switch kindOf(raw) {
	case kindString:
		s, _ := strictjson.Unquote(raw) // half a surrogate pair is in no duration
		return job.ParseDuration(s)
	case kindNumber:
		n, _ := strconv.ParseFloat(string(raw), 64) // infinite if it is too large
		return job.Seconds(n)
	}
	return 0, errors.New(`must be a number of whole seconds or a string such as "90s", "1d12h" or "PT30M"`)
}

// instant is the value of a time: a string for job.ParseTime, or Unix time as a
// number. After noting an error it is long past.
func (f field) instant() *job.Instant {
	at, err := parseInstant(f.raw)
	if err != nil {
		f.fail(err.Error())
		at = 1
	}
	return &at
}

func parseInstant(raw []byte) (job.Instant, error) {
	switch kindOf(raw) {
	case kindString:
		s, _ := strictjson.Unquote(raw)
		return job.ParseTime(s)
	case kindNumber:
		return job.ParseUnix(string(raw))
	}
	return 0, errors.New(`must be a time such as "2026-01-31T09:30:00Z" (RFC 3339), or Unix time as a number`)
}

// steps is the delays of a ladder, or nil after noting an error. Of those beyond the
// largest number, only the number matters.
func (f field) steps() []time.Duration {
	list := f.list()
	if list == nil {
		return nil
	}
	steps := make([]time.Duration, len(list))
	for i, raw := range list[:min(len(list), job.MaxRetrySteps)] {
		steps[i] = *field{raw: raw, parent: f.pointer(), name: strconv.Itoa(i), errs: f.errs}.duration()
	}
	return steps
}

// list is the elements of an array, or nil after noting an error.
func (f field) list() []json.RawMessage {
	if f.raw[0] != '[' {
		f.wrongType("an array")
		return nil
	}
	list := []json.RawMessage{}
	for element := range strictjson.Elements(f.raw) {
		list = append(list, element)
	}
	return list
}

// elements is list with the pointers of the elements.
func (f field) elements() []field {
	var all []field
	for i, raw := range f.list() {
		all = append(all, field{raw: raw, parent: f.pointer(), name: strconv.Itoa(i), errs: f.errs})
	}
	return all
}

// texts is an object whose values are strings, or nil after noting an error.
func (f field) texts() map[string]string {
	if f.raw[0] != '{' {
		f.wrongType("an object")
		return nil
	}
	texts := map[string]string{}
	for quoted, raw := range strictjson.Members(f.raw) {
		name, ok := strictjson.Unquote(quoted)
		if !ok {
			f.fail(`has a name with an incomplete \u escape`)
			continue
		}
		member := field{raw: raw, parent: f.pointer(), name: httpapi.Shorten(name), errs: f.errs}
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
	bit  uint64 // marks the field as seen
	set  func(*T, field)
	null func(*T) // what null means; nil: absent
}

// maxKnown is the most fields that an object may know: one for each bit.
const maxKnown = 64

// newFieldSet numbers the fields.
func newFieldSet[T any](setters map[string]func(*T, field)) fieldSet[T] {
	if len(setters) > maxKnown {
		panic(fmt.Sprintf("an object with %d fields: a field without a bit could be given twice", len(setters)))
	}
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
	var seen uint64
	for quoted, value := range strictjson.Members(raw) {
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
	name, ok := strictjson.Unquote(quoted)
	if !ok {
		name = string(inner)
	}
	if known, ok := s[name]; ok { // written with escapes
		return known, true
	}
	return knownField[T]{name: httpapi.Shorten(name)}, false
}

var (
	draftFields = newFieldSet(map[string]func(*job.Draft, field){
		"topic":        func(d *job.Draft, f field) { d.Topic = f.text() },
		"id":           func(d *job.Draft, f field) { d.ID = f.text() },
		"biz_key":      func(d *job.Draft, f field) { d.BizKey = f.text() },
		"order_key":    func(d *job.Draft, f field) { d.OrderKey = f.text() },
		"group":        func(d *job.Draft, f field) { d.Group = f.text() },
		"filter_label": func(d *job.Draft, f field) { d.FilterLabel = f.text() },
		"url":          func(d *job.Draft, f field) { d.Destination = (*job.Destination)(f.text()) },
		"method":       func(d *job.Draft, f field) { d.Method = f.text() },
		"delay":        func(d *job.Draft, f field) { d.Delay = f.duration() },
		"at":           func(d *job.Draft, f field) { d.At = f.instant() },
		"spread":       func(d *job.Draft, f field) { d.Spread = f.duration() },
		"body":         func(d *job.Draft, f field) { setBody(d, f, job.BodyJSON, f.raw) },
		"body_text":    setBodyText,
		"body_base64":  setBodyBase64,
		"content_type": func(d *job.Draft, f field) { d.ContentType = f.text() },
		"headers":      func(d *job.Draft, f field) { d.Headers = f.texts() },
		"timeout":      func(d *job.Draft, f field) { d.Timeout = f.duration() },
		"ttl":          func(d *job.Draft, f field) { d.TTL = f.duration() },
		"on_conflict":  func(d *job.Draft, f field) { d.OnConflict = f.text() },
		"labels":       func(d *job.Draft, f field) { d.Labels = f.texts() },
		"priority":     func(d *job.Draft, f field) { d.Priority = f.integer() },
		"again_body":   func(d *job.Draft, f field) { d.AgainBody = new(f.boolean()) },
		"retry":        func(d *job.Draft, f field) { d.Retry = decodeRetry(f) },
		"callbacks":    func(d *job.Draft, f field) { d.Callbacks = decodeCallbacks(f) },
		"count": func(d *job.Draft, f field) {
			var count job.CountDraft
			countFields.decode(f.raw, f.pointer(), &count, f.errs)
			if f.raw[0] == '{' { // otherwise its target would be missed, too
				d.Count = &count
			}
		},
		"expect": func(d *job.Draft, f field) {
			expectFields.decode(f.raw, f.pointer(), d, f.errs)
			d.NoExpect = d.Expect == nil
		},
	}).withNull(map[string]func(*job.Draft){
		"biz_key": func(d *job.Draft) { d.NoBizKey = true },
		"expect":  func(d *job.Draft) { d.NoExpect = true },
	})
	retryFields = newFieldSet(map[string]func(*job.Retry, field){
		"steps": func(r *job.Retry, f field) { r.Steps = f.steps() },
		"limit": func(r *job.Retry, f field) { r.Limit = f.integer() },
	})
	countFields = newFieldSet(map[string]func(*job.CountDraft, field){
		"target":      func(c *job.CountDraft, f field) { c.Target = f.long() },
		"at_deadline": func(c *job.CountDraft, f field) { c.AtDeadline = f.text() },
	})
	addFields = newFieldSet(map[string]func(*job.AddDraft, field){
		"add": func(a *job.AddDraft, f field) { a.N = f.long() },
		"key": func(a *job.AddDraft, f field) { a.Key = f.text() },
	})
	expectFields = newFieldSet(map[string]func(*job.Draft, field){
		"body": func(d *job.Draft, f field) { d.Expect = f.text() },
	})
	batchFields = newFieldSet(map[string]func(*batch, field){
		"jobs": func(b *batch, f field) { b.jobs = f.list() },
	})
	keyFields = newFieldSet(map[string]func(*access.Draft, field){
		"name":       func(d *access.Draft, f field) { setText(&d.Name, f) },
		"scope":      func(d *access.Draft, f field) { setText(&d.Scope, f) },
		"expires_at": func(d *access.Draft, f field) { setText(&d.ExpiresAt, f) },
		"rate":       func(d *access.Draft, f field) { setText(&d.Rate, f) },
		"topics":     setTopicSet,
	})
	noFields = newFieldSet(map[string]func(*struct{}, field){})
)

func decodeRetry(f field) *job.Retry {
	r := &job.Retry{}
	retryFields.decode(f.raw, f.pointer(), r, f.errs)
	return r
}

// setBody sets the body, whose content may point into the request.
func setBody(d *job.Draft, f field, form job.BodyForm, content []byte) {
	if d.Body != nil {
		f.fail("must not be combined with another form of the body")
		return
	}
	d.Body = &job.Body{Form: form, Content: content}
}

func setBodyText(d *job.Draft, f field) {
	if s := f.text(); s != nil {
		setBody(d, f, job.BodyText, []byte(*s))
	}
}

var strictBase64 = base64.StdEncoding.Strict()

func setBodyBase64(d *job.Draft, f field) {
	s := f.text()
	if s == nil {
		return
	}
	content, err := strictBase64.DecodeString(*s)
	if err != nil || strings.ContainsAny(*s, "\r\n") { // the decoder skips line breaks
		f.fail("must be base64 (RFC 4648 section 4) with padding and without line breaks")
	}
	setBody(d, f, job.BodyBase64, content)
}

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

// ofText sets a part of T that is written as a string. set notes what is wrong with it
// at the pointer.
func ofText[T any](set func(into *T, e *fieldErrors, at, s string)) func(*T, field) {
	return func(into *T, f field) {
		if s := f.text(); s != nil {
			set(into, f.errs, f.pointer(), *s)
		}
	}
}

// batch is the body of a batch registration: its jobs, each yet to be decoded.
type batch struct{ jobs []json.RawMessage }

// decodeObject decodes checked JSON. The result's raw values are parts of
// data: what is kept of them must be copied. Fields with errors are absent.
func decodeObject[T any](data []byte, fields fieldSet[T]) (*T, *fieldErrors) {
	into, errs := new(T), new(fieldErrors)
	fields.decode(strictjson.Trim(data), "", into, errs)
	return into, errs
}

// The kinds of JSON values, in the words of error messages.
const (
	kindNull   = "null"
	kindNumber = "a number"
	kindString = "a string"
)

func kindOf(raw []byte) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return kindString
	case 't', 'f':
		return "a boolean"
	case 'n':
		return kindNull
	}
	return kindNumber
}

// setTopicSet decodes topics of a key. Beyond the largest number, only the number matters.
func setTopicSet(d *access.Draft, f field) {
	list := f.list()
	if list == nil {
		return
	}
	d.Topics = make([]string, len(list))
	for i, raw := range list[:min(len(list), job.MaxTopicSet)] {
		one := field{raw: raw, parent: f.pointer(), name: strconv.Itoa(i), errs: f.errs}
		if text := one.text(); text != nil {
			d.Topics[i] = *text
		}
	}
}
