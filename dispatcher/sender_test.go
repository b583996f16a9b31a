package dispatcher

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

// serve runs a receiver and gives its URL.
func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// realSender sends over the network, through the guard.
func realSender(t testing.TB, o Options) *sender {
	t.Helper()
	o = o.withDefaults()
	transport := newTransport(mustGuard(t, o.AllowCIDRs...), o.Workers)
	t.Cleanup(transport.CloseIdleConnections)
	return newSender(o, transport)
}

func claimOf(j job.Job) *claim {
	now := time.Now()
	j.State = job.Running
	return newClaim(store.Claimed{Job: j, Now: job.InstantOf(now), From: job.Ready}, now, now)
}

// raw runs a receiver that speaks for itself once it has read a request's head.
func raw(t *testing.T, speak func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = conn.Close() }()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					speak(conn)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return "http://" + l.Addr().String()
}

// say writes until the other side has had enough.
func say(conn net.Conn, pieces ...string) bool {
	for _, p := range pieces {
		if _, err := conn.Write([]byte(p)); err != nil {
			return false
		}
	}
	return true
}

// hangUp waits until the other side closes.
func hangUp(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }

const okHead = "HTTP/1.1 200 OK\r\n"

func TestUnreadRequestEndsAtTheDeadline(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // nobody accepts: the kernel does, and lets the buffers fill
	j := newJob("deaf", "http://"+l.Addr().String())
	j.Spec.Body = make([]byte, 16<<20)
	j.Spec.Timeout = 200 * time.Millisecond
	o, _ := realSender(t, Options{AllowCIDRs: loopback()}).send(t.Context(), claimOf(j))
	if o.Kind != job.OutcomeFailed || o.Attempt.Error != classTimeout {
		t.Errorf("%+v, attempt %+v", o, o.Attempt)
	}
}

func TestConnectionErrors(t *testing.T) {
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(secure.Close)
	demanding := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	demanding.TLS = &tls.Config{MaxVersion: tls.VersionTLS11}
	demanding.StartTLS()
	t.Cleanup(demanding.Close)

	for name, tt := range map[string]struct{ url, class string }{
		"nobody listens":    {"http://" + testenv.FreeAddr(t), classRefused},
		"no such name":      {"http://nonexistent.invalid", classDNS},
		"unknown authority": {secure.URL, classTLSAuthority},
		"no common version": {demanding.URL, classTLSProtocol},
		"HTTP where TLS is": {strings.Replace(plain, "http://", "https://", 1), classTLSProtocol},
		"TLS where HTTP is": {strings.Replace(secure.URL, "https://", "http://", 1), "http_400"},
		"not a URL":         {"http://%zz", classBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob("e", tt.url)
			o, _ := realSender(t, Options{AllowCIDRs: loopback()}).send(t.Context(), claimOf(j))
			if o.Kind != job.OutcomeFailed || o.Attempt.Error != tt.class {
				t.Errorf("%+v, attempt %+v; want %s", o, o.Attempt, tt.class)
			}
		})
	}
}

func TestHangingHandshakeEndsAtTheDeadline(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		if conn, err := l.Accept(); err == nil {
			accepted <- conn
		}
	}()
	j := newJob("h", "https://"+l.Addr().String())
	j.Spec.Timeout = 200 * time.Millisecond
	o, _ := realSender(t, Options{AllowCIDRs: loopback()}).send(t.Context(), claimOf(j))
	if o.Attempt.Error != classTLSTimeout {
		t.Errorf("attempt %+v", o.Attempt)
	}
	// The handshake goes on without the request; what was measured stands.
	if got, want := happened(o.Attempt.Timings), (measured{connect: true, tls: true}); got != want {
		t.Errorf("measured %+v of %+v", got, o.Attempt.Timings)
	}
	_ = l.Close()
	_ = next(t, accepted, "connection").Close()
}

func TestConnectionsAreReused(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"deliveries":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) },
		"failures":       func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) },
		"4 KB":           func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 4<<10)) },
		"empty failures": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			var conns atomic.Int32
			srv := httptest.NewUnstartedServer(answer)
			srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					conns.Add(1)
				}
			}
			srv.Start()
			t.Cleanup(srv.Close)
			s := realSender(t, Options{AllowCIDRs: loopback()})
			for range 100 {
				_, _ = s.send(t.Context(), claimOf(newJob("c", srv.URL)))
			}
			// One, as a rule; net/http gives a connection up that on a busy machine
			// is slow to become idle.
			if n := conns.Load(); n > 5 {
				t.Errorf("%d connections for 100 requests in a row", n)
			}
		})
	}
}

func TestLongAnswerClosesItsConnection(t *testing.T) {
	closed := make(chan struct{}, 1)
	url := raw(t, func(c net.Conn) {
		say(c, okHead+"Content-Length: 1000000\r\n\r\n"+strings.Repeat("x", 10_000))
		hangUp(c)
		closed <- struct{}{}
	})
	_, _ = realSender(t, Options{AllowCIDRs: loopback()}).send(t.Context(), claimOf(newJob("l", url)))
	next(t, closed, "end of the connection")
}

func TestBodyThatDecidesNothingHoldsNoWorker(t *testing.T) {
	for _, status := range []string{"200 OK", "500 No"} {
		url := raw(t, func(c net.Conn) {
			say(c, "HTTP/1.1 "+status+"\r\nContent-Length: 100\r\n\r\nfirst ")
			hangUp(c)
		})
		c := claimOf(newJob("slow", url))
		c.Job.Spec.Timeout = patience
		o, _ := realSender(t, Options{AllowCIDRs: loopback()}).send(t.Context(), c)
		if delivered := o.Kind == job.OutcomeDelivered; delivered != (o.Attempt.Status == 200) || o.Attempt.ResponseBody != "first " {
			t.Errorf("%s: %+v, attempt %+v", status, o, o.Attempt)
		}
		if o.Attempt.Duration > patience/2 {
			t.Errorf("%s: took %v", status, o.Attempt.Duration)
		}
	}
}

func TestAbortedAttemptIsReleased(t *testing.T) {
	for name, expect := range map[string]string{"before the answer": "", "in the body": "ok"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			s := newSender(Options{}.withDefaults(), roundTripper(func(r *http.Request) (*http.Response, error) {
				if expect == "" {
					cancel()
					return nil, r.Context().Err()
				}
				answer := status(http.StatusOK)
				answer.Body = io.NopCloser(reader(func([]byte) (int, error) {
					cancel()
					return 0, r.Context().Err()
				}))
				return answer, nil
			}))
			j := newJob("a", anyURL)
			j.Spec.ExpectBody = expect
			o, health := s.send(ctx, claimOf(j))
			if o.Kind != job.OutcomeReleased || o.Reason != job.ReasonShutdown || o.Attempt != nil {
				t.Errorf("%+v", o)
			}
			if !errors.Is(health, errExcluded) {
				t.Errorf("health %v", health)
			}
		})
	}
}

type reader func([]byte) (int, error)

func (f reader) Read(p []byte) (int, error) { return f(p) }

func TestClassify(t *testing.T) {
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, tt := range []struct {
		ctx  context.Context
		err  error
		want string
	}{
		{late, dial(fmt.Errorf("%w: loopback", ErrBlocked)), classBlocked},
		{t.Context(), dial(&net.DNSError{Err: "no such host"}), classDNS},
		{t.Context(), dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), classRefused},
		{t.Context(), dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), classUnreachable},
		{t.Context(), dial(os.NewSyscallError("connect", syscall.ENETUNREACH)), classUnreachable},
		{t.Context(), dial(os.NewSyscallError("write", syscall.EPIPE)), classReset},
		{t.Context(), errNoPermitted, classUnreachable},
		{t.Context(), errors.New("tls: internal error"), classTLS},
		{t.Context(), &net.OpError{Op: "remote error", Err: errors.New("tls: internal error")}, classTLSAlert},
		{t.Context(), &net.OpError{Op: "remote error", Err: errors.New("tls: protocol version not supported")}, classTLSProtocol},
		{t.Context(), &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.IncompatibleUsage}}, classTLS},
		{t.Context(), &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}, classTLSExpired},
		{t.Context(), errors.New("what net/http makes of it"), classInvalid},
	} {
		if got := classify(tt.ctx, fmt.Errorf("Post: %w", tt.err), phaseAnswer); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.err, got, tt.want)
		}
	}
	for reached, want := range map[phase]string{
		phaseBegin: classDialTimeout, phaseDNS: classDNSTimeout, phaseConnect: classDialTimeout,
		phaseTLS: classTLSTimeout, phaseAnswer: classTimeout,
	} {
		if got := classify(late, io.EOF, reached); got != want {
			t.Errorf("the deadline passed in phase %d: %s, want %s", reached, got, want)
		}
		// Connecting has a limit of its own, which can be shorter.
		if got := classify(t.Context(), dial(os.ErrDeadlineExceeded), reached); got != want {
			t.Errorf("a limit passed in phase %d: %s, want %s", reached, got, want)
		}
	}
}

func TestStatusOfEndpointHealth(t *testing.T) {
	for code, healthy := range map[int]bool{
		200: true, 302: true, 400: true, 404: true, 410: true, 429: false, 500: false, 503: false, 599: false,
	} {
		if got := healthOf(code) == nil; got != healthy {
			t.Errorf("%d: healthy %v, want %v", code, got, healthy)
		}
	}
}

func TestAttemptRecordsWhatHappened(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Set-Cookie", "session=secret")
		w.Header().Set("X-Request-Id", "r-1")
		http.Error(w, "closed for stocktaking", http.StatusTeapot)
	})
	c := claimOf(newJob("a", url))
	c.Job.Version = 7
	o, _ := realSender(t, Options{AllowCIDRs: loopback()}).send(t.Context(), c)
	a := o.Attempt
	if a.Number != 1 || a.Status != 418 || a.Error != "http_418" || a.ResponseBody != "closed for stocktaking\n" {
		t.Errorf("%+v", a)
	}
	kept := map[string]string{}
	for _, h := range a.ResponseHeaders {
		kept[h.Name] = h.Value
	}
	if a.Version != 7 || kept["X-Request-Id"] != "r-1" || kept["Set-Cookie"] != "session=***" || kept["Content-Length"] != "23" {
		t.Errorf("version %d, headers %v", a.Version, kept)
	}
	if a.StartedAt < c.Now || a.Duration <= 0 {
		t.Errorf("started at %d (claimed at %d), took %v", a.StartedAt, c.Now, a.Duration)
	}
}
