package job

import (
	"context"
	"time"
)

// Instant is a point in time in whole milliseconds since the Unix epoch, the
// resolution at which duehook keeps every time. Zero means "none".
type Instant int64

// InstantOf truncates t to whole milliseconds. It never rounds up, so "due at or
// before now" stays true for every past t.
func InstantOf(t time.Time) Instant { return Instant(t.UnixMilli()) }

// Time is the instant in UTC; the zero Instant gives the zero time.Time.
func (i Instant) Time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(i)).UTC()
}

// TimeFormat is the format of times: RFC 3339 in UTC with all three digits of
// milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// RFC3339 formats the instant in TimeFormat.
func (i Instant) RFC3339() string { return i.Time().Format(TimeFormat) }

// Add returns the instant plus d, truncated to whole milliseconds.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d.Milliseconds()) }

// Sub is the time from o to i.
func (i Instant) Sub(o Instant) time.Duration { return time.Duration(i-o) * time.Millisecond }

// Clock is the source of time of a process. It is injected so that tests and
// duehook dev can run a ladder of hours in seconds. On Redis, the server's TIME
// decides about jobs instead.
type Clock interface {
	Now() time.Time
	// NewTimer fires once after d of this clock's time.
	NewTimer(d time.Duration) Timer
}

// Timer is the part of time.Timer that loops use.
type Timer interface {
	C() <-chan time.Time
	// Stop releases the timer and reports whether it had not fired yet.
	Stop() bool
}

// SystemClock is the machine's clock.
func SystemClock() Clock { return systemClock{} }

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

type systemTimer struct{ *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.Timer.C }

// Sleep waits for d of the clock's time; it returns early, with the context's
// error, when ctx ends.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C():
		return nil
	}
}
