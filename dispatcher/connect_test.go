package dispatcher

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/hostile"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// connecting is a sender whose dials a test takes part in.
type connecting struct {
	*sender
	dials atomic.Int32
	// dial makes dial number n from 1; nil leaves it to the guard.
	dial func(n int, dial dialFunc, ctx context.Context, network, address string) (net.Conn, error)
}

func newConnecting(t *testing.T, g *Guard, retries int) *connecting {
	t.Helper()
	c := &connecting{}
	transport := newTransport(g, 1)
	d := &dialer{tls: transport.TLSClientConfig, dial: traced(func(ctx context.Context, network, address string) (net.Conn, error) {
		n := int(c.dials.Add(1))
		if c.dial == nil {
			return g.dial(ctx, network, address)
		}
		return c.dial(n, g.dial, ctx, network, address)
	})}
	transport.DialContext, transport.DialTLSContext = d.plain, d.secure
	t.Cleanup(transport.CloseIdleConnections)
	c.sender = newSender(Options{ConnectRetries: retries}.withDefaults(), transport)
	c.steady = func(string) bool { return true }
	return c
}

// abrupt is a server that resets each connection: at once, or when talk returns.
func abrupt(t *testing.T, talk func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			talk(conn)
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

// readHead reads the head of a request.
func readHead(conn net.Conn) { _, _ = http.ReadRequest(bufio.NewReader(conn)) }

// until makes the first dials of a test go wrong.
func until(failures int, wrong func(ctx context.Context, dial dialFunc) (net.Conn, error)) func(int, dialFunc, context.Context, string, string) (net.Conn, error) {
	return func(n int, dial dialFunc, ctx context.Context, network, address string) (net.Conn, error) {
		if n <= failures {
			return wrong(ctx, dial)
		}
		return dial(ctx, network, address)
	}
}

// to dials another address.
func to(address string) func(context.Context, dialFunc) (net.Conn, error) {
	return func(ctx context.Context, dial dialFunc) (net.Conn, error) { return dial(ctx, "tcp", address) }
}

// broken dials an address and waits until the connection is reset.
func broken(address string) func(context.Context, dialFunc) (net.Conn, error) {
	return func(ctx context.Context, dial dialFunc) (net.Conn, error) {
		conn, err := dial(ctx, "tcp", address)
		if err == nil {
			hangUp(conn)
		}
		return conn, err
	}
}

func TestRequestsThatWereNotSentAreMadeAgain(t *testing.T) {
	var requests atomic.Int32
	handle := func(http.ResponseWriter, *http.Request) { requests.Add(1) }
	plain := serve(t, handle)
	secure := httptest.NewTLSServer(http.HandlerFunc(handle))
	t.Cleanup(secure.Close)
	closed := testenv.FreeAddr(t)
	reset := abrupt(t, func(net.Conn) {})
	hello := abrupt(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 1<<10)) })
	answered := abrupt(t, readHead)
	large := func(j *job.Job) { j.Spec.Body = make([]byte, 8<<20) }
	for name, tt := range map[string]struct {
		url     string
		dial    func(int, dialFunc, context.Context, string, string) (net.Conn, error)
		change  func(*job.Job)
		setting int  // zero: the default
		failing bool // the circuit is about to open
		class   string
		retries int
	}{
		"at once":                    {url: plain},
		"refused":                    {url: plain, dial: until(1, to(closed)), retries: 1},
		"refused twice":              {url: plain, dial: until(2, to(closed)), retries: 2},
		"refused for longer":         {url: plain, dial: until(9, to(closed)), retries: 2, class: classRefused},
		"refused, once by setting":   {url: plain, dial: until(9, to(closed)), setting: 1, retries: 1, class: classRefused},
		"refused, never by setting":  {url: plain, dial: until(9, to(closed)), setting: -1, class: classRefused},
		"refused, the circuit near":  {url: plain, dial: until(9, to(closed)), failing: true, class: classRefused},
		"refused, no time left":      {url: plain, dial: until(9, to(closed)), class: classRefused, change: func(j *job.Job) { j.Spec.Timeout = maxConnectPause }},
		"reset before the request":   {url: plain, dial: until(1, broken(reset)), retries: 1},
		"reset after the request":    {url: plain, dial: until(1, to(answered)), class: classReset},
		"reset within the request":   {url: plain, dial: until(1, to(answered)), change: large, class: classReset + "|" + classUnreachable},
		"reset in the TLS handshake": {url: secure.URL, dial: until(1, to(hello)), retries: 1},
		"a certificate not trusted":  {url: "https://other.example", dial: until(9, to(secure.Listener.Addr().String())), class: classTLSName},
		"refused, TLS":               {url: secure.URL, dial: until(2, to(closed)), retries: 2},
		"unreachable": {url: plain, class: classUnreachable, dial: until(9, func(context.Context, dialFunc) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.EHOSTUNREACH}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConnecting(t, mustGuard(t, loopback()...), tt.setting)
			roots := x509.NewCertPool()
			roots.AddCert(secure.Certificate())
			c.client.HTTPClient.Transport.(sending).pooled.(*http.Transport).TLSClientConfig.RootCAs = roots
			c.dial = tt.dial
			c.steady = func(string) bool { return !tt.failing }
			j := newJob("c", tt.url)
			if tt.change != nil {
				tt.change(&j)
			}
			before := requests.Load()
			o, _ := c.send(t.Context(), claimOf(j))
			if !slices.Contains(strings.Split(tt.class, "|"), o.Attempt.Error) || o.Attempt.ConnectRetries != tt.retries {
				t.Errorf("error %q after %d retries, want %q after %d", o.Attempt.Error, o.Attempt.ConnectRetries, tt.class, tt.retries)
			}
			if n := int(c.dials.Load()); n != 1+tt.retries {
				t.Errorf("%d dials, want %d", n, 1+tt.retries)
			}
			if n := requests.Load() - before; (n == 1) != (tt.class == "") {
				t.Errorf("%d requests arrived", n)
			}
		})
	}
}

func TestLookUpsThatFailAreMadeAgain(t *testing.T) {
	url := serve(t, accept)
	port := url[strings.LastIndexByte(url, ':'):]
	for name, tt := range map[string]struct {
		replies []hostile.Reply // the last one for good
		kind    job.OutcomeKind
		class   string
		retries int
	}{
		"no answer at first": {
			[]hostile.Reply{{Fails: true}, {Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}},
			job.OutcomeDelivered, "", 1,
		},
		"no answer":    {[]hostile.Reply{{Fails: true}}, job.OutcomeFailed, classDNS, 2},
		"no such name": {[]hostile.Reply{{}}, job.OutcomeFailed, classDNS, 0},
		"a refused address": {
			[]hostile.Reply{{Addrs: []netip.Addr{netip.MustParseAddr("10.1.2.3")}}},
			job.OutcomeRefused, classBlocked, 0,
		},
		// The first address is permitted, but nobody listens there.
		"an address that becomes a refused one": {
			[]hostile.Reply{{Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.2")}}, {Addrs: []netip.Addr{netip.MustParseAddr("10.1.2.3")}}},
			job.OutcomeRefused, classBlocked, 0, // as of any refused destination, nothing else is shown
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConnecting(t, mustGuard(t, loopback()...), 0)
			lookups := atomic.Int32{}
			guard := mustGuard(t, loopback()...)
			guard.resolver = hostile.Resolver(t, func(l hostile.Lookup) hostile.Reply {
				n := min(int(lookups.Load()), len(tt.replies)) - 1
				if l.IPv6 && !tt.replies[n].Fails {
					return hostile.Reply{}
				}
				return tt.replies[n]
			})
			c.dial = func(_ int, _ dialFunc, ctx context.Context, network, address string) (net.Conn, error) {
				lookups.Add(1)
				return guard.dial(ctx, network, address)
			}
			o, _ := c.send(t.Context(), claimOf(newJob("l", "http://receiver.example"+port)))
			if o.Kind != tt.kind || o.Attempt.Error != tt.class || o.Attempt.ConnectRetries != tt.retries {
				t.Errorf("kind %d, error %q after %d retries, want %d, %q after %d", o.Kind, o.Attempt.Error,
					o.Attempt.ConnectRetries, tt.kind, tt.class, tt.retries)
			}
		})
	}
}

// TestStaleConnectionsAreReplaced: a receiver closes a connection when it is used
// again.
func TestStaleConnectionsAreReplaced(t *testing.T) {
	url := raw(t, func(c net.Conn) {
		say(c, okHead+"Content-Length: 0\r\n\r\n")
		hangUp(c)
	})
	c := newConnecting(t, mustGuard(t, loopback()...), 0)
	for want := range 2 {
		o, _ := c.send(t.Context(), claimOf(newJob("s", url)))
		if o.Kind != job.OutcomeDelivered || o.Attempt.ConnectRetries != want {
			t.Errorf("attempt %+v, want %d retries", o.Attempt, want)
		}
	}
}

// keeping is a receiver that keeps its first connections, and then does with each request what a test says.
type keeping struct {
	url      string
	requests atomic.Int32 // after the first
	onNew    atomic.Int32 // of these, the first requests of their connections
	then     atomic.Pointer[func(conn net.Conn, n int)]
}

// keepConnections returns a receiver with which s has n idle connections.
func keepConnections(t *testing.T, s *sender, n int) *keeping {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &keeping{url: "http://" + l.Addr().String()}
	var served, arrived sync.WaitGroup
	arrived.Add(n)
	serve := func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		requests := bufio.NewReader(conn)
		for i := 0; ; i++ {
			r, err := http.ReadRequest(requests)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if then := k.then.Load(); then != nil {
				if i == 0 {
					k.onNew.Add(1)
				}
				(*then)(conn, int(k.requests.Add(1)))
				return
			}
			arrived.Done()
			arrived.Wait() // each of them has its own connection
			say(conn, okHead+"Content-Length: 0\r\n\r\n")
		}
	}
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(served.Wait)
	t.Cleanup(func() { _ = l.Close() })
	t.Cleanup(s.client.HTTPClient.Transport.(sending).pooled.(*http.Transport).CloseIdleConnections)
	var sends sync.WaitGroup
	for i := range n {
		sends.Go(func() {
			if o, _ := s.send(t.Context(), claimOf(newJob(fmt.Sprint(i), k.url))); o.Kind != job.OutcomeDelivered {
				t.Errorf("%+v", o.Attempt)
			}
		})
	}
	sends.Wait()
	return k
}

// TestAnAttemptIsOneRequestOrTwo: net/http would send a request on each idle connection, one after the other.
func TestAnAttemptIsOneRequestOrTwo(t *testing.T) {
	const idle = 30
	closes := func(net.Conn, int) {}
	answers := func(conn net.Conn, n int) {
		if n == 2 {
			say(conn, okHead+"Content-Length: 0\r\n\r\n")
		}
	}
	begins := func(conn net.Conn, _ int) { say(conn, "H") }
	for name, tt := range map[string]struct {
		then     func(net.Conn, int)
		change   func(*job.Job)
		setting  int // zero: the default
		requests int32
		class    string
	}{
		"a body":              {then: closes, requests: 2, class: classReset},
		"the second answers":  {then: answers, requests: 2},
		"a byte of an answer": {then: begins, requests: 1, class: classInvalid},
		"turned off":          {then: closes, setting: -1, requests: 1, class: classReset},
		"no body":             {then: answers, change: func(j *job.Job) { j.Spec.Body = nil }, requests: 2},
		"GET":                 {then: closes, change: method("GET"), requests: 2, class: classReset},
		"DELETE":              {then: closes, change: method("DELETE"), requests: 2, class: classReset},
		"PUT with a body":     {then: closes, change: func(j *job.Job) { j.Spec.Method = "PUT" }, requests: 2, class: classReset},
		"a large body":        {then: closes, change: func(j *job.Job) { j.Spec.Body = make([]byte, 256<<10) }, requests: 2, class: classReset},
	} {
		for _, header := range []string{"", "Idempotency-Key", "X-Idempotency-Key"} {
			t.Run(name+", "+header, func(t *testing.T) {
				c := newConnecting(t, mustGuard(t, loopback()...), tt.setting)
				c.client.HTTPClient.Transport.(sending).pooled.(*http.Transport).MaxIdleConns = idle
				c.client.HTTPClient.Transport.(sending).pooled.(*http.Transport).MaxIdleConnsPerHost = idle
				k := keepConnections(t, c.sender, idle)
				k.then.Store(&tt.then)
				j := newJob("j", k.url)
				if tt.change != nil {
					tt.change(&j)
				}
				if header != "" {
					j.Spec.Headers = append(j.Spec.Headers, job.Header{Name: header, Value: "k"})
				}
				o, _ := c.send(t.Context(), claimOf(j))
				twice := tt.requests == 2
				if n := k.requests.Load(); n != tt.requests || (k.onNew.Load() == 1) != twice {
					t.Errorf("%d requests, %d on new connections, want %d", n, k.onNew.Load(), tt.requests)
				}
				if o.Attempt.Error != tt.class || o.Attempt.Resent != twice || (o.Attempt.ConnectRetries == 1) != twice {
					t.Errorf("attempt %+v, want error %q", o.Attempt, tt.class)
				}
			})
		}
	}
}

// method makes a job without a body.
func method(name string) func(*job.Job) {
	return func(j *job.Job) { j.Spec.Method, j.Spec.Body = name, nil }
}

// TestOnceChangesNoRequest: what keeps net/http from repeating a request does not show in it.
func TestOnceChangesNoRequest(t *testing.T) {
	var got atomic.Pointer[http.Request]
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got.Store(r)
	})
	s := realSender(t, Options{AllowCIDRs: loopback()})
	for i, tt := range []struct {
		method, body, length string
	}{
		{"GET", "", ""}, {"GET", "x", "1"}, {"DELETE", "", ""}, {"POST", "", "0"}, {"PUT", "", "0"}, {"PATCH", "x", "1"},
	} {
		j := newJob("o", url)
		j.Spec.Method, j.Spec.Body = tt.method, []byte(tt.body)
		j.Spec.Headers = []job.Header{{Name: "Idempotency-Key", Value: "k"}}
		o, _ := s.send(t.Context(), claimOf(j))
		r := got.Load()
		if r.Method != tt.method || r.Header.Get("Content-Length") != tt.length || r.TransferEncoding != nil || r.Header.Get("Idempotency-Key") != "k" {
			t.Errorf("%s %q: length %q, encoding %v, key %q", tt.method, tt.body, r.Header.Get("Content-Length"), r.TransferEncoding, r.Header.Get("Idempotency-Key"))
		}
		if o.Attempt.Timings.Reused != (i > 0) {
			t.Errorf("%s %q: the connection was not kept: %+v", tt.method, tt.body, o.Attempt.Timings)
		}
	}
}

// TestResendingOutlivesARestart: the receiver of a first request is gone, and nobody listens for a moment.
func TestResendingOutlivesARestart(t *testing.T) {
	closed := testenv.FreeAddr(t)
	c := newConnecting(t, mustGuard(t, loopback()...), 0)
	k := keepConnections(t, c.sender, 1)
	then := func(conn net.Conn, n int) {
		if n == 2 {
			say(conn, okHead+"Content-Length: 0\r\n\r\n")
		}
	}
	k.then.Store(&then)
	c.dial = func(n int, dial dialFunc, ctx context.Context, network, address string) (net.Conn, error) {
		if n == 2 { // the first one was that of the idle connection
			address = closed
		}
		return dial(ctx, network, address)
	}
	o, _ := c.send(t.Context(), claimOf(newJob("j", k.url)))
	if o.Kind != job.OutcomeDelivered || !o.Attempt.Resent || o.Attempt.ConnectRetries != 2 || k.requests.Load() != 2 {
		t.Errorf("%d requests, attempt %+v", k.requests.Load(), o.Attempt)
	}
}

// TestConnectingAgainKeepsOtherConnections: the client closes the idle connections
// of its transport after a failure, if the transport shows it how.
func TestConnectingAgainKeepsOtherConnections(t *testing.T) {
	url := serve(t, accept)
	c := newConnecting(t, mustGuard(t, loopback()...), 0)
	for i, to := range []string{url, "http://" + testenv.FreeAddr(t), url} {
		o, _ := c.send(t.Context(), claimOf(newJob(fmt.Sprint(i), to)))
		if last := i == 2; last && !o.Attempt.Timings.Reused {
			t.Errorf("the connection was not used again: %+v", o.Attempt)
		}
	}
}

func TestCircuitsSayWhenEndpointsAreSteady(t *testing.T) {
	var c changes
	s := testCircuits(&c) // opens after 3 failures
	want := func(want bool, when string) {
		t.Helper()
		if got := s.steady(shop); got != want {
			t.Errorf("steady %t %s, want %t", got, when, want)
		}
	}
	want(true, "before the first request")
	try(s, shop, errEndpoint)
	want(true, "after a failure")
	try(s, shop, errEndpoint)
	want(false, "before the last failure")
	try(s, shop, nil)
	want(true, "after a success")
	for range 3 {
		try(s, shop, errEndpoint)
	}
	want(false, "while the circuit is open")
	s.try(shop)
	want(false, "on trial")
	s = newCircuits(Options{BreakerFailures: -1}.withDefaults(), nil, nil)
	want(false, "without circuits")
}

// TestAReceiverRestarts: jobs come due while nobody listens. The receiver returns
// when they have been refused, and all are delivered by their first
// attempts.
func TestAReceiverRestarts(t *testing.T) {
	const rounds, jobs = 5, 20
	address := testenv.FreeAddr(t)
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	var up atomic.Pointer[chan struct{}] // closed when the receiver is back
	refused := make(chan struct{}, rounds*2*jobs)
	guard := mustGuard(t, loopback()...)
	transport := newTransport(guard, jobs)
	transport.DialContext = (&dialer{dial: traced(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := guard.dial(ctx, network, address)
		if errors.Is(err, syscall.ECONNREFUSED) {
			refused <- struct{}{}
			<-*up.Load() // so that no attempt runs out of retries on a busy machine
		}
		return conn, err
	})}).plain
	s, reg := newFakeStore(), prometheus.NewRegistry()
	d := withTransport(t, Options{Store: s, Workers: 2 * jobs, Metrics: reg}, transport)
	launch(t, d)
	for round := range rounds {
		server := &http.Server{Handler: http.HandlerFunc(accept)}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = server.Serve(l)
		}()
		if round > 0 {
			close(*up.Load())
		}
		for id := range jobs {
			s.add(newJob(fmt.Sprint("while up ", round, id), "http://"+address))
		}
		settled := jobs
		if round > 0 {
			settled += jobs // of those that came while it was down
		}
		for range settled {
			if got := next(t, s.settled, "settlement"); got.To != job.Delivered || got.Attempts != 1 {
				t.Errorf("%s is %v after %d attempts: %+v", got.Key.ID, got.To, got.Attempts, got.Attempt)
			}
		}
		// Before the receiver ends: the transport may still be dialing for a request that
		// got another connection.
		back := make(chan struct{})
		up.Store(&back)
		_ = server.Close() // no request is in progress
		<-served
		if round == rounds-1 {
			close(back)
			break
		}
		for id := range jobs {
			s.add(newJob(fmt.Sprint("while down ", round, id), "http://"+address))
		}
		for range jobs { // of which few are such dials
			next(t, refused, "refused dial")
		}
		if l, err = net.Listen("tcp", address); err != nil {
			t.Fatal(err)
		}
	}
	if n := testutil.ToFloat64(d.metrics.reconnects); n < rounds-1 {
		t.Errorf("%v connections were tried again, want one in each round at least", n)
	}
}

func TestConnectPauses(t *testing.T) {
	for _, c := range []struct {
		before int
		random float64
		want   time.Duration
	}{
		{0, 0, minConnectPause},
		{0, 1, midConnectPause},
		{1, 0, midConnectPause},
		{1, 1, maxConnectPause},
	} {
		client := (&sender{}).newClient(sending{}, 2, func() float64 { return c.random })
		if got := client.Backoff(0, 0, c.before, nil); got != c.want {
			t.Errorf("pause after %d repeats at %v: %v, want %v", c.before, c.random, got, c.want)
		}
	}
}

// A client that takes all files of the process, with idle connections for example, costs other jobs no attempts and
// opens no circuits.
func TestTooManyOpenFilesCostNoAttempt(t *testing.T) {
	url, _ := recorder(t)
	for name, wrong := range map[string]error{
		"a connection":   &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)},
		"of the machine": &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.ENFILE)},
		"a look-up":      &net.DNSError{Err: "dial udp 192.0.2.1:53: socket: too many open files", Name: "shop.example", IsTemporary: true},
	} {
		c := newConnecting(t, newGuard(loopback(), nil), 0)
		c.dial = until(9, func(context.Context, dialFunc) (net.Conn, error) { return nil, wrong })
		o, health := c.send(t.Context(), claimOf(newJob("s", url)))
		if want := (job.Outcome{Kind: job.OutcomeReleased, Reason: reasonNoFiles, After: unsentPause}); o != want || !errors.Is(health, errExcluded) {
			t.Errorf("%s: %+v, %v", name, o, health)
		}
	}
	// A receiver cannot have its failures pass for it.
	liar := abrupt(t, func(conn net.Conn) {
		readHead(conn)
		_, _ = io.WriteString(conn, "too many open files\r\n\r\n")
	})
	c := newConnecting(t, newGuard(loopback(), nil), 0)
	if o, _ := c.send(t.Context(), claimOf(newJob("s", "http://"+liar))); o.Kind != job.OutcomeFailed {
		t.Errorf("a receiver that says so: %+v", o)
	}
}
