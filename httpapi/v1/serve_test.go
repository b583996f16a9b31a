package v1

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// circuit holds requests for topics until it is opened.
type circuit struct {
	Store
	entered chan struct{}
	open    chan struct{}
}

func (g *circuit) Names(ctx context.Context, q store.NameQuery) ([]string, error) {
	if q.Kind != store.TopicNames {
		return g.Store.Names(ctx, q)
	}
	g.entered <- struct{}{}
	select {
	case <-g.open:
		return g.Store.Names(ctx, q)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serving is a server that listens on the loopback.
type serving struct {
	*api
	circuit *circuit
	url     string
	stop    context.CancelFunc
	ended   chan error
	client  *http.Client
}

func serve(t *testing.T, change ...func(*testOptions)) *serving {
	t.Helper()
	s := &serving{circuit: &circuit{entered: make(chan struct{}), open: make(chan struct{})}, ended: make(chan error, 1)}
	s.api = newAPI(t, append(change, func(o *testOptions) { s.circuit.Store = o.Store; o.Store = s.circuit })...)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + ln.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	t.Cleanup(stop)
	s.client = &http.Client{Transport: &http.Transport{}}
	t.Cleanup(s.client.CloseIdleConnections)
	go func() { s.ended <- s.server.Serve(ctx, ln) }()
	return s
}

// status makes a request and gives the answer's status, or the error.
func (s *serving) status(path string) (int, error) {
	r, err := s.client.Get(s.url + path)
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	_, err = io.Copy(io.Discard, r.Body)
	return r.StatusCode, err
}

// A request under way when the server is told to stop gets its answer.
func TestServeDrains(t *testing.T) {
	s := serve(t)
	if status, err := s.status("/readyz"); status != 200 || err != nil {
		t.Fatal(status, err)
	}
	type answer struct {
		status int
		err    error
	}
	answered := make(chan answer, 1)
	go func() {
		status, err := s.status("/v1/topics")
		answered <- answer{status, err}
	}()
	<-s.circuit.entered
	s.stop()
	testenv.Eventually(t, testenv.Patience, func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err == nil {
			_ = conn.Close() // Serve waits 5 s for a connection without a request
		}
		return err != nil
	}, "the listener is closed")
	select {
	case err := <-s.ended:
		t.Fatalf("Serve ended before the request: %v", err)
	default:
	}
	close(s.circuit.open)
	if got := <-answered; got.status != 200 || got.err != nil {
		t.Errorf("the request under way got %d, %v", got.status, got.err)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// During the drain delay requests are still taken, and /readyz says not to send more.
func TestServeTellsLoadBalancersFirst(t *testing.T) {
	clock := newHeldClock()
	s := serve(t, func(o *testOptions) { o.Clock = clock; o.DrainDelay = time.Minute })
	s.stop()
	if d := <-clock.asked; d != time.Minute {
		t.Errorf("waits for %v", d)
	}
	if status, err := s.status("/readyz"); status != 503 || err != nil {
		t.Errorf("/readyz: %d, %v", status, err)
	}
	if status, err := s.status("/v1/jobs"); status != 200 || err != nil {
		t.Errorf("/v1/jobs: %d, %v", status, err)
	}
	close(clock.fire)
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// A request that does not end is cut off, and the log says so. It is no failure of
// the server's: a client could make each shutdown one.
func TestServeCutsOff(t *testing.T) {
	var log bytes.Buffer
	s := serve(t, func(o *testOptions) {
		o.DrainTimeout, o.RequestTimeout = time.Millisecond, time.Hour
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	cut := make(chan struct{})
	go func() {
		_, _ = s.status("/v1/topics") // whatever it gets is no promise
		close(cut)
	}()
	<-s.circuit.entered
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	<-cut
	if !strings.Contains(log.String(), "in flight are cut off") {
		t.Errorf("the log does not say that a request was cut off: %s", &log)
	}
}

func TestServeFailsWithItsListener(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if err := newAPI(t).server.Serve(context.Background(), ln); err == nil {
		t.Error("Serve took a closed listener")
	}
}

// What reaches the server over a connection, rather than as a request of a test.
func TestServeRefusesOverConnections(t *testing.T) {
	s := serve(t)
	for name, c := range map[string]struct{ request, want string }{
		"endless headers": {"GET /livez HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", "431"},
		"no HTTP":         {"hello, is there anybody who speaks no HTTP?\r\n\r\n", "400"},
		"cut-off chunk":   {"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400"},
		"large":           {"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n", "413"},
		"empty segments":  {"GET //v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "404"},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, c.request); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "HTTP/1.1 "+c.want) {
			t.Errorf("%s: got %q, %v, want %s", name, line, err, c.want)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}
