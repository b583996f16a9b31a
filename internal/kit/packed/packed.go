// Package packed serves what the binary holds as gzip.
package packed

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
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

// For returns text, which is gzip, as it is if the request accepts that, and unpacked otherwise. It sets
// the headers of the answer that say so.
func For(r *http.Request, header http.Header, text []byte) ([]byte, error) {
	header.Add("Vary", "Accept-Encoding")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		return Unpack(text)
	}
	header.Set("Content-Encoding", "gzip")
	return text, nil
}
