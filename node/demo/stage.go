package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/node"
	"github.com/duehook/duehook/node/config"
)

// pollEvery is how often a story asks the API for something to come, in real
// time.
const pollEvery = 5 * time.Millisecond

// stage is what a story plays on: a duehook of its own, a receiver, and a
// clock that both go by.
type stage struct {
	*timeline
	*checks
	api      *client
	receiver *receiver
	clock    job.Clock
	start    time.Time
	config   *config.Config

	stopNode context.CancelFunc
	nodeDone chan error
}

// openStage starts everything that a story needs. The story's clock is speed
// times as fast as the machine's.
func openStage(ctx context.Context, w *show, name string, speed float64, decide func(*stage, delivery) answer) (*stage, error) {
	if speed < 1 {
		return nil, fmt.Errorf("demo: %s: a speed of %v would take too long", name, speed)
	}
	s := &stage{timeline: w.timeline, checks: w.checks, clock: job.ScaledClock(speed), nodeDone: make(chan error, 1)}
	var err error
	if s.receiver, err = startReceiver(ctx, s.clock, func(d delivery) answer { return decide(s, d) }); err != nil {
		return nil, err
	}
	if err := s.startNode(ctx, w, name, speed); err != nil {
		return nil, errors.Join(err, s.receiver.stop())
	}
	s.start = s.clock.Now()
	return s, nil
}

func (s *stage) startNode(ctx context.Context, w *show, name string, speed float64) error {
	var err error
	s.config, err = config.Load([]string{
		"--addr=127.0.0.1:0",
		"--data-dir=" + filepath.Join(w.dir, name),
		"--allow-cidrs=127.0.0.0/8", // the receiver is on this machine
		"--retry-jitter=0",          // so that the ladder can be read off
		"--breaker-failures=0",      // a merchant that fails is the story
		"--retention=30d",           // the stories last hours
	}, nil)
	if err != nil {
		return err
	}
	// It is stopped by close, also when ctx has ended: in order, and last.
	nodeCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stopNode = stop
	ready := make(chan string, 1)
	go func() {
		s.nodeDone <- node.Run(nodeCtx, node.Options{
			Config: s.config, Logger: w.log.With("story", name), Version: w.Version,
			Clock: s.clock, Speed: speed, Ready: func(base string) { ready <- base },
		})
	}()
	select {
	case base := <-ready:
		s.api = newClient(base)
		return nil
	case err := <-s.nodeDone:
		stop()
		return fmt.Errorf("demo: duehook did not start: %w", err)
	}
}

// close stops duehook as a SIGTERM would, and then the receiver.
func (s *stage) close() error {
	s.stopNode()
	err := <-s.nodeDone
	s.api.close()
	return errors.Join(err, s.receiver.stop())
}

// since is the story's time of t, from its start.
func (s *stage) since(t time.Time) time.Duration { return t.Sub(s.start) }

// tell prints a line of the story at its present.
func (s *stage) tell(who string, st style, format string, args ...any) {
	s.at(s.since(s.clock.Now()), who, st, format, args...)
}

// waitFor waits until the story's clock has passed at.
func (s *stage) waitFor(ctx context.Context, at time.Duration) error {
	return job.Sleep(ctx, s.clock, at-s.since(s.clock.Now()))
}

// jobInState waits until the API shows the job in the state.
func (s *stage) jobInState(ctx context.Context, d *definition, state job.State) (jobView, error) {
	for {
		j, err := s.api.job(ctx, d.Topic, d.ID)
		if err != nil {
			return j, err
		}
		if j.State == state.String() {
			return j, nil
		}
		if job.Sleep(ctx, job.SystemClock(), pollEvery) != nil {
			return j, fmt.Errorf("demo: %s is still %s, not %s, at the end of the time", d.ID, j.State, state)
		}
	}
}

// loggedAttempt waits until the API shows the n-th attempt of the job, and
// gives it with a time of the story at which it had been written down.
func (s *stage) loggedAttempt(ctx context.Context, d *definition, n int) (attemptView, time.Time, error) {
	for {
		attempts, err := s.api.attempts(ctx, d.Topic, d.ID)
		if err != nil {
			return attemptView{}, time.Time{}, err
		}
		if len(attempts) >= n {
			return attempts[n-1], s.clock.Now(), nil
		}
		if job.Sleep(ctx, job.SystemClock(), pollEvery) != nil {
			return attemptView{}, time.Time{}, fmt.Errorf("demo: attempt %d of %s was not stored in time", n, d.ID)
		}
	}
}

// within reports whether t, cut to milliseconds, lies between what from and
// to are when moved by d. Both are times of the same clock as t, taken before
// and after it, so load on the machine cannot make it fail.
func within(t, from, to time.Time, d time.Duration) bool {
	at := job.InstantOf(t)
	return job.InstantOf(from).Add(d) <= at && at <= job.InstantOf(to).Add(d)
}

// before reports whether a comes before b, both cut to milliseconds.
func before(a, b time.Time) bool { return job.InstantOf(a) < job.InstantOf(b) }
