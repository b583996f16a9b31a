package app

import (
	"context"
	"errors"
	"slices"

	"github.com/duehook/duehook/internal/app/topics"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/memory"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
	"github.com/duehook/duehook/store/rules"
)

// RegisterUnless registers jobs, unless it is a dry run.
func (s *App) RegisterUnless(ctx context.Context, dryRun bool, jobs ...Prepared) ([]store.Registered, error) {
	if dryRun {
		return s.DryRun(ctx, jobs...)
	}
	return s.Register(ctx, jobs...)
}

// DryRun returns what Register would, as things stand, and changes nothing. A job that would be
// made has a uid of its own in each call.
func (s *App) DryRun(ctx context.Context, jobs ...Prepared) ([]store.Registered, error) {
	now, err := store.Now(ctx, s.o.Store)
	if err != nil {
		return nil, err
	}
	held, err := s.held(ctx, jobs)
	if err != nil {
		return nil, err
	}
	d := dryRun{s: s, now: now, held: held, room: map[string]*room{}}
	registered := make([]store.Registered, len(jobs))
	for i := range jobs {
		if registered[i], err = d.register(ctx, &jobs[i].reg); err != nil {
			return nil, err
		}
	}
	failed := inConflict(jobs, registered)
	for i := range jobs {
		if failed[jobs[i].fan] && registered[i].Outcome == store.Created {
			registered[i].Job.State = job.Cancelled // as Register withdraws it
		}
	}
	return registered, nil
}

// readAtOnce bounds the jobs that are read whole at a time.
const readAtOnce = 16

// held are the jobs that have the keys of registrations, without their bodies.
func (s *App) held(ctx context.Context, jobs []Prepared) (map[job.Key]*job.Job, error) {
	hold := memory.Of(ctx)
	room := min(readAtOnce*int64(s.o.Bounds.MaxBody), hold.Share())
	if err := hold.Take(ctx, room); err != nil {
		return nil, err
	}
	defer hold.Give(room)
	held := make(map[job.Key]*job.Job, len(jobs))
	for some := range slices.Chunk(jobs, readAtOnce) {
		keys := make([]job.Key, len(some))
		for i := range some {
			keys[i] = some[i].reg.Key
		}
		found, err := listing.HeadsOf(ctx, s.o.Store, keys)
		if err != nil {
			return nil, err
		}
		for i, key := range keys {
			held[key] = found[i]
		}
	}
	return held, nil
}

// dryRun is what the registrations of a dry run would leave behind.
type dryRun struct {
	s    *App
	now  job.Instant
	held map[job.Key]*job.Job
	room map[string]*room // by topic
}

// room is what a topic takes in.
type room struct {
	draining bool
	capacity int   // zero: any number
	has      int64 // unfinished jobs
}

func (d *dryRun) register(ctx context.Context, r *store.Registration) (store.Registered, error) {
	old, made := d.held[r.Key], r.Job(d.now)
	if old != nil {
		switch outcome := rules.Against(r, old); outcome {
		case store.Moves:
			if old.State.Final() {
				if outcome, err := d.takeIn(ctx, r.Key.Topic); outcome != store.Created || err != nil {
					return store.Registered{Outcome: outcome}, err
				}
			}
			return d.move(r, old)
		case store.Created:
			made = r.Over(old, d.now)
		default:
			return store.HeldBy(outcome, *old), nil
		}
	}
	if old == nil || old.State.Final() {
		if outcome, err := d.takeIn(ctx, r.Key.Topic); outcome != store.Created || err != nil {
			return store.Registered{Outcome: outcome}, err
		}
	}
	d.held[r.Key] = &made
	return store.Registered{Outcome: store.Created, Job: made}, nil
}

// takeIn counts one more unfinished job of a topic: store.Created, unless the topic refuses it.
func (d *dryRun) takeIn(ctx context.Context, name string) (store.RegisterOutcome, error) {
	topic, err := d.roomOf(ctx, name)
	switch {
	case err != nil:
		return store.Created, err
	case topic.draining:
		return store.TopicDraining, nil
	case topic.capacity > 0 && topic.has >= int64(topic.capacity):
		return store.TopicFull, nil
	}
	topic.has++
	return store.Created, nil
}

// move moves the due time of a copy.
func (d *dryRun) move(r *store.Registration, old *job.Job) (store.Registered, error) {
	j := *old
	if err := rules.Move(r)(&j, d.now); errors.Is(err, rules.ErrStays) {
		return store.HeldBy(store.Kept, *old), nil
	} else if err != nil {
		return store.Registered{}, err
	}
	d.held[r.Key] = &j
	return store.Registered{Outcome: store.Moved, Job: j}, nil
}

func (d *dryRun) roomOf(ctx context.Context, name string) (*room, error) {
	if known := d.room[name]; known != nil {
		return known, nil
	}
	t, err := d.s.o.Topics.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	of := &room{draining: t.State == topics.Draining, capacity: t.InForce().Capacity}
	if of.capacity > 0 {
		stats, _, err := d.s.stats(ctx, name)
		if err != nil {
			return nil, err
		}
		of.has = stats.Unfinished()
	}
	d.room[name] = of
	return of, nil
}
