package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/services/access"
)

// Large bodies, of all requests together, take a bounded amount of memory. Small ones do not count.
func TestLargeBodiesAreBoundedTogether(t *testing.T) {
	holds, goOn := make(chan struct{}), make(chan struct{})
	s, err := New(Options{Ready: func(context.Context) error { return nil }, Dialects: []Dialect{{Routes: []Route{{
		Method: http.MethodPost, Path: "/push", Scope: access.Write, Handle: func(c *Call) error {
			b, err := c.ReadBody(maxLarge)
			if err != nil {
				return err
			}
			defer Release(b)
			if c.Request.Header.Get("Wait") != "" {
				holds <- struct{}{}
				<-goOn
			}
			return c.Write(http.StatusOK, "text/plain", nil)
		},
	}}}}})
	if err != nil {
		t.Fatal(err)
	}
	push := func(bytes int, known, wait bool) int {
		body := io.Reader(strings.NewReader(strings.Repeat("x", bytes)))
		if !known {
			body = io.MultiReader(body) // in chunks
		}
		r := httptest.NewRequest(http.MethodPost, "/push", body)
		if wait {
			r.Header.Set("Wait", "1")
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return w.Code
	}
	s.large.Store(maxLarge - 1<<20) // others hold the rest
	first := make(chan int)
	go func() { first <- push(1<<20, true, true) }()
	<-holds
	for _, known := range []bool{true, false} {
		if code := push(1<<20, known, false); code != http.StatusServiceUnavailable {
			t.Errorf("a body beyond the bound: %d", code)
		}
		if code := push(firstRead, known, false); code != http.StatusOK {
			t.Errorf("a small body: %d", code)
		}
	}
	close(goOn)
	if code := <-first; code != http.StatusOK {
		t.Errorf("the body within the bound: %d", code)
	}
	if code := push(1<<20, false, false); code != http.StatusOK {
		t.Errorf("a body when there is room again: %d", code)
	}
	if held := s.large.Load(); held != maxLarge-1<<20 {
		t.Errorf("%d bytes remain counted", held-(maxLarge-1<<20))
	}
}

// A message of another protocol takes more memory than its bytes, and counts so.
func TestMessagesCountMoreThanTheirBytes(t *testing.T) {
	const size = firstRead + 100<<10
	var read error
	s, err := New(Options{
		Ready: func(context.Context) error { return nil },
		Wrap: func(_ http.Handler, known func(*http.Request) (*http.Request, error)) http.Handler {
			return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r, read = known(r); read == nil {
					_, read = io.Copy(io.Discard, r.Body)
				}
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for room, want := range map[int64]error{decodedWeight*100<<10 - 1: errBusy, decodedWeight * 100 << 10: nil} {
		s.large.Store(maxLarge - room)
		s.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", size))))
		if !errors.Is(read, want) || s.large.Load() != maxLarge-room {
			t.Errorf("with room for %d bytes: %v, %d held", room, read, s.large.Load()-maxLarge+room)
		}
	}
}

// net/http answers before it reads the rest of a body, as long as the request that it made has that body.
func TestBoundingLeavesTheServersRequest(t *testing.T) {
	s, err := New(Options{Ready: func(context.Context) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", firstRead+1)))
	body := r.Body
	s.bounding(http.HandlerFunc(func(_ http.ResponseWriter, inner *http.Request) {
		if _, ok := inner.Body.(*largeBody); !ok {
			t.Error("the body is not counted")
		}
	})).ServeHTTP(httptest.NewRecorder(), r)
	if r.Body != body {
		t.Error("the server's request has another body")
	}
}
