package limit

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/internal/job"
)

// idlePause is how long a pipeline that found nothing waits before it looks
// again.
const idlePause = time.Millisecond

// Pipeline delivers the jobs of a queue.
type Pipeline struct {
	Queue   *Queue
	Workers int
	Batch   int
	// Again is after how long a failed job is tried again.
	Again time.Duration
	Clock job.Clock
	// Post delivers one job.
	Post func(ctx context.Context, url string, body []byte) error
}

type outcome struct {
	id  string
	err error
}

// Run delivers until ctx ends, and then what it has claimed.
func (p *Pipeline) Run(ctx context.Context) error {
	jobs, outcomes := make(chan Job, p.Workers), make(chan outcome, p.Workers)
	// The channel holds jobs that no worker has begun, so this many are in flight.
	free := make(chan struct{}, 2*p.Workers)
	work := context.WithoutCancel(ctx)
	stages, ctx := errgroup.WithContext(ctx)
	stages.Go(func() error { return p.carry(ctx) })
	stages.Go(func() error {
		defer close(jobs)
		return p.feed(ctx, jobs, free)
	})
	stages.Go(func() error {
		defer close(outcomes)
		p.send(work, jobs, outcomes, free)
		return nil
	})
	stages.Go(func() error { return p.settle(work, outcomes) })
	return stages.Wait()
}

// carry makes jobs ready when they are due.
func (p *Pipeline) carry(ctx context.Context) error {
	for {
		n, err := p.Queue.carry(ctx, p.Batch)
		if err != nil {
			return unlessEnded(ctx, err)
		}
		if n < p.Batch {
			if err := job.Sleep(ctx, p.Clock, idlePause); err != nil {
				return unlessEnded(ctx, err)
			}
		}
	}
}

// feed claims as many as there is room for.
func (p *Pipeline) feed(ctx context.Context, jobs chan<- Job, free chan struct{}) error {
	for {
		select { // waits for room
		case free <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		n := 1
		for n < p.Batch && tryPut(free) {
			n++
		}
		claimed, err := p.Queue.claim(ctx, n)
		if err != nil {
			return unlessEnded(ctx, err)
		}
		for range n - len(claimed) {
			<-free
		}
		for _, j := range claimed {
			jobs <- j
		}
		if len(claimed) == 0 {
			if err := job.Sleep(ctx, p.Clock, idlePause); err != nil {
				return unlessEnded(ctx, err)
			}
		}
	}
}

// unlessEnded is err, if it is not for the end of ctx that something failed.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

func tryPut(free chan<- struct{}) bool {
	select {
	case free <- struct{}{}:
		return true
	default:
		return false
	}
}

func (p *Pipeline) send(ctx context.Context, jobs <-chan Job, outcomes chan<- outcome, free <-chan struct{}) {
	var workers sync.WaitGroup
	for range p.Workers {
		workers.Go(func() {
			for j := range jobs {
				err := p.Post(ctx, j.URL, j.Body)
				<-free
				outcomes <- outcome{j.ID, err}
			}
		})
	}
	workers.Wait()
}

// settle finishes what has gathered while the batch before was in progress. After
// a failure it takes the rest without finishing it, so that nobody waits.
func (p *Pipeline) settle(ctx context.Context, outcomes <-chan outcome) error {
	var firstErr error
	for first := range outcomes {
		if firstErr != nil {
			continue
		}
		var delivered, failed []string
		put := func(o outcome) {
			if o.err == nil {
				delivered = append(delivered, o.id)
			} else {
				failed = append(failed, o.id)
			}
		}
		put(first)
	gather:
		for range p.Batch - 1 {
			select {
			case o, ok := <-outcomes:
				if !ok {
					break gather
				}
				put(o)
			default:
				break gather
			}
		}
		firstErr = p.Queue.finish(ctx, delivered, failed, p.Clock.Now().Add(p.Again))
	}
	return firstErr
}
