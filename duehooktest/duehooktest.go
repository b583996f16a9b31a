// Package duehooktest runs a duehook in the process of a test, with a clock that the test turns and
// with receivers that the test reads:
//
//	func TestUnpaidOrderIsClosed(t *testing.T) {
//		s := duehooktest.Start(t)
//		shop := s.Sink("shop")
//		_, err := s.Client.Register(t.Context(), client.Registration{
//			Topic: "orders", ID: "1", URL: shop.URL("/close"), Delay: client.Duration(30 * time.Minute),
//		})
//		if err != nil {
//			t.Fatal(err)
//		}
//		s.Advance(30 * time.Minute)
//		if got := shop.Requests(); len(got) != 1 {
//			t.Errorf("the shop got %v", got)
//		}
//	}
//
// Everything is in memory. Receivers on this machine are reached, too. The clock stands still
// unless the test moves it.
package duehooktest

import (
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/internal/node"
	"github.com/duehook/duehook/internal/node/dev"
)

// Secret signs all deliveries.
var Secret = dev.Secret

// Server is a duehook that ends with its test.
type Server struct {
	URL    string // of the API and the dashboard
	Client *client.Client

	t   testing.TB
	dev *dev.Dev
}

// Start starts a Server. Settings are flags of duehook serve, such as "--retry-steps=1s,5s".
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	c, err := dev.Settings(append([]string{"--addr=127.0.0.1:0"}, settings...))
	if err != nil {
		t.Fatalf("duehooktest: %v", err)
	}
	s := &Server{t: t, dev: dev.New(true)}
	base, stop, err := node.Start(t.Context(), node.Options{
		Config: c, Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: c.LogLevel})), Version: "test", Dev: s.dev,
	})
	if err != nil {
		t.Fatalf("duehooktest: %v", err)
	}
	s.URL = base
	s.Client, err = client.New(s.URL)
	t.Cleanup(func() {
		if s.Client != nil {
			s.Client.Close()
		}
		if err := stop(); err != nil {
			t.Errorf("duehooktest: stop: %v", err)
		}
	})
	if err != nil {
		t.Fatalf("duehooktest: %v", err)
	}
	return s
}

// Now is the time of the clock.
func (s *Server) Now() time.Time { return s.dev.Clock.Now() }

// Advance moves the clock by d, and returns how many attempts began. Everything due until then
// happens before, in order and each at its own time.
func (s *Server) Advance(d time.Duration) (attempts int) {
	s.t.Helper()
	return s.AdvanceTo(s.Now().Add(d))
}

// AdvanceTo is Advance to a time. It does nothing if that is past.
func (s *Server) AdvanceTo(at time.Time) (attempts int) {
	s.t.Helper()
	done, err := s.dev.Advance(s.t.Context(), at)
	if err != nil {
		s.t.Fatalf("duehooktest: advance the clock: %v; it shows %s", err, done.Now.Format(time.RFC3339))
	}
	return done.Attempts
}

// Answer is what a Sink answers to one request.
type Answer = dev.Answer

// Request is one that a Sink got.
type Request = dev.Request

// Sink is a receiver in the process.
type Sink struct {
	name string
	s    *Server
}

// Sink returns the sink of a name. It answers 200 until Answer sets something else.
func (s *Server) Sink(name string) *Sink { return &Sink{name, s} }

// URL is the URL for jobs; path may have a query, and need not begin with a slash.
func (k *Sink) URL(path string) string {
	if path != "" && !strings.ContainsAny(path[:1], "/?#") {
		path = "/" + path
	}
	return "http://sink/" + url.PathEscape(k.name) + path
}

// Answer sets the answers to the next requests. The last one repeats.
func (k *Sink) Answer(answers ...Answer) {
	k.s.t.Helper()
	if _, err := k.s.dev.Sinks.Put(k.name, answers); err != nil {
		k.s.t.Fatalf("duehooktest: sink %q: %v", k.name, err)
	}
}

// Requests are those that the sink got and keeps, oldest first.
func (k *Sink) Requests() []Request {
	got, err := k.s.dev.Sinks.Get(k.name)
	if err != nil {
		return nil // nothing came
	}
	return got.Requests
}
