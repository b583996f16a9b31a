package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// findings gathers what is wrong with a draft, so that the client learns all
// of it at once.
type findings struct {
	fields   []FieldError
	tooLarge error
}

func (f *findings) add(pointer, message string) {
	f.fields = append(f.fields, FieldError{Pointer: pointer, Message: message})
}

// check adds err, if there is one, and reports whether there was none.
func (f *findings) check(pointer string, err error) bool {
	if err != nil {
		f.add(pointer, err.Error())
	}
	return err == nil
}

// err is a body that is too large, if there was one, or else what is wrong
// with the fields.
func (f *findings) err() error {
	switch {
	case f.tooLarge != nil:
		return f.tooLarge
	case len(f.fields) > 0:
		return &ValidationError{Fields: f.fields}
	}
	return nil
}

// given reports whether a raw value was there and not null.
func given(raw json.RawMessage) bool {
	raw = trimJSON(raw)
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
}

// trimJSON takes off what JSON counts as white space.
func trimJSON(raw json.RawMessage) json.RawMessage { return bytes.Trim(raw, jsonSpace) }

func trimLeftJSON(raw []byte) []byte {
	for len(raw) > 0 && (raw[0] == ' ' || raw[0] == '\t' || raw[0] == '\r' || raw[0] == '\n') {
		raw = raw[1:]
	}
	return raw
}

const jsonSpace = " \t\r\n"

// duration reads a field that may be absent, which is zero, and otherwise must
// lie between least and most.
func (f *findings) duration(pointer string, raw json.RawMessage, least, most time.Duration) time.Duration {
	if !given(raw) {
		return 0
	}
	d, err := ParseDelay(raw)
	if err == nil && (d < least || d > most) {
		err = fmt.Errorf("must be from %s to %s", FormatDuration(least), FormatDuration(most))
	}
	f.check(pointer, err)
	return d
}

// name reads a name that may be absent; then it is what absent says.
func (f *findings) name(pointer string, value *string, absent string) string {
	if value == nil {
		return absent
	}
	f.check(pointer, CheckName(*value))
	return *value
}
