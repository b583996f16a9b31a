package ledger_test

import (
	"bytes"
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/ledger"
)

// hangLimit catches a call that does not end.
const hangLimit = time.Minute

// said matches a request that contains a word, in upper or lower case.
func said(word string) func([]byte) bool {
	return func(request []byte) bool { return bytes.Contains(bytes.ToUpper(request), []byte(word)) }
}

// afterwards matches the request that follows one which match matches.
func afterwards(match func([]byte) bool) func([]byte) bool {
	matched := false
	return func(request []byte) bool {
		if matched {
			return true
		}
		matched = match(request)
		return false
	}
}

// begins matches the begin of a transaction.
func begins(request []byte) bool { return said("START TRANSACTION")(request) || said("BEGIN")(request) }

func always([]byte) bool { return true }

// hung is a ledger behind a proxy.
type hung struct {
	*rig
	proxy *testenv.Proxy
}

func newHung(t *testing.T, b *backend) *hung {
	t.Helper()
	u, err := url.Parse(b.Fresh(t))
	noError(t, "Parse", err)
	p := testenv.StartProxy(t, u.Host)
	u.Host = p.Addr()
	r := newRig(t, b, u.String(), retention)
	r.Add(reg("a", 0))
	noError(t, "Flush", r.Flush())
	return &hung{r, p}
}

// A server that hangs hangs no call, in whatever phase of a transaction: calls of clients
// are refused, and what is known is delivered. Without a limit of the connection, the calls
// would never return: neither side ends it.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	for name, hang := range map[string]func(h *hung){
		"begin":     func(h *hung) { h.proxy.Swallow(begins) },
		"lock":      func(h *hung) { h.proxy.Swallow(afterwards(begins)) },
		"statement": func(h *hung) { h.proxy.Swallow(afterwards(afterwards(begins))) },
		"commit":    func(h *hung) { h.proxy.Swallow(said("COMMIT")) },
		"rollback": func(h *hung) {
			h.ReadOnly(true)
			h.proxy.Swallow(said("ROLLBACK"))
		},
		"handshake": func(h *hung) {
			h.proxy.CutAll()
			h.proxy.Swallow(always)
		},
		"idle": func(h *hung) { h.proxy.Swallow(always) },
	} {
		for _, b := range servers {
			t.Run(name+" on "+b.Name, func(t *testing.T) {
				t.Parallel()
				h := newHung(t, b)
				c := h.TakeOne()
				noError(t, "Flush", h.Flush())
				hang(h)
				h.refuses(t, name)
				h.delivers(t, c)
				h.proxy.Swallow(nil)
				h.recovers(t)
			})
		}
	}
}

// refuses registers while the server hangs.
func (h *hung) refuses(t *testing.T, phase string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangLimit)
	defer cancel()
	for again := true; again; again = !h.proxy.Swallowing() { // a connection that was cut fails at once
		began := job.SystemClock().Now()
		_, err := h.Register(ctx, []store.Registration{reg("b", time.Hour)})
		took := job.SystemClock().Now().Sub(began)
		unavailable(t, "Register", err)
		t.Logf("%s: refused after %v: %v", phase, took, err)
	}
	noError(t, "the context", ctx.Err())
	err := h.Ping(ctx)
	for err == nil && job.Sleep(ctx, job.SystemClock(), 10*time.Millisecond) == nil { // a write that succeeded proves the server for a while
		err = h.Ping(ctx)
	}
	unavailable(t, "Ping", err)
}

// delivers settles while the server hangs.
func (h *hung) delivers(t *testing.T, c store.Claimed) {
	t.Helper()
	h.SettleAll(settlement(c, job.OutcomeDelivered, 0))
	equal(t, "state", h.Job("a").State, job.Delivered)
}

// recovers waits until the ledger is as the store is.
func (h *hung) recovers(t *testing.T) {
	t.Helper()
	h.written()
	h.Add(reg("c", time.Hour))
	equal(t, "ends", h.Count("SELECT count(*) FROM flow WHERE to_state = 4"), "1")
}

// A commit whose reply is lost is repeated, and nothing of it is written twice.
func TestReplyToCommitIsLost(t *testing.T) {
	onRealServers(t, func(t *testing.T, b *backend) {
		h := newHung(t, b)
		h.loseReply()
		c := h.TakeOne()
		h.written()
		h.loseReply()
		h.SettleAll(settlement(c, job.OutcomeDelivered, 0))
		h.written()
		equal(t, "replies lost", h.proxy.Dropped(), 2)
		equal(t, "changes in flow", h.Query("SELECT to_state FROM flow ORDER BY at, to_state"), []string{"0", "2", "3", "4"})
	})
}

// loseReply loses the reply to the next commit.
func (h *hung) loseReply() {
	lost := false
	h.proxy.DropReplies(func(request []byte) bool {
		is := !lost && said("COMMIT")(request)
		lost = lost || is
		return is
	})
}

// written waits until all is written.
func (h *hung) written() {
	h.T.Helper()
	testenv.Eventually(h.T, hangLimit, func() bool { return h.Flush() == nil }, "the ledger can be written again")
}

// A frozen server keeps its connections, too.
func TestServerFreezes(t *testing.T) {
	onRealServers(t, func(t *testing.T, b *backend) {
		server, err := b.Start(false)
		noError(t, "start the server", err)
		defer func() { noError(t, "Close", server.Close()) }()
		h := &hung{rig: newRig(t, b, b.FreshOn(t, server), retention)}
		h.Add(reg("a", 0))
		c := h.TakeOne()
		noError(t, "Flush", h.Flush())
		noError(t, "Pause", server.Pause())
		_, err = h.Register(t.Context(), []store.Registration{reg("b", time.Hour)})
		unavailable(t, "Register", err)
		unavailable(t, "Ping", h.Ping(t.Context()))
		h.delivers(t, c)
		_, err = ledger.Verify(t.Context(), ledger.VerifyOptions{URL: h.URL, Store: h.o.Store})
		if err == nil || !strings.Contains(err.Error(), "the server did not answer") {
			t.Errorf("Verify: %v", err)
		}
		noError(t, "Resume", server.Resume())
		h.written()
		noError(t, "Close", h.Close())
	})
}
