package job

import (
	"errors"
	"fmt"
	"slices"
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
	Message string // the error and the remedy
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

// Invalid is the error of one field.
func Invalid(field Field, message string) error {
	return &ValidationError{Fields: []FieldError{{Field: field, Message: message}}}
}

// MaxFindings bounds the errors of a request that its client gets.
const MaxFindings = 32

// Findings collects the errors of a request, so that the client gets all of them at once, up to MaxFindings.
type Findings struct {
	fields   []FieldError
	tooLarge error
}

// Add adds the error of a field, once.
func (f *Findings) Add(field Field, message string) {
	if e := (FieldError{Field: field, Message: message}); len(f.fields) < MaxFindings && !slices.Contains(f.fields, e) {
		f.fields = append(f.fields, e)
	}
}

// Check adds err, if there is one, and reports whether there was none.
func (f *Findings) Check(field Field, err error) bool {
	if err != nil {
		f.Add(field, err.Error())
	}
	return err == nil
}

// Take adds the fields of a *ValidationError, as parts of outer. It returns any other
// error.
func (f *Findings) Take(outer Field, err error) error {
	wrong, ok := errors.AsType[*ValidationError](err)
	if !ok {
		return err
	}
	for _, found := range wrong.Fields {
		f.Add(found.Field.Within(outer), found.Message)
	}
	return nil
}

// Err returns the error of a body that is too large, or else a *ValidationError. Nil:
// nothing was found.
func (f *Findings) Err() error {
	switch {
	case f.tooLarge != nil:
		return f.tooLarge
	case len(f.fields) > 0:
		return &ValidationError{Fields: f.fields}
	}
	return nil
}

// Duration reads a duration that may be absent, and otherwise must lie between least and
// most.
func (f *Findings) Duration(field Field, d *time.Duration, absent, least, most time.Duration) time.Duration {
	if d == nil {
		return absent
	}
	if *d < least || *d > most {
		f.Add(field, fmt.Sprintf("must be from %s to %s", FormatDuration(least), FormatDuration(most)))
	}
	return *d
}

// name reads a name; absent is the value of an absent one.
func (f *Findings) name(field Field, value *string, absent string) string {
	if value == nil {
		return absent
	}
	f.Check(field, CheckName(*value))
	return *value
}
