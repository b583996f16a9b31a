package job

import (
	"fmt"
	"strings"
	"time"
)

// Field is the path to a field of the domain: the names of the fields around it
// and its own, joined by dots, such as retry.steps.0 or headers.X-Tenant. Empty is
// the whole. Fronts map it to their own names.
type Field string

var (
	fieldEscaper   = strings.NewReplacer(`\`, `\\`, `.`, `\.`)
	fieldUnescaper = strings.NewReplacer(`\\`, `\`, `\.`, `.`, `.`, "\x00")
)

// In is the field of a name within another one. The name may be a client's.
func (f Field) In(name string) Field {
	if name = fieldEscaper.Replace(name); f == "" {
		return Field(name)
	}
	return f + "." + Field(name)
}

// Within is the field as a part of another one.
func (f Field) Within(outer Field) Field {
	if f == "" || outer == "" {
		return outer + f
	}
	return outer + "." + f
}

// Parts are the names in the path.
func (f Field) Parts() []string {
	if f == "" {
		return nil
	}
	return strings.Split(fieldUnescaper.Replace(string(f)), "\x00")
}

// FieldError is one error of one field.
type FieldError struct {
	Field   Field
	Message string // what is wrong and what would be right
}

// ValidationError is every FieldError found.
type ValidationError struct{ Fields []FieldError }

func (e *ValidationError) Error() string {
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		parts[i] = string(f.Field) + ": " + f.Message
	}
	return strings.Join(parts, "; ")
}

// findings collects the errors of a draft, so that the client gets all of them at
// once.
type findings struct {
	fields   []FieldError
	tooLarge error
}

func (f *findings) add(field Field, message string) {
	f.fields = append(f.fields, FieldError{Field: field, Message: message})
}

// check adds err, if there is one, and reports whether there was none.
func (f *findings) check(field Field, err error) bool {
	if err != nil {
		f.add(field, err.Error())
	}
	return err == nil
}

// err returns the error of a body that is too large, or else the errors of the
// fields.
func (f *findings) err() error {
	switch {
	case f.tooLarge != nil:
		return f.tooLarge
	case len(f.fields) > 0:
		return &ValidationError{Fields: f.fields}
	}
	return nil
}

// duration reads a field that may be absent, which is zero, and otherwise must lie
// between least and most.
func (f *findings) duration(field Field, d *time.Duration, least, most time.Duration) time.Duration {
	if d == nil {
		return 0
	}
	if *d < least || *d > most {
		f.add(field, fmt.Sprintf("must be from %s to %s", FormatDuration(least), FormatDuration(most)))
	}
	return *d
}

// name reads a name; absent is the value of an absent one.
func (f *findings) name(field Field, value *string, absent string) string {
	if value == nil {
		return absent
	}
	f.check(field, CheckName(*value))
	return *value
}
