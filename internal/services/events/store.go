package events

import (
	"context"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Observe emits an event for each change that this process makes in s.
func (h *Hub) Observe(s store.Store) store.Store { return &observed{Store: s, hub: h} }

type observed struct {
	store.Store
	hub *Hub
}

func (s *observed) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	results, err := s.Store.Register(ctx, regs)
	if err != nil || !s.hub.Watched() {
		return results, err
	}
	events := make([]Event, 0, len(results))
	for i := range results {
		if results[i].Outcome == store.Created {
			j := &results[i].Job
			events = append(events, of(Registered, j, j.CreatedAt))
		}
	}
	s.hub.Emit(events...)
	return results, nil
}

func (s *observed) Update(ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error) (job.Job, error) {
	var before job.State
	var at job.Instant
	j, err := s.Store.Update(ctx, key, func(j *job.Job, now job.Instant) error {
		before, at = j.State, now
		return change(j, now)
	})
	if err == nil {
		s.hub.Emit(of(updated(before, &j), &j, at))
	}
	return j, err
}

func updated(before job.State, j *job.Job) Type {
	switch {
	case before.Final() && !j.State.Final():
		return Replayed
	case j.State == job.Cancelled && before != job.Cancelled:
		return Cancelled
	}
	return Changed
}

// of is an event of a job as it stands.
func of(t Type, j *job.Job, at job.Instant) Event {
	e := Event{
		Type: t, At: at, Topic: j.Topic, JobID: j.ID, UID: j.UID, Endpoint: j.Lane().Endpoint,
		Attempts: j.Attempts, Reason: j.Reason,
	}
	if !j.State.Final() {
		e.NextAt = j.NextAt
	}
	return e
}

func (s *observed) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	settled, err := s.Store.Settle(ctx, settlements)
	if err != nil || !s.hub.Watched() {
		return settled, err
	}
	events := make([]Event, 0, len(settled))
	for i := range settled {
		if settled[i].Status != store.Applied || settled[i].Repeated {
			continue
		}
		if e, ok := settlement(&settlements[i], &settled[i]); ok {
			events = append(events, e)
		}
	}
	s.hub.Emit(events...)
	return settled, nil
}

// settlement is what a settlement tells; nothing when the job was given back
// without an attempt.
func settlement(s *job.Settlement, r *store.Settled) (Event, bool) {
	e := Event{
		At: r.Now, Topic: s.Key.Topic, JobID: s.Key.ID, UID: r.UID, Endpoint: s.Lane.Endpoint,
		Attempts: s.Attempts, Reason: r.Reason, NextAt: r.NextAt,
	}
	if a := s.Attempt; a != nil {
		e.Status, e.Error = a.Status, a.Error
	}
	switch r.To {
	case job.Delivered:
		e.Type = Delivered
	case job.Dead:
		e.Type = Dead
	case job.Expired:
		e.Type = Expired
	case job.Cancelled:
		e.Type = Cancelled
	default:
		e.Type = Failed
		if s.Reason == job.ReasonSnoozed {
			e.Type = Snoozed
		}
	}
	if r.To.Final() {
		e.NextAt = 0
	}
	return e, s.Attempt != nil || r.To.Final()
}

func (s *observed) OpenCircuit(ctx context.Context, endpoint string, d time.Duration) error {
	err := s.Store.OpenCircuit(ctx, endpoint, d)
	if err == nil {
		now := job.InstantOf(s.hub.o.Clock.Now())
		e := Event{Type: CircuitOpened, At: now, Endpoint: endpoint, NextAt: now.Add(d)}
		if d <= 0 {
			e.Type, e.NextAt = CircuitClosed, 0
		}
		s.hub.Emit(e)
	}
	return err
}

func (s *observed) CloseCircuit(ctx context.Context, endpoint string) error {
	err := s.Store.CloseCircuit(ctx, endpoint)
	if err == nil {
		s.hub.Emit(Event{Type: CircuitClosed, At: job.InstantOf(s.hub.o.Clock.Now()), Endpoint: endpoint})
	}
	return err
}
