package job

import (
	"errors"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"
)

// ErrBodyTooLarge is wrapped by every BodyTooLargeError.
var ErrBodyTooLarge = errors.New("the body is too large")

// BodyTooLargeError refuses a body larger than Max, which is Bounds.MaxBody. It is not
// part of a ValidationError, because HTTP has a status of its own for it.
type BodyTooLargeError struct{ Max int }

func (e *BodyTooLargeError) Error() string {
	return fmt.Sprintf("%v: at most %d bytes are allowed", ErrBodyTooLarge, e.Max)
}

func (e *BodyTooLargeError) Unwrap() error { return ErrBodyTooLarge }

// The default content types.
var defaultContentType = map[BodyForm]string{
	BodyJSON:   "application/json",
	BodyText:   "text/plain; charset=utf-8",
	BodyBase64: "application/octet-stream",
}

// ContentType is the default content type of a body of this form.
func (f BodyForm) ContentType() string { return defaultContentType[f] }

// bodyFields are the fields of the API for the forms.
var bodyFields = map[BodyForm]Field{BodyJSON: "body", BodyText: "body_text", BodyBase64: "body_base64"}

// body stores the draft's body and content type in s. Absent fields keep their
// value, but a body in a new form gets the default type of that form. Content is kept byte for byte, for
// receivers that compare or sign bytes.
func (f *Findings) body(d *Draft, s *Spec, l Bounds) {
	if b := d.Body; b != nil {
		if b.Form != s.BodyForm {
			s.ContentType = b.Form.ContentType()
		}
		if s.BodyForm, s.Body = b.Form, b.Content; len(b.Content) == 0 {
			s.Body = nil // as decoders return it
		}
		if b.Form == BodyText && !utf8.Valid(b.Content) {
			f.Add(bodyFields[b.Form], "must be valid UTF-8; send other bytes as body_base64")
		}
		if len(b.Content) > l.MaxBody {
			f.tooLarge = &BodyTooLargeError{l.MaxBody}
		}
	}
	if d.ContentType == nil {
		return
	}
	if s.BodyForm == BodyNone {
		f.Add("content_type", "needs a body, body_text or body_base64")
		return
	}
	// A dialect may send none.
	if *d.ContentType == "" && s.Dialect != nil || f.Check("content_type", checkContentType(*d.ContentType)) {
		s.ContentType = *d.ContentType
	}
}

func checkContentType(s string) error {
	if len(s) > MaxContentType {
		return fmt.Errorf("must have at most %d characters", MaxContentType)
	}
	// The parser trims spaces, and takes a lone word for a disposition.
	kind, _, err := mime.ParseMediaType(s)
	if err != nil || !strings.Contains(kind, "/") || !isHeaderASCII(s) {
		return errors.New(`must be a media type such as "application/json"`)
	}
	return nil
}

func isHeaderASCII(s string) bool {
	return strings.Trim(s, " \t") == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return r > '~' || r < ' ' && r != '\t' })
}
