package memstore

import (
	"context"
	"sort"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Outlook tells what keeps a job from its next attempt.
func (s *Store) Outlook(ctx context.Context, key job.Key) (store.Outlook, error) {
	o, found, err := s.outlook(ctx, key)
	if err == nil {
		o.Job, err = found.job()
	}
	return o, err
}

// outlook leaves the job to be decoded without the lock.
func (s *Store) outlook(ctx context.Context, key job.Key) (store.Outlook, snapshot, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return store.Outlook{}, snapshot{}, err
	}
	defer s.leave()
	o := store.Outlook{Now: now, Shards: 1}
	rec := s.find(key)
	if rec == nil {
		return o, snapshot{}, store.ErrNotFound
	}
	l := rec.lane
	if l == nil {
		return o, rec.snapshot(), nil
	}
	o.At = rec.score.at()
	o.Look = l.wake
	o.EndpointOut, o.LaneOut = int64(l.endpoint.out), int64(l.out)
	o.ReadyList = int64(len(s.ready))
	o.Gate = l.endpoint.gate(now)
	if rec.shown() == job.Running {
		o.Worker = rec.extra.claim.by
	}
	if !out(rec.shown()) {
		o.Ahead = int64(l.position(rec.score) - l.out)
	}
	return o, rec.snapshot(), nil
}

// position is how many entries of the lane have a lower score.
func (l *lane) position(sc score) int {
	return sort.Search(l.bucket.Len(), func(n int) bool {
		e, _ := l.bucket.GetAt(n)
		return e.score >= sc
	})
}

func (e *endpoint) gate(now job.Instant) store.Gate {
	if e.ramp != 0 {
		return store.RampGate(e.ramp, now)
	}
	return store.HeldGate(e.held, e.probed, now)
}
