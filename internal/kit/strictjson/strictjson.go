// Package strictjson reads JSON that others wrote, by one rule for clients and receivers:
// exactly one JSON text in UTF-8 whose values are not nested too deep.
//
// The caller walks the members of an object and decides which are valid.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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
