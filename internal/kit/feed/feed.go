// Package feed reports what this process changes in a store: one observer for events,
// alerts and recent figures.
package feed

import (
	"context"
	"iter"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Subscriber gets changes after the store has stored them. Several goroutines call it in
// the path of deliveries: calls must not block, and must neither change nor keep their
// arguments. A subscriber that has more to pass on than it can hold drops some, and says so
// to its own readers. Nil functions are not called.
type Subscriber struct {
	// Registered has the new jobs of a batch.
	Registered func(jobs iter.Seq[*job.Job])
	// Updated has a job that a client or an operation changed, its state before, and the
	// store's time.
	Updated func(j *job.Job, before job.State, at job.Instant)
	// Settled has the settlements of a batch that the store applied now, each with its
	// result. Repeated and stale ones are left out.
	Settled func(outcomes iter.Seq2[*job.Settlement, *store.Settled])
	// Circuit has an endpoint whose circuit opened for a time, or closed: zero.
	Circuit func(endpoint string, openFor time.Duration)
}

// Observe returns s with subscribers to the changes made through it.
func Observe(s store.Store, subscribers ...Subscriber) store.Store {
	return &observed{Store: s, subscribers: subscribers}
}

type observed struct {
	store.Store
	subscribers []Subscriber
}

func (s *observed) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	results, err := s.Store.Register(ctx, regs)
	if err != nil {
		return results, err
	}
	created := func(yield func(*job.Job) bool) {
		for i := range results {
			if results[i].Outcome == store.Created && !yield(&results[i].Job) {
				return
			}
		}
	}
	for _, sub := range s.subscribers {
		if sub.Registered != nil {
			sub.Registered(created)
		}
	}
	return results, nil
}

func (s *observed) Update(ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error) (job.Job, error) {
	var before job.State
	var at job.Instant
	j, err := s.Store.Update(ctx, key, func(j *job.Job, now job.Instant) error {
		before, at = j.State, now
		return change(j, now)
	})
	if err != nil {
		return j, err
	}
	for _, sub := range s.subscribers {
		if sub.Updated != nil {
			sub.Updated(&j, before, at)
		}
	}
	return j, nil
}

func (s *observed) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	settled, err := s.Store.Settle(ctx, settlements)
	if err != nil {
		return settled, err
	}
	applied := func(yield func(*job.Settlement, *store.Settled) bool) {
		for i := range settled {
			r := &settled[i]
			if r.Status == store.Applied && !r.Repeated && !yield(&settlements[i], r) {
				return
			}
		}
	}
	for _, sub := range s.subscribers {
		if sub.Settled != nil {
			sub.Settled(applied)
		}
	}
	return settled, nil
}

func (s *observed) SetCircuit(ctx context.Context, endpoint string, to store.CircuitState, d time.Duration) error {
	if err := s.Store.SetCircuit(ctx, endpoint, to, d); err != nil {
		return err
	}
	if to != store.CircuitOpen {
		d = 0
	}
	for _, sub := range s.subscribers {
		if sub.Circuit != nil {
			sub.Circuit(endpoint, d)
		}
	}
	return nil
}
