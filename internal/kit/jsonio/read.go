// Package jsonio reads JSON that others wrote, by one rule for clients and receivers: exactly one JSON text in
// UTF-8 whose values are not nested too deep. The caller walks the members of an object and decides which are valid.
//
// It writes JSON without reflection, which took a sixth of a node's time for a batch.
package jsonio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxNesting is how deep arrays and objects may be nested, the body of a job included.
// Deeper ones are no use to a receiver and can exhaust its stack.
const MaxNesting = 128

// space has the characters allowed between tokens of JSON.
const space = " \t\r\n"

// lenient takes JSON whatever its names and escapes say. Those of a request are
// looked at when it is decoded; in the body of a job they are the receiver's
// business.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// ErrEmpty is Check's error for nothing but white space.
var ErrEmpty = errors.New("is empty")

// Check refuses data that is not exactly one JSON text within the limits. Its error
// continues a sentence about the text. The functions below need data that Check has
// accepted, without white space at its start, and check no syntax.
func Check(data []byte) error {
	if len(Trim(data)) == 0 {
		return ErrEmpty
	}
	if !utf8.Valid(data) {
		return fmt.Errorf("is not valid UTF-8 at byte %d", invalidUTF8At(data))
	}
	if !jsontext.Value(data).IsValid(lenient...) {
		return describeSyntaxError(data)
	}
	if depth := nesting(data); depth > MaxNesting {
		return fmt.Errorf("is nested %d levels deep; at most %d are allowed", depth, MaxNesting)
	}
	return nil
}

// Trim removes white space before the JSON.
func Trim(data []byte) []byte { return bytes.TrimLeft(data, space) }

func invalidUTF8At(data []byte) int {
	at := 0
	for at < len(data) {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at
}

// describeSyntaxError parses data once more, for the place of the error.
func describeSyntaxError(data []byte) error {
	var any json.RawMessage
	err := json.Unmarshal(data, &any)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("is not one valid JSON text: %w, at byte %d", syntax, syntax.Offset)
	}
	return errors.New("is not one valid JSON text")
}

// nesting is how deep checked JSON is nested, or a larger number that is still
// allowed.
func nesting(data []byte) (deepest int) {
	if brackets := bytes.Count(data, []byte("{")) + bytes.Count(data, []byte("[")); brackets <= MaxNesting {
		return brackets
	}
	d := newDecoder(data)
	for {
		if _, err := d.ReadToken(); err != nil {
			return deepest
		}
		deepest = max(deepest, d.StackDepth())
	}
}

// perObject is as how many parts an object counts: an empty one may become a value of many fields.
const perObject = 10

// Parts counts the tokens of JSON up to the first error: the values, the names, and the ends of arrays and objects. It
// stops beyond most.
func Parts(data []byte, most int) (n int) {
	d := newDecoder(data)
	for n <= most {
		token, err := d.ReadToken()
		if err != nil {
			break
		}
		if n++; token.Kind() == jsontext.KindBeginObject {
			n += perObject
		}
	}
	return n
}

func newDecoder(data []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(data), lenient...)
}

// walker walks the items of an object or array.
type walker struct {
	list    []byte
	decoder *jsontext.Decoder
}

// walk begins with the first item. The list was checked: there are no errors.
func walk(list []byte) walker {
	w := walker{list, newDecoder(list)}
	_, _ = w.decoder.ReadToken()
	return w
}

func (w walker) more() bool {
	switch w.decoder.PeekKind() {
	case jsontext.KindInvalid, jsontext.KindEndObject, jsontext.KindEndArray:
		return false
	}
	return true
}

// next is the next name or value, as a part of the list.
func (w walker) next() []byte {
	item, _ := w.decoder.ReadValue()
	end := w.decoder.InputOffset()
	return w.list[end-int64(len(item)) : end]
}

// Members walks an object: each member's name, quoted as it stands, and value.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for w := walk(object); w.more(); {
			if name := w.next(); !yield(name, w.next()) {
				return
			}
		}
	}
}

// Elements walks an array.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func(value []byte) bool) {
		for w := walk(array); w.more(); {
			if !yield(w.next()) {
				return
			}
		}
	}
}

// AppendSorted appends a form of a value that ignores the order of the members of objects and white space
// between tokens. Strings and numbers count as they are written. The form is for comparisons; it is no JSON.
func AppendSorted(b, value []byte) []byte {
	b, _ = appendSorted(b, Trim(value))
	return b
}

// appendSorted also returns what follows the value.
func appendSorted(b, value []byte) (form, rest []byte) {
	switch value[0] {
	case '"':
		n := stringEnd(value)
		return append(b, value[:n]...), value[n:]
	case '{', '[':
		return appendItems(b, value)
	}
	n := bytes.IndexAny(value, ",]}"+space)
	if n < 0 {
		n = len(value)
	}
	return append(b, value[:n]...), value[n:]
}

// appendItems writes a comma behind each item, so that members can be exchanged.
func appendItems(b, list []byte) (form, rest []byte) {
	object, end := list[0] == '{', list[0]+2
	b = append(b, list[0])
	first, last, inOrder := len(b), len(b), true
	var starts []int
	for rest = skipSpace(list[1:]); rest[0] != end; {
		start := len(b)
		if object {
			n := stringEnd(rest)
			b = append(append(b, rest[:n]...), ':')
			rest = skipSpace(skipSpace(rest[n:])[1:])
		}
		b, rest = appendSorted(b, rest)
		b = append(b, ',')
		if rest = skipSpace(rest); rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
		if object {
			inOrder = inOrder && bytes.Compare(b[last:start], b[start:]) <= 0
			starts, last = append(starts, start), start
		}
	}
	if !inOrder {
		sortMembers(b[first:], first, starts)
	}
	return append(b, end), rest[1:]
}

// sortMembers sorts members, of which the first starts at an offset.
func sortMembers(b []byte, offset int, starts []int) {
	old := bytes.Clone(b)
	members := make([][]byte, len(starts))
	for i, start := range starts {
		next := len(old)
		if i+1 < len(starts) {
			next = starts[i+1] - offset
		}
		members[i] = old[start-offset : next]
	}
	slices.SortFunc(members, bytes.Compare)
	for _, m := range members {
		b = b[copy(b, m):]
	}
}

// stringEnd is the length of the string at the start of s.
func stringEnd(s []byte) int {
	for i := 1; ; i++ {
		i += bytes.IndexByte(s[i:], '"')
		escapes := 0
		for s[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

func skipSpace(s []byte) []byte {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t' || s[0] == '\r' || s[0] == '\n') {
		s = s[1:]
	}
	return s
}

// Unquote returns the value of a JSON string. It refuses the escape of half a surrogate
// pair, which is no character.
func Unquote(quoted []byte) (string, bool) {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), true
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	return string(text), err == nil
}
