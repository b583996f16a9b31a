package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

const (
	// intakeCalls is how many calls of the intake are under way at a time. What
	// comes meanwhile goes together with the next: a job by itself takes several
	// times as much of Redis's time as one of ten.
	intakeCalls = 4
	// goesAlone is for how many jobs a call of their own is as good.
	goesAlone = 50
)

// intake takes the registrations of a shard to Redis, those of several callers
// in one call.
type intake struct {
	send  func(ctx context.Context, batch []*arrival)
	calls chan struct{} // holds one for each call under way

	mu    sync.Mutex
	queue []*arrival
}

// arrival is what one caller has to register, and what became of it.
type arrival struct {
	jobs     []newJob
	until    time.Time     // the caller's deadline; zero: none
	done     chan struct{} // closed when the rest may be read
	now      job.Instant
	verdicts []verdict // for each job
	err      error
}

// bytes is about what the arrival takes of a call.
func (a *arrival) bytes() int {
	bytes := 0
	for i := range a.jobs {
		bytes += len(a.jobs[i].body)
	}
	return bytes
}

// newJob is what the script is told of a registration.
type newJob struct {
	key    job.Key
	lane   job.Lane
	body   []byte
	due    int64  // a delay in milliseconds, or a time below zero
	terms  string // "<TTL> <timeout>" in milliseconds, empty without either
	bizKey string
}

var errNoAnswer = errors.New("redisstore: registering ended without an answer")

func newIntake(send func(context.Context, []*arrival)) *intake {
	return &intake{send: send, calls: make(chan struct{}, intakeCalls)}
}

// register sends jobs, with those of others, and waits for the answer. What is
// on its way when ctx ends may be registered nevertheless.
func (in *intake) register(ctx context.Context, jobs []newJob) (*arrival, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a := &arrival{jobs: jobs, done: make(chan struct{})}
	a.until, _ = ctx.Deadline()
	in.mu.Lock()
	in.queue = append(in.queue, a)
	in.mu.Unlock()
	select {
	case <-a.done: // somebody else took it along
		return a, a.err
	case <-ctx.Done():
		in.withdraw(a)
		return nil, ctx.Err()
	case in.calls <- struct{}{}:
		in.call(ctx, in.take(a))
	}
	select {
	case <-a.done:
		return a, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (in *intake) withdraw(a *arrival) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.queue = slices.DeleteFunc(in.queue, func(other *arrival) bool { return other == a })
}

// take takes a off the queue with as many others as fit into one call. If a is
// in another call by now, it takes nothing: whoever waits makes the next.
func (in *intake) take(a *arrival) []*arrival {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !slices.Contains(in.queue, a) {
		return nil
	}
	batch, jobs, bytes := []*arrival{a}, len(a.jobs), a.bytes()
	in.queue = slices.DeleteFunc(in.queue, func(other *arrival) bool {
		fits := other != a && jobs+len(other.jobs) <= maxBatch && bytes+other.bytes() <= store.BatchBytes
		if fits {
			batch, jobs, bytes = append(batch, other), jobs+len(other.jobs), bytes+other.bytes()
		}
		return fits || other == a
	})
	return batch
}

// call makes a call, whose place is taken.
func (in *intake) call(ctx context.Context, batch []*arrival) {
	ctx, cancel := lasting(ctx, batch)
	defer cancel()
	defer func() {
		<-in.calls
		for _, a := range batch {
			close(a.done)
		}
	}()
	for _, a := range batch {
		a.err = errNoAnswer
	}
	if len(batch) > 0 {
		in.send(ctx, batch)
	}
}

// lasting is ctx, which ends when the last of the batch does not wait any more.
func lasting(ctx context.Context, batch []*arrival) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	var until time.Time
	for _, a := range batch {
		if a.until.IsZero() {
			return ctx, func() {}
		}
		if a.until.After(until) {
			until = a.until
		}
	}
	return context.WithDeadline(ctx, until)
}
