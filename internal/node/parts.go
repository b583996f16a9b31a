package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// part is something that runs until its context ends, and then returns when
// it is drained.
type part struct {
	name string
	run  func(ctx context.Context) error
}

// deadline is when a stopping process must have ended. All parts share it. It counts in
// real time, as does the supervisor that stops the process.
type deadline struct {
	limit time.Duration // from the request to stop
	ctx   context.Context
	end   context.CancelFunc
	begin sync.Once
}

func newDeadline(limit time.Duration) *deadline { return &deadline{limit: limit} }

// start starts the time, if that has not been done.
func (d *deadline) start() {
	d.begin.Do(func() { d.ctx, d.end = context.WithTimeout(context.Background(), d.limit) })
}

// stop stops the timer.
func (d *deadline) stop() {
	d.start()
	d.end()
}

// wait waits until done is closed, and reports whether that was in time.
func (d *deadline) wait(done <-chan struct{}) bool {
	d.start()
	select {
	case <-done:
		return true
	case <-d.ctx.Done():
	}
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// runningPart is a part that was started.
type runningPart struct {
	part
	stop    context.CancelFunc
	drained chan struct{}
}

// runParts runs all parts until ctx ends or one of them fails, and then stops
// them, one stage after the other: all parts of a stage at once, the next stage when
// they are drained. It returns the first failure, or which parts have not ended by
// the deadline, and are left alone then.
func runParts(ctx context.Context, log *slog.Logger, by *deadline, stages ...[]part) error {
	group, ending := errgroup.WithContext(ctx)
	var running [][]runningPart
	for _, stage := range stages {
		var parts []runningPart
		for _, p := range stage {
			// Not derived from ctx: a part stops when its turn comes.
			partCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
			r := runningPart{p, cancel, make(chan struct{})}
			group.Go(func() error {
				defer close(r.drained)
				err := r.run(partCtx)
				if err == nil && partCtx.Err() == nil {
					err = fmt.Errorf("%s ended by itself", r.name)
				}
				return err
			})
			parts = append(parts, r)
		}
		running = append(running, parts)
	}
	<-ending.Done()
	by.start()
	if late := stopParts(log, by, running); len(late) > 0 {
		err := fmt.Errorf("not stopped within %v: %s", by.limit, strings.Join(late, ", "))
		if ctx.Err() == nil {
			err = errors.Join(context.Cause(ending), err) // the failure of a part
		}
		return err
	}
	return group.Wait()
}

// stopParts stops parts and names those that have not ended by the deadline.
func stopParts(log *slog.Logger, by *deadline, stages [][]runningPart) (late []string) {
	for _, parts := range stages {
		for i := range parts {
			log.Info("stopping", "part", parts[i].name)
			parts[i].stop()
		}
		for i := range parts {
			if !by.wait(parts[i].drained) {
				late = append(late, parts[i].name)
			}
		}
		if len(late) > 0 { // there is no time for the other stages
			return late
		}
	}
	return nil
}
