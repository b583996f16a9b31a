package dispatcher

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
)

func TestLinesAreCountedForEachAnswer(t *testing.T) {
	const headers, requests = maxHeaderLines - 50, 5
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range headers {
			w.Header().Set("X-"+strconv.Itoa(i), "x")
		}
	})
	s := realSender(t, Options{AllowCIDRs: loopback()})
	reused := 0
	for range requests {
		o, _ := s.send(t.Context(), claimOf(newJob("h", url)))
		if o.Kind != job.OutcomeDelivered {
			t.Fatalf("attempt %+v", o.Attempt)
		}
		if o.Attempt.Timings.Reused {
			reused++
		}
	}
	if reused == 0 {
		t.Error("no connection was used again")
	}
}

func TestLinesOfBodiesDoNotMatter(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		for range 20_000 {
			_, _ = w.Write([]byte("\n"))
		}
	})
	o, _ := realSender(t, Options{AllowCIDRs: loopback()}).send(t.Context(), claimOf(newJob("b", url)))
	if o.Kind != job.OutcomeDelivered {
		t.Errorf("attempt %+v", o.Attempt)
	}
}

// TestConnectingEndsWithItsRequest: net/http would go on for another while.
func TestConnectingEndsWithItsRequest(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // nobody accepts: the kernel does
	never := func(ctx context.Context, _, _ string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	guarded := mustGuard(t, loopback()...).dial
	for name, connect := range map[string]dialFunc{
		"dial":         (&dialer{dial: never}).plain,
		"dial for TLS": (&dialer{dial: never}).secure,
		"handshake":    (&dialer{dial: guarded, tls: &tls.Config{MinVersion: tls.VersionTLS12}}).secure,
	} {
		t.Run(name, func(t *testing.T) {
			request, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			began := time.Now()
			_, err := connect(context.WithoutCancel(newTrace(job.SystemClock(), "").attach(request)), "tcp", l.Addr().String())
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
			if took := time.Since(began); took > dialTimeout/2 {
				t.Errorf("went on for %v", took)
			}
		})
	}
}
