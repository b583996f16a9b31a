package dispatcher

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/duehook/duehook/job"
)

// phase is how far an attempt has come.
type phase uint8

// The phases of an attempt, in their order. The middle three are left out
// when an idle connection is there.
const (
	phaseBegin phase = iota
	phaseDNS
	phaseConnect
	phaseTLS
	phaseAnswer // a connection is there: send, and wait for the answer
	phaseCount
)

// trace measures the phases of one attempt. The transport reports them from
// several goroutines, and goes on connecting after the request has been given
// another's connection, or has ended: by then end has copied what counts.
type trace struct {
	clock  job.Clock
	steady func() bool // the endpoint does not already fail
	hooks  httptrace.ClientTrace
	header http.Header // of the request, until it comes to the transport

	mu      sync.Mutex
	asked   int          // how often a connection was asked for
	conn    *boundedConn // that was got; nil: none yet
	reused  bool
	running bool // the current phase has not ended
	current phase
	since   time.Time // when the current phase began
	took    [phaseCount]time.Duration
}

func newTrace(clock job.Clock, steady func() bool) *trace {
	t := &trace{clock: clock, steady: steady}
	t.hooks = httptrace.ClientTrace{
		GetConn:              t.getConn,
		GotConn:              t.gotConn,
		GotFirstResponseByte: t.firstByte,
		TLSHandshakeStart:    t.tlsStart,
		TLSHandshakeDone:     t.tlsDone,
	}
	return t
}

type traceKey struct{}

// attach makes the context of a request report to t.
func (t *trace) attach(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(context.WithValue(ctx, traceKey{}, t), &t.hooks)
}

// end gives what was measured, and the phase in which the attempt ended.
func (t *trace) end() (job.Timings, phase) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != phaseAnswer { // else no byte came
		t.stop()
	}
	return job.Timings{
		DNS: t.took[phaseDNS], Connect: t.took[phaseConnect], TLS: t.took[phaseTLS],
		FirstByte: t.took[phaseAnswer], Reused: t.reused,
	}, t.current
}

// stop ends the current phase. One that took no time at all by the clock has
// still happened.
func (t *trace) stop() {
	if t.running {
		t.running = false
		t.took[t.current] = max(t.clock.Now().Sub(t.since), 1)
	}
}

func (t *trace) start(p phase) {
	t.current, t.since, t.running = p, t.clock.Now(), true
}

// getConn comes once for a request, and once more for each connection that
// turned out to be dead. The last one counts.
func (t *trace) getConn(string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked++
	t.conn, t.current, t.running, t.reused = nil, phaseBegin, false, false
	t.took = [phaseCount]time.Duration{}
}

func (t *trace) gotConn(info httptrace.GotConnInfo) {
	conn, ok := info.Conn.(*boundedConn)
	if ok {
		conn.begin()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conn = conn
	if info.Reused { // whatever was measured is of another connection
		t.took = [phaseCount]time.Duration{}
	}
	t.reused = info.Reused
	t.start(phaseAnswer)
}

// enter starts a phase of connecting, while a connection is wanted.
func (t *trace) enter(p phase) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current < phaseAnswer {
		t.start(p)
	}
}

// leave ends a phase, unless another has come since.
func (t *trace) leave(p phase) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current == p {
		t.stop()
	}
}

func (t *trace) firstByte() { t.leave(phaseAnswer) }

func (t *trace) tlsStart()                          { t.enter(phaseTLS) }
func (t *trace) tlsDone(tls.ConnectionState, error) { t.leave(phaseTLS) }

func (t *trace) dnsStart(httptrace.DNSStartInfo) { t.enter(phaseDNS) }

func (t *trace) dnsDone(info httptrace.DNSDoneInfo) {
	t.leave(phaseDNS)
	if info.Err == nil {
		t.enter(phaseConnect)
	}
}

// traced is dial, reporting to the trace of the request that wants a
// connection. The hooks for look-ups are set here, for most requests find an
// idle connection. There are none for connecting: a host of several addresses
// would call them for each, two at a time, while dial returns once.
func traced(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		t, ok := ctx.Value(traceKey{}).(*trace)
		if !ok {
			return dial(ctx, network, address)
		}
		t.enter(phaseConnect) // unless there is a name to look up
		defer t.leave(phaseConnect)
		return dial(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{DNSStart: t.dnsStart, DNSDone: t.dnsDone}), network, address)
	}
}
