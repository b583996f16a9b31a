package job

import (
	"context"
	"time"
)

// Instant is a point in time in whole milliseconds since the Unix epoch, the
// resolution at which duehook keeps every time. Zero means "none".
type Instant int64

// InstantOf cuts t down to whole milliseconds. Cutting, never rounding up,
// keeps "due at or before now" true for every t that has been reached.
func InstantOf(t time.Time) Instant { return Instant(t.UnixMilli()) }

// Time is the instant in UTC; the zero Instant gives the zero time.Time.
func (i Instant) Time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(i)).UTC()
}

// TimeFormat is how times are told: RFC 3339 with milliseconds, always all
// three, for times in UTC.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// RFC3339 tells the instant in TimeFormat.
func (i Instant) RFC3339() string { return i.Time().Format(TimeFormat) }

// Add moves the instant by d, cut to whole milliseconds.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d.Milliseconds()) }

// Sub is the time from o to i.
func (i Instant) Sub(o Instant) time.Duration { return time.Duration(i-o) * time.Millisecond }

// Clock is where a process takes its time from. It is injected so that tests
// and the demo can run a ladder of hours in seconds. On Redis it decides
// nothing about jobs: there the server's TIME does.
type Clock interface {
	Now() time.Time
	// NewTimer fires once after d of this clock's time.
	NewTimer(d time.Duration) Timer
}

// Timer is the part of time.Timer that loops need.
type Timer interface {
	C() <-chan time.Time
	// Stop releases the timer; it reports whether the timer had yet to fire.
	Stop() bool
}

// SystemClock is the machine's clock.
func SystemClock() Clock { return systemClock{} }

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

type systemTimer struct{ *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.Timer.C }

// ScaledClock starts at the machine's present and then runs factor times as
// fast, so that thirty minutes of waiting can be watched in seconds.
func ScaledClock(factor float64) Clock {
	return &scaledClock{start: time.Now(), factor: factor}
}

type scaledClock struct {
	start  time.Time
	factor float64
}

func (c *scaledClock) Now() time.Time {
	return c.start.Add(time.Duration(float64(time.Since(c.start)) * c.factor))
}

func (c *scaledClock) NewTimer(d time.Duration) Timer {
	return systemTimer{time.NewTimer(time.Duration(float64(d) / c.factor))}
}

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
