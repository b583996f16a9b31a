package storetime

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// stepped is a clock that can be set.
type stepped struct {
	job.Clock
	ahead atomic.Int64
}

func (c *stepped) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.ahead.Load())) }

func (c *stepped) step(by time.Duration) { c.ahead.Add(int64(by)) }

// server has a clock of its own, and answers late.
type server struct {
	store.Figuring
	clock stepped
	late  time.Duration
	down  atomic.Bool
	reads atomic.Int64
}

func (s *server) Figures(context.Context, store.FigureQuery) (store.Figures, error) {
	s.reads.Add(1)
	if s.down.Load() {
		return store.Figures{}, errors.New("down")
	}
	now := job.InstantOf(s.clock.Now())
	pass(s.late)
	return store.Figures{Now: now}, nil
}

func TestEstimate(t *testing.T) {
	for name, test := range map[string]struct {
		server, local time.Duration // steps
		late          time.Duration
		down          bool
		within        time.Duration // of the server's time, later
		steps         int64
	}{
		"nothing happens":                {},
		"answers are late":               {late: 300 * time.Millisecond, within: 300 * time.Millisecond},
		"the server's clock goes ahead":  {server: time.Hour, steps: 1},
		"the server's clock goes back":   {server: -10 * time.Minute, steps: 1},
		"the node's clock goes ahead":    {local: time.Hour, steps: 1},
		"the node's clock goes back":     {local: -time.Hour, steps: 1},
		"both are set":                   {server: 7 * time.Minute, local: 7 * time.Minute},
		"the server does not answer":     {down: true},
		"the clock goes ahead meanwhile": {down: true, server: time.Minute, within: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, local := &server{clock: stepped{Clock: job.SystemClock()}, late: test.late}, &stepped{Clock: job.SystemClock()}
				local.step(25 * time.Minute) // wrong from the beginning
				c := New(s, local)
				var steps atomic.Int64
				c.OnStep(func() { steps.Add(1) })
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- c.Run(ctx) }()
				pass(test.late)
				synctest.Wait()
				if got := steps.Load(); got != 1 {
					t.Errorf("the wrong clock at the start was noticed %d times", got)
				}
				s.clock.step(test.server)
				local.step(test.local)
				s.down.Store(test.down)
				pass(10*time.Second + readEvery/2)
				if d := c.Instant().Sub(job.InstantOf(s.clock.Now())).Abs(); d > test.within {
					t.Errorf("it is wrong by %v", d)
				}
				if got := steps.Load() - 1; got != test.steps {
					t.Errorf("%d steps, not %d", got, test.steps)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestReadsFollowUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{clock: stepped{Clock: job.SystemClock()}}
		c := New(s, job.SystemClock())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		reads := func(d time.Duration, use bool) int64 {
			before := s.reads.Load()
			for range d / time.Second {
				if use {
					c.Instant()
				}
				pass(time.Second)
			}
			synctest.Wait()
			return s.reads.Load() - before
		}
		reads(500*time.Millisecond, false)
		pass(500 * time.Millisecond)
		if n := reads(100*time.Second, false); n < 9 || n > 11 {
			t.Errorf("%d reads in 100 s without use", n)
		}
		if n := reads(20*time.Second, true); n < 19 || n > 21 {
			t.Errorf("%d reads in 20 s of use", n)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// pass lets time pass in the bubble.
func pass(d time.Duration) { <-time.After(d) }
