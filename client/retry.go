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
// connection, a 425, a 429 and a busy job surely changed nothing; other failures may hide a change.
func mayRepeat(err error, safe bool) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if e := new(Error); errors.As(err, &e) {
		switch e.Status {
		case http.StatusTooManyRequests, http.StatusTooEarly:
			return true
		case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return safe
		}
		return e.Code == ErrJobBusy
	}
	if e := new(net.OpError); errors.As(err, &e) && e.Op == "dial" {
		return true
	}
	return safe && errors.Is(err, ErrUnreachable)
}

// longestRetryAfter bounds what a server may ask for.
const longestRetryAfter = time.Hour

// tooLate reports whether the server wants a longer pause than a call may take.
func (r Retrying) tooLate(err error) bool {
	e := new(Error)
	return errors.As(err, &e) && e.RetryAfter > r.Longest
}

// wait waits before the next request, at least as long as the server asked for. It returns false if ctx ends first.
func (r Retrying) wait(ctx context.Context, attempt int, err error) bool {
	pause := min(r.Pause<<min(attempt-1, 20), r.Longest)
	pause = pause/2 + rand.N(pause/2+1) //nolint:gosec // a pause is no secret
	if e := new(Error); errors.As(err, &e) {
		pause = max(pause, min(e.RetryAfter, longestRetryAfter))
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
