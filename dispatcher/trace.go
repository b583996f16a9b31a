package dispatcher

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// phase is the progress of an attempt.
type phase uint8

// The phases of an attempt, in order. With an idle connection, the middle three are left
// out.
const (
	phaseBegin phase = iota
	phaseDNS
	phaseConnect
	phaseTLS
	phaseAnswer // send on a connection, and wait for the answer
	phaseCount
)

// trace measures the phases of one attempt. The transport reports them from several
// goroutines, and continues to connect after the request got another connection or ended.
// end has copied the result by then.
type trace struct {
	clock    job.Clock
	endpoint string
	hooks    httptrace.ClientTrace
	deadline time.Time   // of the request
	header   http.Header // of the request, until the transport gets it
	body     []byte      // of the request

	mu         sync.Mutex
	asked      int          // requests for a connection
	conn       *boundedConn // nil: none yet
	reused     bool
	replaced   bool // see replace
	unanswered bool // the replaced connection took something of the request
	running    bool // the current phase has not ended
	current    phase
	since      time.Time // when the current phase began
	took       [phaseCount]time.Duration
}

func newTrace(clock job.Clock, endpoint string) *trace {
	t := &trace{clock: clock, endpoint: endpoint}
	t.hooks = httptrace.ClientTrace{
		GetConn:              t.getConn,
		GotConn:              t.gotConn,
		GotFirstResponseByte: t.firstByte,
	}
	return t
}

type traceKey struct{}

// traceOf returns the trace of a request; nil if it has none.
func traceOf(ctx context.Context) *trace {
	t, _ := ctx.Value(traceKey{}).(*trace)
	return t
}

// attach makes the context of a request report to t. It also keeps the deadline: net/http
// passes the values of the context to the dialer, but not the deadline.
func (t *trace) attach(ctx context.Context) context.Context {
	t.deadline, _ = ctx.Deadline()
	return httptrace.WithClientTrace(context.WithValue(ctx, traceKey{}, t), &t.hooks)
}

// end returns the timings, and the phase in which the attempt ended.
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

// stop ends the current phase. Its time is at least 1 ns, so that it shows.
func (t *trace) stop() {
	if t.running {
		t.running = false
		t.took[t.current] = max(t.clock.Now().Sub(t.since), 1)
	}
}

func (t *trace) start(p phase) {
	t.current, t.since, t.running = p, t.clock.Now(), true
}

// getConn is called once for a request, and again for each dead connection. The last call
// counts.
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
	if info.Reused { // earlier phases belong to another connection
		t.took = [phaseCount]time.Duration{}
	}
	t.reused = info.Reused
	t.start(phaseAnswer)
}

// enter starts a phase of connecting, unless there is a connection.
func (t *trace) enter(p phase) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current < phaseAnswer {
		t.start(p)
	}
}

// leave ends a phase if it is the current one.
func (t *trace) leave(p phase) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current == p {
		t.stop()
	}
}

func (t *trace) firstByte() { t.leave(phaseAnswer) }

func (t *trace) dnsStart(httptrace.DNSStartInfo) { t.enter(phaseDNS) }

func (t *trace) dnsDone(info httptrace.DNSDoneInfo) {
	t.leave(phaseDNS)
	if info.Err == nil {
		t.enter(phaseConnect)
	}
}

// traced is dial with reports to the trace of the request. It sets the hooks for look-ups
// here, because most requests find an idle connection. It needs none for connecting: with
// several addresses they would be called for each, two at a time, and dial returns once.
func traced(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		t := traceOf(ctx)
		if t == nil {
			return dial(ctx, network, address)
		}
		t.enter(phaseConnect) // unless there is a name to look up
		defer t.leave(phaseConnect)
		return dial(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{DNSStart: t.dnsStart, DNSDone: t.dnsDone}), network, address)
	}
}
