package httpapi

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestPacked(t *testing.T) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte("hello"))
	_ = w.Close()
	text := NewPacked(b.Bytes())
	for accepted, want := range map[string]string{"": "hello", "br": "hello", "br, gzip": b.String()} {
		r, header := httptest.NewRequest(http.MethodGet, "/", http.NoBody), http.Header{}
		r.Header.Set("Accept-Encoding", accepted)
		got, err := text.For(r, header)
		if err != nil || string(got) != want {
			t.Errorf("Accept-Encoding %q: %q, %v", accepted, got, err)
		}
		if packed := header.Get("Content-Encoding") == "gzip"; packed != (want != "hello") || header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding %q: %v", accepted, header)
		}
	}
	plain := func() []byte {
		got, err := text.For(httptest.NewRequest(http.MethodGet, "/", http.NoBody), http.Header{})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if first, second := plain(), plain(); &first[0] != &second[0] {
		t.Error("each request has a copy of its own")
	}
	if got, err := unpack([]byte("hello")); err == nil {
		t.Errorf("unpacked what is no gzip: %q", got)
	}
	if got, err := unpack(b.Bytes()[:b.Len()-3]); err == nil {
		t.Errorf("unpacked a part: %q", got)
	}
}
