// Package packed serves what the binary holds as gzip.
package packed

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Unpack returns the content of text in gzip.
func Unpack(text []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return content, nil
}

// Text is a text in gzip. It is unpacked once: clients that read slowly must not hold a copy each.
type Text struct {
	gzip  []byte
	plain func() ([]byte, error)
}

// New returns a Text.
func New(gzip []byte) Text {
	return Text{gzip, sync.OnceValues(func() ([]byte, error) { return Unpack(gzip) })}
}

// For returns the text in gzip if the request accepts that, and unpacked otherwise. It sets
// the headers of the answer that say so. The caller must not change the result.
func (t Text) For(r *http.Request, header http.Header) ([]byte, error) {
	header.Add("Vary", "Accept-Encoding")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		return t.plain()
	}
	header.Set("Content-Encoding", "gzip")
	return t.gzip, nil
}
