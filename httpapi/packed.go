package httpapi

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// unpack returns the content of text in gzip.
func unpack(text []byte) ([]byte, error) {
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

// Packed is a text that the binary holds in gzip. It is unpacked once: clients that read slowly must not hold a copy each.
type Packed struct {
	gzip  []byte
	plain func() ([]byte, error)
}

// NewPacked returns a Packed.
func NewPacked(gzip []byte) Packed {
	return Packed{gzip, sync.OnceValues(func() ([]byte, error) { return unpack(gzip) })}
}

// For returns the text in gzip if the request accepts that, and unpacked otherwise. It sets
// the headers of the answer that say so. The caller must not change the result.
func (t Packed) For(r *http.Request, header http.Header) ([]byte, error) {
	header.Add("Vary", "Accept-Encoding")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		return t.plain()
	}
	header.Set("Content-Encoding", "gzip")
	return t.gzip, nil
}
