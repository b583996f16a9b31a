package memstore

import (
	"context"
	"slices"
	"sort"
	"strings"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// Outlook returns the facts that delay a job's next attempt.
func (s *Store) Outlook(ctx context.Context, key job.Key) (store.Outlook, error) {
	o, found, head, err := s.outlook(ctx, key)
	if err == nil {
		o.Job, err = found.job()
	}
	if err == nil && head != nil {
		j, err := head.job()
		o.Head = &j
		return o, err
	}
	return o, err
}

// outlook leaves the job and the head of its order key to be decoded without the lock.
func (s *Store) outlook(ctx context.Context, key job.Key) (o store.Outlook, found snapshot, head *snapshot, err error) {
	now, err := s.enter(ctx)
	if err != nil {
		return store.Outlook{}, snapshot{}, nil, err
	}
	defer s.leave()
	o = store.Outlook{Now: now, Shards: 1, Whole: s.whole}
	rec := s.find(key)
	if rec == nil {
		return o, snapshot{}, nil, store.ErrNotFound
	}
	l := rec.lane
	if l == nil {
		return o, rec.snapshot(), nil, nil
	}
	o.At = unparked(rec.score).at()
	if !rec.isHead() {
		snap := rec.turns.head.snapshot()
		head = &snap
		o.Before = 1
		if rec.turns.rest != nil {
			rec.turns.rest.Scan(func(other *record) bool {
				if other != rec {
					o.Before++
				}
				return other != rec
			})
		}
	}
	o.Look = l.wake
	o.EndpointInFlight, o.LaneInFlight = int64(l.endpoint.inFlight), int64(s.inFlightOf(l))
	o.ReadyList = int64(len(s.ready))
	if limits, ok := s.limits[key.Topic]; ok {
		o.Limits, o.TopicInFlight = limits.Limits, int64(s.topicInFlight(key.Topic))
		if limits.Rate > 0 {
			o.NextByRate = rules.PaceOf(limits.Rate, 1, limits.Next).NextAt(now)
		}
	}
	o.Circuit = l.endpoint.circuitAt(now)
	if rec.shown() == job.Running {
		o.Worker = rec.extra.claim.by
	}
	if !isInFlight(rec.shown()) {
		o.Ahead, o.Higher = int64(l.place(rec)-l.inFlight), s.higher(l, now)
		if o.Limits.Rate > 0 && o.At <= now {
			o.Beside = s.beside(l, o.Ahead, now)
		}
	}
	return o, rec.snapshot(), head, nil
}

// beside is Outlook.Beside of a job of l with ahead before it there.
func (s *Store) beside(l *lane, ahead int64, now job.Instant) int64 {
	var due []int64
	s.lanesOf(l.Topic, func(o *lane) {
		if o.Endpoint != l.Endpoint && o.Priority == l.Priority && o.endpoint.circuitAt(now).OpenUntil == 0 {
			due = append(due, int64(o.position(bucketScore(now+1, job.Waiting))-o.inFlight))
		}
	})
	return rules.TurnsBefore(ahead, due)
}

// Backlogs counts the jobs that are due and wait.
func (s *Store) Backlogs(ctx context.Context) (store.Backlogs, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return store.Backlogs{}, err
	}
	defer s.leave()
	b := store.Backlogs{Now: now}
	s.lanesOf("", func(l *lane) { // those of a topic are adjacent
		n := int64(l.position(bucketScore(now+1, job.Waiting)) - l.inFlight)
		if n <= 0 {
			return
		}
		if last := len(b.Topics) - 1; last < 0 || b.Topics[last].Topic != l.Topic {
			b.Topics = append(b.Topics, store.Backlog{Topic: l.Topic, Oldest: now})
		}
		t := &b.Topics[len(b.Topics)-1]
		t.Jobs += n
		t.Oldest = min(t.Oldest, l.firstWaiting().score.at())
	})
	// By name, the lanes of a topic come after those of topics whose names begin with its
	// name.
	slices.SortFunc(b.Topics, func(a, b store.Backlog) int { return strings.Compare(a.Topic, b.Topic) })
	return b, nil
}

// position is how many entries of the lane have a lower score.
func (l *lane) position(sc score) int {
	return sort.Search(l.bucket.Len(), func(n int) bool {
		e, _ := l.bucket.GetAt(n)
		return e.score >= sc
	})
}

// place is how many entries of the lane come before rec's.
func (l *lane) place(rec *record) int {
	mine := entry{rec.score, rec}
	return sort.Search(l.bucket.Len(), func(n int) bool {
		e, _ := l.bucket.GetAt(n)
		return !l.bucket.Less(e, mine)
	})
}
