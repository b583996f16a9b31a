// Package fronts starts a node with a dialect of the API, for tests that play its contract from
// outside.
package fronts

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/node"
	"github.com/duehook/duehook/internal/node/config"
	"github.com/duehook/duehook/internal/services/access"
)

const patience = 20 * time.Second

// Server is a node with API keys, and a receiver for its deliveries.
type Server struct {
	T    *testing.T
	Base string // the URL of the node
	// Token is that of an admin, and the one that Call sends.
	Token string
	// Reader may read, Consumer may consume; Restricted may write, in some topics.
	Reader, Consumer, Restricted string
	// Receiver answers /fails with 500, /moved with 500, the whole URL as Location and the path as Content-Location, and /hold when the test ends.
	Receiver *httptest.Server

	Deliveries chan Delivery
	pending    []Delivery // nobody has waited for them yet
}

// Delivery is a request that the receiver got.
type Delivery struct {
	*http.Request
	Content []byte
}

// Start starts a node with a dialect; topics restrict one of the keys.
func Start(t *testing.T, dialect, topics string, flags ...string) *Server {
	t.Helper()
	return StartLogging(t, io.Discard, dialect, topics, flags...)
}

// StartLogging is Start for a node that logs to a writer.
func StartLogging(t *testing.T, log io.Writer, dialect, topics string, flags ...string) *Server {
	t.Helper()
	s := &Server{T: t, Deliveries: make(chan Delivery, 100)}
	end := make(chan struct{})
	s.Receiver = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.Deliveries <- Delivery{r, body}
		w.Header()["Date"], w.Header()["Content-Type"] = nil, nil
		switch r.URL.Path {
		case "/hold":
			<-end
		case "/moved":
			w.Header().Set("Location", "http://"+r.Host+r.URL.String())
			w.Header().Set("Content-Location", r.URL.String())
			w.WriteHeader(http.StatusInternalServerError)
		case "/fails":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "no")
		}
	}))
	t.Cleanup(s.Receiver.Close)
	t.Cleanup(func() { close(end) })

	var keys []string
	for token, d := range map[*string]access.Draft{
		&s.Token: {Scope: "admin"}, &s.Reader: {Scope: "read"}, &s.Consumer: {Scope: "consume"}, &s.Restricted: {Scope: "write", Topics: []string{topics}},
	} {
		made, key, err := d.Key(access.DefaultNamespace, 0)
		if err != nil {
			t.Fatal(err)
		}
		*token, keys = made.Reveal(), append(keys, key.Line())
	}
	c, err := config.Load(append([]string{
		"--addr=127.0.0.1:0", "--allow-cidrs=127.0.0.0/8", "--workers=16", "--data-dir", t.TempDir(), "--dialects=" + dialect,
		"--grace=1s", "--api-keys=" + strings.Join(keys, ","),
	}, flags...), nil)
	if err != nil {
		t.Fatal(err)
	}
	base, stop, err := node.Start(t.Context(), node.Options{Config: c, Logger: node.NewLogger(c, log), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	s.Base = base
	return s
}

// Call makes a request, and returns the status and the body of the answer. An empty Token sends none.
func (s *Server) Call(method, target string, h http.Header, body string) (int, []byte) {
	s.T.Helper()
	req, err := http.NewRequestWithContext(s.T.Context(), method, s.Base+target, strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	if s.Token != "" {
		req.Header.Set("Authorization", "Bearer "+s.Token)
	}
	maps.Copy(req.Header, h)
	resp, err := http.DefaultTransport.RoundTrip(req) // an answer that redirects would fail
	if err != nil {
		s.T.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	return resp.StatusCode, text
}

// Await returns the next delivery to a target that wanted accepts.
func (s *Server) Await(target string, wanted func(Delivery) bool) Delivery {
	s.T.Helper()
	limit := job.SystemClock().NewTimer(patience)
	defer limit.Stop()
	for {
		if i := slices.IndexFunc(s.pending, func(d Delivery) bool { return d.URL.String() == target && wanted(d) }); i >= 0 {
			d := s.pending[i]
			s.pending = slices.Delete(s.pending, i, i+1)
			return d
		}
		select {
		case d := <-s.Deliveries:
			s.pending = append(s.pending, d)
		case <-limit.C():
			s.T.Fatalf("nothing was delivered to %s", target)
		}
	}
}
