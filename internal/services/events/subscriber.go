package events

import (
	"iter"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/store"
)

// Subscriber emits an event for each change by this process. Without watchers it does
// nothing.
func (h *Hub) Subscriber() feed.Subscriber {
	return feed.Subscriber{Registered: h.registered, Updated: h.updated, Settled: h.settled, Circuit: h.circuit}
}

func (h *Hub) registered(jobs iter.Seq[*job.Job]) {
	if !h.Watched() {
		return
	}
	var events []Event
	for j := range jobs {
		events = append(events, of(Registered, j, j.CreatedAt))
	}
	h.Emit(events...)
}

func (h *Hub) updated(j *job.Job, before job.State, at job.Instant) {
	if h.Watched() {
		h.Emit(of(updated(before, j), j, at))
	}
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

// of returns an event of a job in its current state.
func of(t Type, j *job.Job, at job.Instant) Event {
	e := Event{
		Type: t, At: at, Topic: j.Topic, JobID: j.ID, UID: j.UID, Endpoint: j.Lane().Endpoint,
		Attempts: j.Attempts, Reason: j.Reason,
	}
	if !j.State.Final() {
		e.NextAt = j.NextAt
	}
	e.of(j)
	return e
}

func (h *Hub) settled(outcomes iter.Seq2[*job.Settlement, *store.Settled]) {
	if !h.Watched() {
		return
	}
	var events []Event
	for s, r := range outcomes {
		if e, ok := settlement(s, r); ok {
			events = append(events, e)
		}
	}
	h.Emit(events...)
}

// settlement returns the event of a settlement; none if the job was released without an
// attempt.
func settlement(s *job.Settlement, r *store.Settled) (Event, bool) {
	e := Event{
		At: r.Now, Topic: s.Key.Topic, JobID: s.Key.ID, UID: r.UID, Endpoint: s.Lane.Endpoint,
		Attempts: s.Attempts, Reason: r.Reason, NextAt: r.NextAt,
	}
	if s.Claimed != nil {
		e.of(s.Claimed)
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
		if job.PutOff(s.Reason) {
			e.Type = Snoozed
		}
	}
	if r.To.Final() {
		e.NextAt = 0
	}
	return e, s.Attempt != nil || r.To.Final()
}

func (h *Hub) circuit(endpoint string, openFor time.Duration) {
	now := job.InstantOf(h.o.Clock.Now())
	e := Event{Type: CircuitClosed, At: now, Endpoint: endpoint}
	if openFor > 0 {
		e.Type, e.NextAt = CircuitOpened, now.Add(openFor)
	}
	h.Emit(e)
}
