package httpapi

import (
	"net/http"
	"time"
)

// stopwatch measures a request's duration on the machine's monotonic clock,
// which no setting of the injected clock may stretch.
func stopwatch() func() time.Duration {
	start := time.Now() //nolint:forbidigo // measures a duration, decides nothing
	return func() time.Duration {
		return time.Since(start) //nolint:forbidigo // likewise
	}
}

// WriteWithin gives the client d to accept what the call writes next. Streams need
// it: the server's own deadline is for whole answers.
func (c *Call) WriteWithin(d time.Duration) error {
	at := time.Now().Add(d) //nolint:forbidigo // the connection's clock is the machine's
	return http.NewResponseController(c.Writer).SetWriteDeadline(at)
}

// Flush sends what was written so far.
func (c *Call) Flush() error { return http.NewResponseController(c.Writer).Flush() }
