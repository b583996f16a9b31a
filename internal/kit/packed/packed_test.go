package packed

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestFor(t *testing.T) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte("hello"))
	_ = w.Close()
	for accepted, want := range map[string]string{"": "hello", "br": "hello", "br, gzip": b.String()} {
		r, header := httptest.NewRequest(http.MethodGet, "/", http.NoBody), http.Header{}
		r.Header.Set("Accept-Encoding", accepted)
		got, err := For(r, header, b.Bytes())
		if err != nil || string(got) != want {
			t.Errorf("Accept-Encoding %q: %q, %v", accepted, got, err)
		}
		if packed := header.Get("Content-Encoding") == "gzip"; packed != (want != "hello") || header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding %q: %v", accepted, header)
		}
	}
	if got, err := Unpack([]byte("hello")); err == nil {
		t.Errorf("unpacked what is no gzip: %q", got)
	}
	if got, err := Unpack(b.Bytes()[:b.Len()-3]); err == nil {
		t.Errorf("unpacked a part: %q", got)
	}
}
