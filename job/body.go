package job

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"
)

// ErrBodyTooLarge is wrapped by the error for a body larger than
// Limits.MaxBody. It stands for itself, not in a ValidationError, because
// HTTP has a status of its own for it.
var ErrBodyTooLarge = errors.New("the body is too large")

// The content types of bodies that come without one.
var defaultContentType = map[BodyForm]string{
	BodyJSON:   "application/json",
	BodyText:   "text/plain; charset=utf-8",
	BodyBase64: "application/octet-stream",
}

// ContentType is the content type of a body of this form that comes without one.
func (f BodyForm) ContentType() string { return defaultContentType[f] }

// body puts the draft's body and content type into s. What is absent stays as
// it is in s, but a body in another form than before brings the default type
// of that form.
func (f *findings) body(d *Draft, s *Spec, l Limits) {
	form, content := f.bodyContent(d)
	if form != BodyNone {
		if form != s.BodyForm {
			s.ContentType = form.ContentType()
		}
		s.BodyForm, s.Body = form, content
		if len(content) > l.MaxBody {
			f.tooLarge = fmt.Errorf("%w: at most %d bytes are allowed", ErrBodyTooLarge, l.MaxBody)
		}
	}
	if d.ContentType == nil {
		return
	}
	if s.BodyForm == BodyNone {
		f.add("content_type", "needs a body, body_text or body_base64")
		return
	}
	if f.check("content_type", checkContentType(*d.ContentType)) {
		s.ContentType = *d.ContentType
	}
}

// bodyContent reads the one form in which the body is given. JSON is kept byte
// for byte, for receivers that compare or sign bytes.
func (f *findings) bodyContent(d *Draft) (BodyForm, []byte) {
	form, content := BodyNone, []byte(nil)
	take := func(field Field, as BodyForm, read func() ([]byte, error)) {
		if form != BodyNone {
			f.add(field, "must not be given beside another form of the body")
			return
		}
		form = as
		var err error
		content, err = read()
		f.check(field, err)
	}
	if given(d.Body) {
		take("body", BodyJSON, func() ([]byte, error) { return d.jsonBody() })
	}
	if d.BodyText != nil {
		take("body_text", BodyText, func() ([]byte, error) { return textBody(*d.BodyText) })
	}
	if d.BodyBase64 != nil {
		take("body_base64", BodyBase64, func() ([]byte, error) { return base64Body(*d.BodyBase64) })
	}
	if len(content) == 0 {
		content = nil // as decoders give it back
	}
	return form, content
}

func (d *Draft) jsonBody() ([]byte, error) {
	switch {
	case d.BodyChecked:
	case !utf8.Valid(d.Body):
		return nil, errors.New("must be valid UTF-8")
	case !json.Valid(d.Body):
		return nil, errors.New("must be a JSON value")
	}
	return d.Body, nil
}

func textBody(s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, errors.New("must be valid UTF-8; send other bytes as body_base64")
	}
	return []byte(s), nil
}

var strictBase64 = base64.StdEncoding.Strict()

func base64Body(s string) ([]byte, error) {
	// The decoder would skip line breaks.
	content, err := strictBase64.DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") {
		return nil, errors.New("must be base64 (RFC 4648 section 4) with padding and without line breaks")
	}
	return content, nil
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

// sameJSON reports whether two JSON values are equal but for white space between
// their tokens. Two tokens never touch without a sign of JSON's own between them,
// so it is enough to leave out what is not in a string.
func sameJSON(a, b []byte) bool {
	inString, escaped := false, false
	for {
		if !inString {
			a, b = trimLeftJSON(a), trimLeftJSON(b)
		}
		if len(a) == 0 || len(b) == 0 {
			return len(a) == len(b)
		}
		if a[0] != b[0] {
			return false
		}
		switch {
		case escaped:
			escaped = false
		case inString && a[0] == '\\':
			escaped = true
		case a[0] == '"':
			inString = !inString
		}
		a, b = a[1:], b[1:]
	}
}
