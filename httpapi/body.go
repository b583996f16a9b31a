package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/duehook/duehook/internal/kit/jsonio"
)

// firstRead bounds the memory that a mere Content-Length can claim, in bytes.
const firstRead = 64 << 10

// ReadBody reads a body of up to limit bytes. The caller releases the buffer after its
// last use.
func (c *Call) ReadBody(limit int64) (*bytes.Buffer, error) {
	if c.Request.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	if err := c.tooLarge(c.Request.ContentLength); err != nil {
		return nil, err
	}
	b := Buffer()
	b.Grow(int(min(max(c.Request.ContentLength, 0), firstRead)) + bytes.MinRead)
	_, err := b.ReadFrom(http.MaxBytesReader(c.Writer, c.Request.Body, limit))
	if err == nil {
		return b, nil
	}
	Release(b)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge(limit)
	}
	if refused, ok := errors.AsType[*Error](err); ok { // there is no memory for more
		return nil, refused
	}
	return nil, &Error{
		Code: CodeMalformedJSON, Cause: err,
		Detail: "The request body ended too early or came too slowly. Send it again.",
	}
}

// HasBody reports whether the request has a body that is not empty.
func (c *Call) HasBody() bool {
	r := c.Request
	if r.ContentLength >= 0 {
		return r.ContentLength > 0
	}
	body := bufio.NewReader(r.Body)
	_, err := body.Peek(1)
	r.Body = struct {
		io.Reader
		io.Closer
	}{body, r.Body}
	return !errors.Is(err, io.EOF)
}

// ReadJSON is ReadBody for a body that must be one JSON text of the type
// application/json.
func (c *Call) ReadJSON(limit int64) (*bytes.Buffer, error) {
	return c.readText(limit, MIMEJSON)
}

// ReadMergePatch is ReadJSON for a JSON Merge Patch (RFC 7396), which may have a type of its own.
func (c *Call) ReadMergePatch(limit int64) (*bytes.Buffer, error) {
	return c.readText(limit, MIMEMergePatch, MIMEJSON)
}

func (c *Call) readText(limit int64, types ...string) (*bytes.Buffer, error) {
	if err := checkMediaType(c.Request, types); err != nil {
		return nil, err
	}
	b, err := c.ReadBody(limit)
	if err != nil {
		return nil, err
	}
	if err := checkJSON(b.Bytes()); err != nil {
		Release(b)
		return nil, err
	}
	return b, nil
}

// MIMEMergePatch is the type of a JSON Merge Patch (RFC 7396).
const MIMEMergePatch = "application/merge-patch+json"

// checkMediaType wants plain, unencoded JSON in UTF-8, of one of the types.
func checkMediaType(r *http.Request, types []string) error {
	unsupportedMedia := func(detail string) error {
		return &Error{Code: CodeUnsupportedMediaType, Detail: detail, Accept: strings.Join(types, ", ")}
	}
	h := r.Header
	if encoding := strings.Join(h.Values("Content-Encoding"), ", "); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return unsupportedMedia("The Content-Encoding " + Shorten(encoding) + " is not supported. Send the body as it is.")
	}
	given := strings.Join(h.Values("Content-Type"), ", ")
	if given == MIMEJSON {
		return nil
	}
	if given == "" {
		return unsupportedMedia("There is no Content-Type. Send application/json.")
	}
	mediaType, params, err := mime.ParseMediaType(given)
	if err != nil || !slices.Contains(types, mediaType) {
		return unsupportedMedia("The Content-Type " + Shorten(given) + " is not supported. Send application/json.")
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return unsupportedMedia("The charset " + Shorten(charset) + " is not supported. Send UTF-8.")
	}
	return nil
}

// checkJSON refuses a body that is no JSON text.
func checkJSON(data []byte) error {
	err := jsonio.Check(data)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jsonio.ErrEmpty):
		return malformed("The request body is empty. Send a JSON object.")
	}
	return malformed("The request body " + err.Error() + ".")
}

func malformed(detail string) error {
	return &Error{Code: CodeMalformedJSON, Detail: detail}
}

// Shorten bounds what an error repeats of the client's words.
func Shorten(s string) string {
	const most = 64
	runes := 0
	for i := range s {
		if runes++; runes > most {
			return s[:i] + "…"
		}
	}
	return s
}

func tooLarge(limit int64) error {
	return &Error{
		Code:   CodeBodyTooLarge,
		Detail: fmt.Sprintf("The request is larger than %d bytes, the limit of this call. Store a large payload elsewhere and send its URL.", limit),
	}
}
