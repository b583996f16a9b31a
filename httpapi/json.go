package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNesting is how deep arrays and objects of a request may be nested, the
// callback's body included. Deeper ones are no use to a receiver and can
// exhaust its stack.
const maxNesting = 128

// checkJSON refuses what is not exactly one JSON text. The walkers below rely
// on it: they run over data that it has accepted and check no syntax.
func checkJSON(data []byte) error {
	if len(bytes.TrimLeft(data, " \t\r\n")) == 0 {
		return malformed("The request body is empty. Send a JSON object.")
	}
	if !utf8.Valid(data) {
		return malformed(fmt.Sprintf("The request body is not valid UTF-8 at byte %d.", invalidUTF8At(data)))
	}
	if quickJSON(data) {
		return nil
	}
	if !json.Valid(data) {
		return malformed(describeSyntaxError(data))
	}
	if _, depth := valueEnd(data, skipSpace(data, 0)); depth > maxNesting {
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

// members walks an object: each member's name, quoted as it stands, and value.
func members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		i := skipSpace(object, 1)
		for object[i] != '}' {
			nameEnd := stringEnd(object, i)
			name := object[i:nameEnd]
			start := skipSpace(object, skipSpace(object, nameEnd)+1) // past the colon
			end, _ := valueEnd(object, start)
			if !yield(name, object[start:end]) {
				return
			}
			i = nextItem(object, end)
		}
	}
}

// elements walks an array.
func elements(array []byte) iter.Seq[[]byte] {
	return func(yield func(value []byte) bool) {
		i := skipSpace(array, 1)
		for array[i] != ']' {
			end, _ := valueEnd(array, i)
			if !yield(array[i:end]) {
				return
			}
			i = nextItem(array, end)
		}
	}
}

// nextItem goes from the end of an item to the next one, or to the bracket
// that closes the list.
func nextItem(data []byte, i int) int {
	i = skipSpace(data, i)
	if data[i] == ',' {
		i = skipSpace(data, i+1)
	}
	return i
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// stringEnd is the index after the string that starts at data[i].
func stringEnd(data []byte, i int) int {
	i++
	// Most have no escapes, and end with the next quote.
	end := i + bytes.IndexByte(data[i:], '"')
	escape := bytes.IndexByte(data[i:end], '\\')
	if escape < 0 {
		return end + 1
	}
	for i += escape; data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// valueEnd is the index after the value that starts at data[i], and the
// number of levels that it is nested: 0 for a string, a number or a literal.
func valueEnd(data []byte, i int) (end, nested int) {
	switch data[i] {
	case '"':
		return stringEnd(data, i), 0
	case '{', '[':
		return listEnd(data, i)
	}
	for i < len(data) && bytes.IndexByte([]byte(",]} \t\r\n"), data[i]) < 0 {
		i++
	}
	return i, 0
}

func listEnd(data []byte, i int) (end, nested int) {
	for level := 0; ; {
		switch data[i] {
		case '"':
			i = stringEnd(data, i)
			continue
		case '{', '[':
			level++
			nested = max(nested, level)
		case '}', ']':
			level--
		}
		i++
		if level == 0 {
			return i, nested
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
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil || halfSurrogate(inner) {
		return "", false
	}
	return s, true
}

// halfSurrogate reports whether a \u escape of a surrogate lacks its other half.
func halfSurrogate(inner []byte) bool {
	for i := 0; i < len(inner); i++ {
		if inner[i] != '\\' {
			continue
		}
		if i++; inner[i] != 'u' {
			continue
		}
		r := escapedRune(inner[i+1:])
		i += 4
		if !utf16.IsSurrogate(r) {
			continue
		}
		rest := inner[i+1:]
		if !bytes.HasPrefix(rest, []byte(`\u`)) || utf16.DecodeRune(r, escapedRune(rest[2:])) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

// escapedRune reads the four hexadecimal digits of a \u escape.
func escapedRune(digits []byte) rune {
	n, err := strconv.ParseUint(string(digits[:4]), 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}
