package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/job"
)

// bodyKind says what a call takes as its body.
type bodyKind uint8

const (
	bodyRefused      bodyKind = iota // no body
	bodyIgnored                      // calls for machines that probe: anything goes
	bodyJSON                         // a JSON object
	bodyEmptyJSON                    // nothing, or {}
	bodyOptionalJSON                 // nothing, or a JSON object
)

// bodies are the buffers into which request bodies are read. What a job keeps
// of its body is copied out of them.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keptBuffer bounds the buffers that wait for their next use.
const keptBuffer = 1 << 20

func release(b *bytes.Buffer) {
	if b.Cap() <= keptBuffer {
		b.Reset()
		bodies.Put(b)
	}
}

// readJSON reads a JSON body of up to limit bytes and checks its syntax. The
// caller releases the buffer when it is done with everything that points into it.
func readJSON(c echo.Context, limit int64) (*bytes.Buffer, error) {
	r := c.Request()
	if err := checkMediaType(r.Header); err != nil {
		return nil, err
	}
	b, err := readBody(c, limit)
	if err != nil {
		return nil, err
	}
	if err := checkJSON(b.Bytes()); err != nil {
		release(b)
		return nil, err
	}
	return b, nil
}

// firstRead bounds the memory that a mere Content-Length can claim.
const firstRead = 64 << 10

func readBody(c echo.Context, limit int64) (*bytes.Buffer, error) {
	r := c.Request()
	if r.ContentLength > limit {
		return nil, requestTooLarge(limit)
	}
	b := bodies.Get().(*bytes.Buffer)
	b.Grow(int(min(max(r.ContentLength, 0), firstRead)) + bytes.MinRead)
	_, err := b.ReadFrom(http.MaxBytesReader(c.Response().Writer, r.Body, limit))
	if err == nil {
		return b, nil
	}
	release(b)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, requestTooLarge(limit)
	}
	return nil, &apiError{
		code: codeMalformedJSON, cause: err,
		detail: "The request body ended too early or came too slowly. Send it again.",
	}
}

func requestTooLarge(limit int64) error {
	return &apiError{
		code:   codeBodyTooLarge,
		detail: fmt.Sprintf("The request is larger than the %d bytes that this call takes. Send less; a large payload is better stored elsewhere and named by its URL.", limit),
	}
}

// checkMediaType wants plain, unencoded JSON in UTF-8.
func checkMediaType(h http.Header) error {
	if encoding := h.Get(echo.HeaderContentEncoding); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return unsupportedMedia("The Content-Encoding " + shorten(encoding) + " is not supported. Send the body as it is.")
	}
	given := h.Get(echo.HeaderContentType)
	if given == echo.MIMEApplicationJSON {
		return nil
	}
	if given == "" {
		return unsupportedMedia("There is no Content-Type. Send application/json.")
	}
	mediaType, params, err := mime.ParseMediaType(given)
	if err != nil || mediaType != echo.MIMEApplicationJSON {
		return unsupportedMedia("The Content-Type " + shorten(given) + " is not supported. Send application/json.")
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return unsupportedMedia("The charset " + shorten(charset) + " is not supported. Send UTF-8.")
	}
	return nil
}

func unsupportedMedia(detail string) error {
	return &apiError{code: codeUnsupportedMediaType, detail: detail}
}

// checkNoBody refuses a body where none has a meaning, as a client that sends
// one expects something that will not happen.
func checkNoBody(c echo.Context) error {
	r := c.Request()
	if r.ContentLength == 0 {
		return nil
	}
	if r.ContentLength < 0 {
		if n, err := io.ReadFull(r.Body, make([]byte, 1)); n == 0 && errors.Is(err, io.EOF) {
			return nil
		}
	}
	return invalid("", "this call takes no body")
}

// checkEmptyJSON accepts no body, or an object without fields.
func checkEmptyJSON(c echo.Context) error {
	const limit = 1 << 10
	b, err := readOptionalJSON(c, limit)
	if err != nil || b == nil {
		return err
	}
	defer release(b)
	_, errs := decodeObject(b.Bytes(), noFields)
	return errs.err()
}

// readOptionalJSON is readJSON for calls that need no body: nil is none.
func readOptionalJSON(c echo.Context, limit int64) (*bytes.Buffer, error) {
	r := c.Request()
	if r.ContentLength == 0 {
		return nil, nil
	}
	b, err := readBody(c, limit)
	if err != nil {
		return nil, err
	}
	if b.Len() == 0 {
		release(b)
		return nil, nil
	}
	err = checkMediaType(r.Header)
	if err == nil {
		err = checkJSON(b.Bytes())
	}
	if err != nil {
		release(b)
		return nil, err
	}
	return b, nil
}

// checkQuery refuses query parameters that the call does not have, and those
// given twice that may not be.
func checkQuery(u *url.URL, known []string) error {
	if u.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return invalid("?", "the query string cannot be parsed; percent-encode what is not a letter, digit, or one of -._~")
	}
	var errs fieldErrors
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case !slices.Contains(known, name):
			errs.unknown("?"+shorten(name), "is not a query parameter of this call", name, slices.Values(known), "?")
		case repeats(query, name):
			errs.add("?"+name, "is given more than once")
		}
	}
	return errs.err()
}

// pathParam is a name from the path. The router matches the path as the
// client wrote it whenever decoding would lose something; only then is its
// part still encoded.
func pathParam(c echo.Context, name string) (string, error) {
	value := c.Param(name)
	if strings.Contains(value, "/") {
		return "", echo.ErrNotFound // the router lets the last part of a path hold slashes
	}
	if c.Request().URL.RawPath != "" {
		decoded, err := url.PathUnescape(value)
		if err != nil {
			return "", invalid("/"+name, "is not properly percent-encoded")
		}
		value = decoded
	}
	return value, checkName("/"+name, value)
}

// pathKey is the key of the job that the path names.
func pathKey(c echo.Context) (job.Key, error) {
	topic, err := pathParam(c, "topic")
	if err != nil {
		return job.Key{}, err
	}
	id, err := pathParam(c, "id")
	return job.Key{Topic: topic, ID: id}, err
}

// singleHeader is the value of a header that may be given once.
func singleHeader(h http.Header, name string) (string, error) {
	values := h.Values(name)
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", invalid(name, "is given more than once")
}

// parameters yields the given ones among known query parameters, as pointers of
// errors ("?topic") with their values, in the order of known.
func parameters(c echo.Context, known []string) iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		given := c.QueryParams()
		for _, name := range known {
			if values, ok := given[name]; ok && !yield("?"+name, values) {
				return
			}
		}
	}
}
