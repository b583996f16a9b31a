package loops_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/loops"
)

func TestWait(t *testing.T) {
	for name, c := range map[string]struct {
		before func(s loops.Signal, cancel context.CancelFunc)
		want   time.Duration
	}{
		"without a signal":    {func(loops.Signal, context.CancelFunc) {}, time.Minute},
		"two signals":         {func(s loops.Signal, _ context.CancelFunc) { s.Set(); s.Set() }, 0},
		"a later signal":      {func(s loops.Signal, _ context.CancelFunc) { time.AfterFunc(time.Second, s.Set) }, time.Second},
		"a context that ends": {func(_ loops.Signal, cancel context.CancelFunc) { time.AfterFunc(time.Second, cancel) }, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s, began := loops.NewSignal(), time.Now()
				c.before(s, cancel)
				s.Wait(ctx, job.SystemClock(), time.Minute)
				if took := time.Since(began); took != c.want {
					t.Errorf("waited %v, want %v", took, c.want)
				}
				if len(s) != 0 {
					t.Error("a signal is left")
				}
			})
		})
	}
}
