package app

import (
	"context"
	"errors"
	"sync"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/store"
)

// Count adds to the count of a job, which it returns with what became of the add.
// Errors: a *job.ValidationError, store.ErrNotFound, job.ErrNotCounted, job.ErrCountKeys,
// a *StateError if the job ended without having fired or is about to, or the store's. Without a key, a call whose outcome is unknown must not be repeated.
func (s *App) Count(ctx context.Context, key job.Key, d *job.AddDraft) (job.Job, job.Added, error) {
	add, err := d.Add()
	if err != nil {
		return job.Job{}, job.Added{}, err
	}
	item := &counting{add: add}
	gathered := s.counters.take(key, s.countAll)
	defer s.counters.give(key)
	if err := gathered.Do(ctx, item); err != nil { // the item may still be counted
		s.metrics.counted(job.Added{}, err)
		return job.Job{}, job.Added{}, err
	}
	s.metrics.counted(item.added, item.err)
	return item.job, item.added, inState(&item.job, item.err)
}

// counting is one add with its result.
type counting struct {
	add   job.Add
	job   job.Job
	added job.Added
	err   error
}

// countAll makes one call of the store for all adds of a job that have gathered.
func (s *App) countAll(ctx context.Context, key job.Key, all []*counting) {
	adds := make([]job.Add, len(all))
	for i, c := range all {
		adds[i] = c.add
	}
	done, err := s.o.Store.Count(ctx, store.Count{Key: key, Adds: adds})
	for i, c := range all {
		c.job, c.err = done.Job, err
		if err == nil {
			c.added = done.Tally.Added[i]
			c.err = c.added.Err
		}
	}
}

// counters gather the adds of each job that is being counted: thousands of adds of one job
// take few calls of the store, and delay those of no other job.
type counters struct {
	mu   sync.Mutex
	jobs map[job.Key]*counter
}

type counter struct {
	*batch.Batcher[*counting]
	callers int
}

// take returns the batcher of a job until give.
func (c *counters) take(key job.Key, count func(ctx context.Context, key job.Key, all []*counting)) *counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.jobs[key]
	if of == nil {
		of = &counter{Batcher: batch.New(batch.Options[*counting]{Workers: 1, MaxCount: store.MaxAdds}, func(ctx context.Context, all []*counting) {
			count(ctx, key, all)
		})}
		if c.jobs == nil {
			c.jobs = map[job.Key]*counter{}
		}
		c.jobs[key] = of
	}
	of.callers++
	return of
}

func (c *counters) give(key job.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.jobs[key]
	if of.callers--; of.callers == 0 {
		delete(c.jobs, key)
	}
}

// outcomeOfAdd names the result of an add.
func outcomeOfAdd(a job.Added, err error) string {
	switch {
	case err == nil && a.Late:
		return "late"
	case err == nil && a.Repeated:
		return "repeated"
	case err == nil:
		return "counted"
	}
	for _, refusal := range []error{store.ErrNotFound, job.ErrNotCounted, job.ErrCountKeys, job.ErrFinished, job.ErrInFlight} {
		if errors.Is(err, refusal) {
			return "refused"
		}
	}
	return outcomeUnavailable
}
