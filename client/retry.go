package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// mayRepeat reports whether the call may succeed if it is sent again, and does no harm. A refused
// connection and a 429 surely changed nothing; other failures may hide a change.
func mayRepeat(err error, safe bool) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if e := new(Error); errors.As(err, &e) {
		return e.Code == ErrRateLimited || safe && (e.Status == http.StatusServiceUnavailable || e.Status == http.StatusBadGateway || e.Status == http.StatusGatewayTimeout)
	}
	if e := new(net.OpError); errors.As(err, &e) && e.Op == "dial" {
		return true
	}
	return safe && errors.Is(err, ErrUnreachable)
}

// wait waits before the next request. It returns false if ctx ends first.
func (r Retrying) wait(ctx context.Context, attempt int, err error) bool {
	pause := min(r.Pause<<min(attempt-1, 20), r.Longest)
	pause = pause/2 + rand.N(pause/2+1) //nolint:gosec // a pause is no secret
	if e := new(Error); errors.As(err, &e) {
		pause = max(pause, min(e.RetryAfter, r.Longest))
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
