package job_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
)

func TestInstant(t *testing.T) {
	when := time.Date(2026, 1, 31, 9, 30, 0, 999_999_999, time.FixedZone("", 8*3600))
	i := job.InstantOf(when)
	if want := time.Date(2026, 1, 31, 1, 30, 0, 999_000_000, time.UTC); !i.Time().Equal(want) || i.Time().Location() != time.UTC {
		t.Errorf("InstantOf(%v).Time() = %v, want %v: cut down, in UTC", when, i.Time(), want)
	}
	if got := job.Instant(0).Time(); !got.IsZero() {
		t.Errorf("the zero Instant is %v, want the zero time", got)
	}
	if got := i.Add(1500*time.Millisecond + 999*time.Microsecond); got.Sub(i) != 1500*time.Millisecond {
		t.Errorf("Add moved the instant by %v, want 1.5s", got.Sub(i))
	}
	if got, want := i.Add(-999*time.Millisecond).RFC3339(), "2026-01-31T01:30:00.000Z"; got != want {
		t.Errorf("told as %s, want %s: in UTC, with all three digits", got, want)
	}
}

func TestSystemClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, start := job.SystemClock(), time.Now()
		must.OK(t, job.Sleep(t.Context(), c, time.Minute))
		must.Equal(t, "slept", c.Now().Sub(start), time.Minute)
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := job.Sleep(ctx, job.SystemClock(), time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Sleep = %v, want the context's error", err)
		}
		must.Equal(t, "slept", time.Since(start), time.Second)
	})
}

func TestTimerStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := job.SystemClock().NewTimer(time.Second)
		if !timer.Stop() {
			t.Error("Stop of a running timer is false")
		}
		if timer.Stop() {
			t.Error("a second Stop is true")
		}
	})
}
