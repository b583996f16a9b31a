package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
)

// firstRead bounds the memory that a mere Content-Length can claim, in bytes.
const firstRead = 64 << 10

// ReadBody reads a body of up to limit bytes. The caller releases the buffer after its
// last use.
func (c *Call) ReadBody(limit int64) (*bytes.Buffer, error) {
	if c.Request.ContentLength > limit {
		return nil, tooLarge(limit)
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
	return nil, &Error{
		Code: CodeMalformedJSON, Cause: err,
		Detail: "The request body ended too early or came too slowly. Send it again.",
	}
}

func tooLarge(limit int64) error {
	return &Error{
		Code:   CodeBodyTooLarge,
		Detail: fmt.Sprintf("The request is larger than %d bytes, the limit of this call. Store a large payload elsewhere and send its URL.", limit),
	}
}
