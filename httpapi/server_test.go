package httpapi

import (
	"context"
	"testing"
)

// Without these a client can hold connections for ever.
func TestServerHasTimeouts(t *testing.T) {
	s, err := New(Options{Ready: func(context.Context) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	h := s.httpServer(context.Background())
	if h.ReadHeaderTimeout == 0 || h.ReadTimeout == 0 || h.WriteTimeout <= h.ReadTimeout || h.IdleTimeout == 0 || h.MaxHeaderBytes == 0 {
		t.Errorf("%+v", h)
	}
}
