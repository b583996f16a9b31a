package dispatcher

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// MaxConnectRetries is the most times that one attempt connects again.
const MaxConnectRetries = 2

// The pause before an attempt connects again. The second one is the longer, so that two
// outlast an absence of 200 ms.
const (
	minConnectPause = 50 * time.Millisecond
	midConnectPause = 150 * time.Millisecond
	maxConnectPause = 250 * time.Millisecond
)

// newClient makes the client of all attempts. The ladder of retries belongs to the
// store, where it outlives the process. The client only repeats a request that was
// surely not sent, so that a receiver that restarts costs no attempt.
func (s *sender) newClient(transport sending, retries int, random func() float64) *retryablehttp.Client {
	return &retryablehttp.Client{
		HTTPClient: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		RetryMax:   min(max(retries, 0), MaxConnectRetries),
		CheckRetry: s.connectAgain,
		Backoff: func(_, _ time.Duration, before int, _ *http.Response) time.Duration {
			least, most := minConnectPause, midConnectPause
			if before > 0 {
				least, most = midConnectPause, maxConnectPause
			}
			return least + time.Duration(random()*float64(most-least))
		},
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
		Logger:       nil,
	}
}

// connectAgain decides whether a request is made once more: it was not sent, its
// deadline leaves time, and its endpoint does not already fail. It implements
// retryablehttp.CheckRetry.
func (s *sender) connectAgain(ctx context.Context, _ *http.Response, err error) (bool, error) {
	t := traceOf(ctx)
	again := t != nil && err != nil && timeLeft(ctx) && t.notSent(err) && s.steady(t.endpoint)
	return again, nil // an error here would take the place of err
}

// timeLeft reports whether ctx outlasts a pause.
func timeLeft(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() == nil && (!ok || time.Until(end) > maxConnectPause) //nolint:forbidigo // a deadline of the network
}

// notSent reports whether an attempt that failed with err surely sent nothing of its
// request, for a reason that may pass soon: connection refused, reset before the
// first byte of the request, or no answer from DNS. An address that the guard
// refuses stays refused.
func (t *trace) notSent(err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	var dns *net.DNSError
	switch {
	case errors.Is(err, ErrBlocked):
		return false
	case t.current == phaseAnswer: // it had a connection
		return t.conn != nil && !t.conn.written.Load() && isReset(err)
	case errors.As(err, &dns):
		return !dns.IsNotFound && (dns.IsTimeout || dns.IsTemporary)
	case errors.Is(err, syscall.ECONNREFUSED):
		return true
	}
	return (t.current == phaseConnect || t.current == phaseTLS) && isReset(err)
}

// replace reports whether the request may be made on a new connection, after err: its connection had been
// used before, and closed without a byte of an answer. That happens once in an attempt.
func (t *trace) replace(err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.replaced || t.current != phaseAnswer || !t.reused || t.conn == nil || t.conn.read.Load() > 0 || !isReset(err) {
		return false
	}
	t.replaced, t.unanswered = true, t.conn.written.Load()
	return true
}

func (t *trace) isReplaced() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.replaced
}

// retries is how often the attempt asked for another connection. resent: the request was made twice.
func (t *trace) retries() (n int, resent bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.asked-1, 0), t.unanswered && t.conn != nil && t.conn.written.Load()
}
