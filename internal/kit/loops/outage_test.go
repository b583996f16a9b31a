package loops

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
)

var errDown = errors.New("down")

func digging(log io.Writer) *Outage {
	return NewOutage("digging", job.SystemClock(), slog.New(slog.NewTextHandler(log, nil)), func() float64 { return 0.5 })
}

func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := digging(&log)
		for range 2 { // the pauses that one outage grew are not the next one's
			began := time.Now()
			for i, want := range []time.Duration{18, 54, 126, 270, 558, 1134, 2034, 2934} {
				if !o.Rest(t.Context(), errDown) {
					t.Fatal("there is to be no next try")
				}
				o.Note(t.Context(), errDown)
				if got := time.Since(began).Milliseconds(); got != int64(want) {
					t.Errorf("try %d came after %d ms, want %d", i+2, got, want)
				}
			}
			o.Worked()
			o.Worked()
		}
		for line, want := range map[string]int{
			`level=WARN msg="failing; retrying" what=digging error=down`: 2, `level=INFO msg="working again" what=digging`: 2, "\n": 4,
		} {
			if n := strings.Count(log.String(), line); n != want {
				t.Errorf("%q was logged %d times, want %d:\n%s", line, n, want, log.String())
			}
		}
	})
}

func TestEndedContextIsNoOutage(t *testing.T) {
	var log bytes.Buffer
	o := digging(&log)
	ended, end := context.WithCancel(t.Context())
	end()
	o.Note(ended, ended.Err())
	if o.Rest(ended, ended.Err()) {
		t.Error("there is to be another try")
	}
	if o.Worked(); log.Len() > 0 {
		t.Errorf("logged %s", log.String())
	}
	synctest.Test(t, func(t *testing.T) { // it may end during the pause, too
		ctx, cancel := context.WithTimeout(t.Context(), FirstPause/2)
		defer cancel()
		if digging(io.Discard).Rest(ctx, errDown) {
			t.Error("there is to be another try")
		}
	})
}

func TestLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10 * time.Second
		o := digging(io.Discard)
		lasts := func(want bool, when string) {
			t.Helper()
			if got := o.Lasts(limit); got != want {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		sleep := func(of time.Duration) { _ = job.Sleep(t.Context(), job.SystemClock(), of) }
		lasts(false, "before anything failed")
		began := time.Now()
		for time.Since(began) <= limit {
			lasts(false, "while it fails for less than the limit")
			o.Rest(t.Context(), errDown)
		}
		lasts(true, "while it fails for longer")
		o.Worked()
		lasts(false, "when it works again")
		o.Note(t.Context(), errDown)
		lasts(false, "when it fails anew")
		sleep(2 * limit)
		lasts(true, "while it may still be tried")
		sleep(2 * limit)
		lasts(false, "when it has not been tried for long")
	})
}

func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		wake := make(chan struct{}, 1)
		began := time.Now()
		var calls []time.Duration
		digging(&log).Repeat(ctx, Task{
			Every: time.Minute, Retry: time.Second, Limit: 5 * time.Second, Wake: wake,
			Do: func(ctx context.Context) error {
				calls = append(calls, time.Since(began))
				switch len(calls) {
				case 1:
					return errDown
				case 2:
					panic("a bug")
				case 3:
					<-ctx.Done() // for the limit
					return ctx.Err()
				case 5:
					wake <- struct{}{}
				case 6:
					cancel()
				}
				return nil
			},
		})
		want := []time.Duration{0, time.Second, 2 * time.Second, 8 * time.Second, 68 * time.Second, 68 * time.Second}
		if !slices.Equal(calls, want) {
			t.Errorf("calls at %v, want %v", calls, want)
		}
		if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "error=down") {
			t.Errorf("%d lines of one outage:\n%s", n, log.String())
		}
	})
}
