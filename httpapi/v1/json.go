package v1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxNesting is how deep arrays and objects of a request may be nested, the
// callback's body included. Deeper ones are no use to a receiver and can
// exhaust its stack.
const maxNesting = 128

// space is what may stand between the parts of JSON.
const space = " \t\r\n"

// lenient takes JSON whatever its names and escapes say. Those of a request are
// looked at when it is decoded; in a callback's body they are the receiver's
// business.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// checkJSON refuses what is not exactly one JSON text. The walkers below rely
// on it: they run over data that it has accepted and check no syntax.
func checkJSON(data []byte) error {
	if len(bytes.TrimLeft(data, space)) == 0 {
		return malformed("The request body is empty. Send a JSON object.")
	}
	if !utf8.Valid(data) {
		return malformed(fmt.Sprintf("The request body is not valid UTF-8 at byte %d.", invalidUTF8At(data)))
	}
	if !jsontext.Value(data).IsValid(lenient...) {
		return malformed(describeSyntaxError(data))
	}
	if depth := nesting(data); depth > maxNesting {
		return malformed(fmt.Sprintf("The request body is nested %d levels deep; at most %d are allowed.", depth, maxNesting))
	}
	return nil
}

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
func describeSyntaxError(data []byte) string {
	var any json.RawMessage
	err := json.Unmarshal(data, &any)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Sprintf("The request body is not one valid JSON text: %s, at byte %d.", syntax.Error(), syntax.Offset)
	}
	return "The request body is not one valid JSON text."
}

// nesting is how deep checked JSON is nested, or a larger number that is still
// allowed.
func nesting(data []byte) (deepest int) {
	if brackets := bytes.Count(data, []byte("{")) + bytes.Count(data, []byte("[")); brackets <= maxNesting {
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

func newDecoder(data []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(data), lenient...)
}

// walker goes through the items of an object or array.
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

// members walks an object: each member's name, quoted as it stands, and value.
func members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for w := walk(object); w.more(); {
			if name := w.next(); !yield(name, w.next()) {
				return
			}
		}
	}
}

// elements walks an array.
func elements(array []byte) iter.Seq[[]byte] {
	return func(yield func(value []byte) bool) {
		for w := walk(array); w.more(); {
			if !yield(w.next()) {
				return
			}
		}
	}
}

// unquote gives a JSON string's value. It refuses the escape of half a
// surrogate pair, which stands for no character.
func unquote(quoted []byte) (string, bool) {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), true
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	return string(text), err == nil
}
