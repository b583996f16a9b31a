package diskstore

import (
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// tellConsumers tells consumers of a pull queue, when the lock is released, that a job may be due
// at a time.
func (s *Store) tellConsumers(topic string, at job.Instant) {
	if before, ok := s.pulls[topic]; !ok || at < before {
		s.pulls[topic] = at
	}
}

// pull picks jobs that wait in pull queues.
func (c *taking) pull() {
	next := job.Instant(0) // when there may be more
	note := func(at job.Instant) {
		if next == 0 || at < next {
			next = at
		}
	}
	var lanes []*lane // with due jobs: the others have no share
	for _, topic := range c.o.Pull {
		c.s.lanesOf(topic, func(l *lane) {
			if !l.Pulled() {
				return
			}
			switch head, waits := l.first(c.txn); {
			case !waits:
			case head.at > c.now:
				note(head.at)
			default:
				lanes = append(lanes, l)
			}
		})
	}
	plan := rules.MakePlan(c.facts(lanes, len(lanes)))
	run := plan.Run(c.room)
	for i := range plan.Visits {
		v := &plan.Visits[i]
		l := lanes[v.Lane]
		c.s.stopWaiting(l)
		l.limited = 0
		switch {
		case v.PutOff != 0:
			note(v.PutOff)
		case run.Room() == 0 || c.room <= 0:
			note(c.now)
		default:
			c.pullFrom(run, v, l, note)
		}
	}
	run.Slots(func(_ *rules.Visit, at job.Instant) { note(at) }, func(topic string, p rules.Pace) { c.s.limits[topic].Next = p.Next })
	clear(c.s.pulls) // the result tells the caller
	c.wait = -1
	if next != 0 {
		c.wait = max(0, next.Sub(c.now))
	}
}

// pullFrom picks due jobs of a lane. Takers look at it when a lease ends.
func (c *taking) pullFrom(run *rules.Run, v *rules.Visit, l *lane, note func(at job.Instant)) {
	taken := c.take(min(run.Most(v), run.Free(v, c.s.inFlight(l))), l)
	run.Took(v, 0, taken)
	c.s.queue(l, l.head(c.txn, 0))
	head, waits := l.first(c.txn)
	switch {
	case !waits:
	case head.at > c.now:
		note(head.at)
	default:
		wait := run.Rest(v, taken, c.s.inFlight(l))
		if wait.Called {
			c.awaitPlace(l, rules.Wait{})
		}
		if !wait.Paced {
			note(wait.Pull(c.now))
		}
	}
}

// extendLease gives a claim with a current token a new end.
func (t *txn) extendLease(rec *record, d time.Duration) store.Settled {
	f := rec.flight
	if f == nil || !f.claimed {
		return store.Settled{Status: store.Stale, Now: t.now}
	}
	until := t.now.Add(d)
	t.extend(f, until)
	t.look(f.lane)
	return store.Settled{Status: store.Applied, To: job.Running, NextAt: until, Now: t.now, UID: rec.UID, Version: rec.Version}
}
