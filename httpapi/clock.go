package httpapi

import "time"

// stopwatch measures a request's duration on the machine's monotonic clock,
// which no setting of the injected clock may stretch.
func stopwatch() func() time.Duration {
	start := time.Now() //nolint:forbidigo // measures a duration, decides nothing
	return func() time.Duration {
		return time.Since(start) //nolint:forbidigo // likewise
	}
}

// deadline is when a connection has to be done with what it is given, on the
// machine's clock, as the network's.
func deadline(d time.Duration) time.Time {
	return time.Now().Add(d) //nolint:forbidigo // of a connection
}
