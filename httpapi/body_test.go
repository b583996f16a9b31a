package httpapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/memory"
	"github.com/duehook/duehook/internal/services/access"
)

// pushes is a server with a budget of 8 MiB and a call that reads a body of up to 4 MiB.
func pushes(t *testing.T, handle func(*Call) error) (*Server, *memory.Budget) {
	t.Helper()
	budget := memory.New(8<<20, job.SystemClock())
	s, err := New(Options{Ready: func(context.Context) error { return nil }, Memory: budget, Dialects: []Dialect{{Routes: []Route{{
		Method: http.MethodPost, Path: "/push", Scope: access.Write, Handle: func(c *Call) error {
			b, err := c.ReadBody(4 << 20)
			if err != nil {
				return err
			}
			defer Release(b)
			if handle != nil {
				return handle(c)
			}
			return c.Write(http.StatusOK, "text/plain", nil)
		},
	}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return s, budget
}

// push sends a body, with or without its length.
func push(s *Server, bytes int, known bool) *httptest.ResponseRecorder {
	body := io.Reader(strings.NewReader(strings.Repeat("x", bytes)))
	if !known {
		body = io.MultiReader(body) // in chunks
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/push", body))
	return w
}

// Each byte of a body counts, from the first one on, until the call is answered. Who finds no room gets 503 with Retry-After,
// and what is larger than a share 413, however it comes.
func TestBodiesCount(t *testing.T) {
	s, budget := pushes(t, nil)
	others := budget.Hold(nil)
	for _, known := range []bool{true, false} {
		if w := push(s, 300<<10, known); w.Code != http.StatusOK {
			t.Errorf("a body within a share: %d %s", w.Code, w.Body)
		}
		if w := push(s, 350<<10, known); w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "--memory-budget") {
			t.Errorf("a body that takes more than a share: %d %s", w.Code, w.Body)
		}
	}
	for range 7 { // others hold nearly all
		h := budget.Hold(nil)
		if err := h.Add(1 << 20); err != nil {
			t.Fatal(err)
		}
		defer h.Free()
	}
	if err := others.Add(900 << 10); err != nil {
		t.Fatal(err)
	}
	for _, known := range []bool{true, false} {
		w := push(s, 100<<10, known)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), CodeServerBusy.Name) {
			t.Errorf("a body for which there is no room: %d %v %s", w.Code, w.Header(), w.Body)
		}
		if w := push(s, 100, known); w.Code != http.StatusOK {
			t.Errorf("a small body: %d %s", w.Code, w.Body)
		}
	}
	before := budget.Held()
	others.Free()
	if w := push(s, 100<<10, true); w.Code != http.StatusOK {
		t.Errorf("a body when there is room again: %d %s", w.Code, w.Body)
	}
	if held := budget.Held(); held != before-900<<10 {
		t.Errorf("%d bytes remain counted", held-before+900<<10)
	}
}

// Without room for anything, a request is refused before its call sees it, in the form of errors; a probe is answered.
func TestNoRoomForARequest(t *testing.T) {
	called := false
	s, budget := pushes(t, func(*Call) error { called = true; return nil })
	for range 8 {
		h := budget.Hold(nil)
		if err := h.Add(1<<20 - requestCost/9); err != nil {
			t.Fatal(err)
		}
		defer h.Free()
	}
	if w := push(s, 1, true); w.Code != http.StatusServiceUnavailable || called || !strings.Contains(w.Body.String(), CodeServerBusy.Name) {
		t.Errorf("%d %s, called: %v", w.Code, w.Body, called)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/livez", nil))
	if w.Code != http.StatusOK {
		t.Errorf("/livez: %d %s", w.Code, w.Body)
	}
}

// A large answer counts, with what it was made of, and is not begun without room for it.
func TestLargeAnswersCount(t *testing.T) {
	size := 0
	s, budget := pushes(t, func(c *Call) error {
		return c.Write(http.StatusOK, "text/plain", []byte(strings.Repeat("x", size)))
	})
	for bytes, want := range map[int]int{300 << 10: http.StatusOK, 400 << 10: http.StatusRequestEntityTooLarge} {
		size = bytes
		if w := push(s, 1, true); w.Code != want {
			t.Errorf("an answer of %d bytes: %d", size, w.Code)
		}
	}
	if n := budget.Held(); n != 0 {
		t.Errorf("%d bytes remain counted", n)
	}
}

// net/http answers before it reads the rest of a body, as long as the request that it made has that body.
func TestHoldingLeavesTheServersRequest(t *testing.T) {
	s, err := New(Options{Ready: func(context.Context) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x"))
	body := r.Body
	s.holding(http.HandlerFunc(func(_ http.ResponseWriter, inner *http.Request) {
		if _, ok := inner.Body.(*heldBody); !ok {
			t.Error("the body is not counted")
		}
	})).ServeHTTP(httptest.NewRecorder(), r)
	if r.Body != body {
		t.Error("the server's request has another body")
	}
}
