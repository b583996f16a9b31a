package dispatcher

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// measured says which phases have a time.
type measured struct{ dns, connect, tls, firstByte, reused bool }

func happened(t job.Timings) measured {
	return measured{t.DNS > 0, t.Connect > 0, t.TLS > 0, t.FirstByte > 0, t.Reused}
}

// check compares what an attempt measured, and that its parts fit into it.
func check(t *testing.T, a *job.Attempt, want measured) {
	t.Helper()
	if got := happened(a.Timings); got != want {
		t.Errorf("error %q: measured %+v, want %+v", a.Error, a.Timings, want)
	}
	if sum := a.Timings.DNS + a.Timings.Connect + a.Timings.TLS + a.Timings.FirstByte; sum > a.Duration {
		t.Errorf("the phases of %+v take longer than the whole, %v", a.Timings, a.Duration)
	}
}

func TestTimingsOfEachPhase(t *testing.T) {
	url := serve(t, accept)
	secure := httptest.NewTLSServer(http.HandlerFunc(accept))
	t.Cleanup(secure.Close)
	g := mustGuard(t, loopback()...)
	nameServer(t, g, func(name string) []netip.Addr {
		if name == "receiver.example." {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		}
		return nil
	})
	trusting := newTransport(g, 1)
	trusting.TLSClientConfig.RootCAs = x509.NewCertPool()
	trusting.TLSClientConfig.RootCAs.AddCert(secure.Certificate())
	t.Cleanup(trusting.CloseIdleConnections)
	s := newSender(Options{}.withDefaults(), trusting)
	byName := strings.Replace(url, "127.0.0.1", "receiver.example", 1)
	for _, tt := range []struct {
		name, url, class string
		want             measured
	}{
		{"an address", url, "", measured{connect: true, firstByte: true}},
		{"again", url, "", measured{firstByte: true, reused: true}},
		{"a name", byName, "", measured{dns: true, connect: true, firstByte: true}},
		{"the name again", byName, "", measured{firstByte: true, reused: true}},
		{"TLS", secure.URL, "", measured{connect: true, tls: true, firstByte: true}},
		{"TLS again", secure.URL, "", measured{firstByte: true, reused: true}},
		{"no such name", "http://no.example", classDNS, measured{dns: true}},
		{"nobody listens", "http://127.0.0.1:1", classRefused, measured{connect: true}},
		{"not TLS", strings.Replace(url, "http://", "https://", 1), classTLSProtocol, measured{connect: true, tls: true}},
	} {
		o, _ := s.send(t.Context(), claimOf(newJob("t", tt.url)))
		if o.Attempt.Error != tt.class {
			t.Errorf("%s: error %q, want %q", tt.name, o.Attempt.Error, tt.class)
		}
		check(t, o.Attempt, tt.want)
	}
}

func TestDialThatIsNotNeededIsNotMeasured(t *testing.T) {
	// The second request starts a dial while the first is under way, but gets
	// the connection of the first. Its dial goes on beyond its end.
	release, arrived := make(chan struct{}), make(chan struct{}, 2)
	url := serve(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	})
	guard := mustGuard(t, loopback()...)
	var dials atomic.Int32
	second, late, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	transport := newTransport(guard, 2)
	dial := traced(func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) == 2 {
			close(second)
			<-late
		}
		return guard.dial(ctx, network, address)
	})
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if dials.Load() == 2 {
			close(over)
		}
		return conn, err
	}
	t.Cleanup(transport.CloseIdleConnections)
	s := newSender(Options{}.withDefaults(), transport)
	var sends sync.WaitGroup
	// Of each its own: the second may end first.
	attempts := [2]chan *job.Attempt{make(chan *job.Attempt, 1), make(chan *job.Attempt, 1)}
	send := func(to chan<- *job.Attempt) {
		sends.Go(func() {
			o, _ := s.send(t.Context(), claimOf(newJob("d", url)))
			to <- o.Attempt
		})
	}
	send(attempts[0])
	next(t, arrived, "first request")
	send(attempts[1])
	next(t, second, "second dial")
	close(release)
	check(t, next(t, attempts[0], "first attempt"), measured{connect: true, firstByte: true})
	check(t, next(t, attempts[1], "second attempt"), measured{firstByte: true, reused: true})
	close(late)
	next(t, over, "end of the dial")
	sends.Wait()
}

// handClock moves when told.
type handClock struct {
	job.Clock
	now time.Time
}

func (c *handClock) Now() time.Time       { return c.now }
func (c *handClock) pass(d time.Duration) { c.now = c.now.Add(d) }

// TestTraceMeasures tells a trace what the transport might, with pauses.
func TestTraceMeasures(t *testing.T) {
	const ms = time.Millisecond
	reused, fresh := httptrace.GotConnInfo{Reused: true}, httptrace.GotConnInfo{}
	failed := httptrace.DNSDoneInfo{Err: errors.New("made to fail")}
	for name, tt := range map[string]struct {
		tell    func(r *trace, pass func(time.Duration))
		want    job.Timings
		reached phase
	}{
		"nothing": {func(*trace, func(time.Duration)) {}, job.Timings{}, phaseBegin},
		"everything": {func(r *trace, pass func(time.Duration)) {
			r.getConn("")
			r.enter(phaseConnect)
			r.dnsStart(httptrace.DNSStartInfo{})
			pass(1 * ms)
			r.dnsDone(httptrace.DNSDoneInfo{})
			pass(2 * ms)
			r.leave(phaseConnect)
			pass(100 * ms)
			r.enter(phaseTLS)
			pass(3 * ms)
			r.leave(phaseTLS)
			pass(100 * ms)
			r.gotConn(fresh)
			pass(4 * ms)
			r.firstByte()
			pass(100 * ms)
		}, job.Timings{DNS: 1 * ms, Connect: 2 * ms, TLS: 3 * ms, FirstByte: 4 * ms}, phaseAnswer},
		"no time passes": {func(r *trace, _ func(time.Duration)) {
			r.enter(phaseConnect)
			r.leave(phaseConnect)
			r.gotConn(fresh)
			r.firstByte()
		}, job.Timings{Connect: 1, FirstByte: 1}, phaseAnswer},
		"the look-up fails": {func(r *trace, pass func(time.Duration)) {
			r.enter(phaseConnect)
			r.dnsStart(httptrace.DNSStartInfo{})
			pass(5 * ms)
			r.dnsDone(failed)
			r.leave(phaseConnect)
			pass(100 * ms)
		}, job.Timings{DNS: 5 * ms}, phaseDNS},
		"cut off while connecting": {func(r *trace, pass func(time.Duration)) {
			r.enter(phaseConnect)
			pass(6 * ms)
		}, job.Timings{Connect: 6 * ms}, phaseConnect},
		"cut off while waiting": {func(r *trace, pass func(time.Duration)) {
			r.gotConn(reused)
			pass(7 * ms)
		}, job.Timings{Reused: true}, phaseAnswer},
		"an idle connection comes first": {func(r *trace, pass func(time.Duration)) {
			r.getConn("")
			r.enter(phaseConnect)
			r.dnsStart(httptrace.DNSStartInfo{})
			pass(100 * ms)
			r.dnsDone(httptrace.DNSDoneInfo{})
			pass(8 * ms)
			r.gotConn(reused)
			r.leave(phaseConnect)
			r.enter(phaseTLS)
			pass(9 * ms)
			r.leave(phaseTLS)
			r.firstByte()
		}, job.Timings{FirstByte: 9 * ms, Reused: true}, phaseAnswer},
		"a dead connection, then a new one": {func(r *trace, pass func(time.Duration)) {
			r.getConn("")
			r.gotConn(reused)
			pass(100 * ms)
			r.getConn("")
			r.enter(phaseConnect)
			pass(10 * ms)
			r.leave(phaseConnect)
			r.gotConn(fresh)
			pass(11 * ms)
			r.firstByte()
		}, job.Timings{Connect: 10 * ms, FirstByte: 11 * ms}, phaseAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			clock := &handClock{now: time.Now()}
			r := newTrace(clock, "")
			tt.tell(r, clock.pass)
			if got, reached := r.end(); got != tt.want || reached != tt.reached {
				t.Errorf("%+v in phase %d, want %+v in %d", got, reached, tt.want, tt.reached)
			}
		})
	}
}

// TestTraceHearsAllAtOnce is for the race detector. Whatever the order,
// nothing takes longer than the whole.
func TestTraceHearsAllAtOnce(t *testing.T) {
	began := time.Now()
	r := newTrace(job.SystemClock(), "")
	var tellers sync.WaitGroup
	for _, tell := range []func(){
		func() { r.getConn("") },
		func() { r.gotConn(httptrace.GotConnInfo{}) },
		func() { r.gotConn(httptrace.GotConnInfo{Reused: true}) },
		func() { r.dnsStart(httptrace.DNSStartInfo{}); r.dnsDone(httptrace.DNSDoneInfo{}) },
		func() { r.enter(phaseConnect); r.leave(phaseConnect) },
		func() { r.enter(phaseTLS); r.leave(phaseTLS) },
		r.firstByte,
	} {
		tellers.Go(func() {
			for range 1_000 {
				tell()
				if got, _ := r.end(); max(got.DNS, got.Connect, got.TLS, got.FirstByte) > time.Since(began) {
					t.Errorf("%+v", got)
				}
			}
		})
	}
	tellers.Wait()
}
