package diskstore

import (
	"context"
	"errors"
	"slices"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/records"
	"github.com/duehook/duehook/store/rules"
)

// Outlook returns the facts that delay a job's next attempt.
func (s *Store) Outlook(ctx context.Context, key job.Key) (store.Outlook, error) {
	l := outlook{Outlook: store.Outlook{Shards: 1}}
	var failed error
	v, err := s.viewWith(ctx, func(v *view) {
		l.Now = v.now
		t := s.begin(v.now)
		if l.rec = t.load(key); l.rec != nil && !l.rec.State.Final() {
			l.gather(t)
		}
		failed = t.err
	})
	if err != nil {
		return l.Outlook, err
	}
	defer v.close()
	switch {
	case failed != nil:
		return l.Outlook, unavailable(failed)
	case l.rec == nil:
		return store.Outlook{Now: v.now, Shards: 1}, store.ErrNotFound
	}
	if l.Job, err = l.rec.job(); err != nil {
		return l.Outlook, err
	}
	if l.head != nil {
		j, err := l.head.job()
		if err != nil {
			return l.Outlook, err
		}
		l.Head = &j
		if err := l.countBefore(v); err != nil {
			return l.Outlook, err
		}
	}
	return l.Outlook, l.count(v)
}

// outlook is an outlook in the making. Entries are counted without the lock.
type outlook struct {
	store.Outlook
	rec, head *record
	own       bucket
}

// gather reads what is in memory.
func (o *outlook) gather(t *txn) {
	s, rec := t.s, o.rec
	l := s.laneOf(rec.lane)
	o.At = rec.WakeAt()
	if f := rec.flight; f != nil {
		is := *f
		rec.flight = &is // it changes behind the lock
		o.At = f.until
		o.Worker = f.claim.by
	}
	if rec.order != "" {
		if h := t.turns().Head(rec.order); h != nil && h.ID != rec.ID {
			o.head = t.load(job.Key{Topic: rec.Topic, ID: h.ID})
			if o.head != nil && o.head.flight != nil {
				is := *o.head.flight
				o.head.flight = &is
			}
		}
	}
	o.Look = l.wake
	o.EndpointInFlight, o.LaneInFlight = int64(l.endpoint.inFlight), int64(s.inFlightOf(l))
	if limits, ok := s.limits[rec.Topic]; ok {
		o.Limits, o.TopicInFlight = limits.Limits, int64(s.topicInFlight(rec.Topic))
		if limits.Rate > 0 {
			o.NextByRate = rules.PaceOf(limits.Rate, 1, limits.Next).NextAt(t.now)
		}
	}
	o.Circuit = l.endpoint.circuitAt(t.now)
	o.Ranked = s.ranked[rec.Topic] != nil
	if rec.flight == nil {
		o.own = bucketOf(l)
	}
}

// countBefore counts the jobs of an order key that go before the job, up to maxCounted.
func (o *outlook) countBefore(v *view) error {
	o.Before = 1
	p := prefix(famQueue, o.rec.order)
	return scan(v.snap, p, append(slices.Clone(p), records.TurnOf(&o.rec.Job)...), func([]byte, []byte) bool {
		o.Before++
		return o.Before < maxCounted
	})
}

// count counts the jobs that go before a waiting one, up to maxCounted.
func (o *outlook) count(v *view) error {
	if o.rec.State.Final() || o.rec.flight != nil {
		return nil
	}
	c := counting{v: v, left: maxCounted}
	o.Ahead = c.ahead(&o.own, o.rec)
	return c.err
}

// ahead counts the waiting jobs of a lane before one of them.
func (c *counting) ahead(b *bucket, rec *record) (n int64) {
	section, at := byte(secDue), rec.WakeAt()
	if rec.parked {
		section, n = secParked, b.waiting-b.parked
	}
	n += c.between(b, section, 0, at)
	from, to := bucketRow(b.name, section, at, ""), bucketRow(b.name, section, at, rec.ID)
	c.err = errors.Join(c.err, scan(c.v.snap, from, to, func([]byte, []byte) bool {
		n++
		return true
	}))
	return n
}
