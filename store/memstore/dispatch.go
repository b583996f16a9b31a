package memstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Pop takes hints off the ready list.
func (s *Store) Pop(ctx context.Context, _, limit int, wait time.Duration) ([]store.Hint, error) {
	timer := s.clock.NewTimer(wait)
	defer timer.Stop()
	for {
		hints, pushed, err := s.popReady(ctx, limit)
		if err != nil || len(hints) > 0 || wait <= 0 {
			return hints, err
		}
		select {
		case <-pushed:
		case <-timer.C():
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.done:
			return nil, errClosed
		}
	}
}

// popReady takes hints without waiting. If there are none, pushed is closed when to try
// again.
func (s *Store) popReady(ctx context.Context, limit int) (hints []store.Hint, pushed <-chan struct{}, err error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, nil, err
	}
	defer s.leave()
	n := min(limit, len(s.ready))
	if n > 0 {
		hints = slices.Clone(s.ready[:n])
		s.ready = slices.Delete(s.ready, 0, n)
		return hints, nil, nil
	}
	if s.pushed == nil {
		s.pushed = make(chan struct{})
	}
	return nil, s.pushed, nil
}

// Claim claims hinted jobs.
func (s *Store) Claim(ctx context.Context, _ int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	claims, specs, left, err := s.claimAll(ctx, hints, o)
	if err != nil {
		return nil, err
	}
	if len(left) > 0 {
		o.Left(left)
	}
	for i := range claims {
		if err := decode(&claims[i].Job, specs[i]); err != nil {
			return nil, err
		}
	}
	return claims, nil
}

// claimAll leaves the jobs to be decoded without the lock.
func (s *Store) claimAll(ctx context.Context, hints []store.Hint, o store.ClaimOptions) (claims []store.Claimed, specs []string, left []store.Hint, err error) {
	now, err := s.enter(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	defer s.leave()
	o.Nonce, o.By = strings.Clone(o.Nonce), strings.Clone(o.By)
	claims, specs = make([]store.Claimed, 0, len(hints)), make([]string, 0, len(hints))
	seen := make(map[*record]struct{}, len(hints))
	bytes := 0
	for _, h := range hints {
		rec := s.find(h.Key())
		if rec == nil || rec.lane == nil || rec.lane.Lane != h.Lane {
			continue
		}
		if _, doubled := seen[rec]; doubled {
			continue
		}
		if o.Left != nil && bytes >= store.BatchBytes && len(rec.spec) > store.SmallRecord {
			left = append(left, h)
			continue
		}
		if rec.heldBy(o.Nonce, now) || s.claimable(rec, o, now) && s.claim(rec, o, now) {
			seen[rec] = struct{}{}
			claims, specs = append(claims, s.claimed(rec)), append(specs, rec.spec)
			bytes += len(rec.spec)
		}
	}
	return claims, specs, left, nil
}

// claimed is the claim of a record. Its job is not decoded yet.
func (s *Store) claimed(rec *record) store.Claimed {
	c := store.Claimed{Job: rec.progress(), Now: rec.extra.claim.at, From: rec.extra.claim.from}
	if after := s.lastBefore(rec); after.uid != "" {
		c.After, c.AfterUID = job.Key{Topic: c.Job.Topic, ID: after.id}, after.uid
	}
	return c
}

// heldBy: an earlier run of the same call has claimed it.
func (r *record) heldBy(nonce string, now job.Instant) bool {
	return r.shown() == job.Running && r.score.at() > now && r.extra.claim.nonce == nonce
}

// claimable reports whether the limits of the topic and the wait for lost jobs allow the
// claim. It returns the job to its bucket if the topic is paused or the store is not whole.
func (s *Store) claimable(rec *record, o store.ClaimOptions, now job.Instant) bool {
	l := s.limits[rec.topic.name]
	switch incomplete := o.AwaitWhole && rec.turns != nil && !s.whole; {
	case l == nil && !incomplete:
		return true
	case !incomplete && !l.PausedAt(now):
		return rec.shown() == job.Ready
	case rec.shown() == job.Ready && rec.state != job.Running:
		s.rescore(rec, bucketScore(rec.wakeAt(), rec.state))
		s.look(rec.lane, now)
		s.placeFree(rec.lane, now)
	}
	return false
}

// claim leases a job that is ready, or due in its bucket, and reports whether it did.
func (s *Store) claim(rec *record, o store.ClaimOptions, now job.Instant) bool {
	from := rec.shown()
	if from != job.Ready && rec.score.at() > now {
		return false
	}
	if !rec.isHead() {
		s.park(rec, now)
		return false
	}
	if rec.turns != nil {
		rec.turns.taken = true
	}
	x := rec.more()
	switch {
	case rec.state != job.Running:
	case x.claim.nonce == o.Nonce: // no other claim since
		from = x.claim.from
	default: // its lease has expired, carried again or not
		from, x.expiredLeases = job.Running, job.ExpiredLeasesAfter(x.expiredLeases)
	}
	// A token is at least the time of its claim, so that it is unique even if the job was
	// forgotten in between.
	rec.token = max(rec.token+1, uint64(now))
	rec.version++
	rec.state = job.Running
	x.claim = claim{nonce: o.Nonce, at: now, from: from, by: o.By}
	s.rescore(rec, bucketScore(rec.leaseFrom(now, o), job.Running))
	s.look(rec.lane, now)
	return true
}

// Settle stores the outcomes of claims.
func (s *Store) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	next := followingAll(settlements)
	now, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	results := make([]store.Settled, len(settlements))
	for i := range settlements {
		results[i] = s.settle(&settlements[i], next[i], now)
	}
	return results, nil
}

func (s *Store) settle(st *job.Settlement, next *following, now job.Instant) store.Settled {
	rec := s.find(st.Key)
	switch {
	case rec == nil:
		return store.Settled{Status: store.Missing, Now: now}
	case rec.token != st.Token:
		return store.Settled{Status: store.Stale, Now: now}
	case rec.state == job.Running:
		return s.apply(rec, st, next, now)
	case rec.settledBy(st.Token):
		earlier := rec.extra.settled
		earlier.Repeated = true
		return earlier
	}
	// An update ended the claim, or the job was restored.
	return store.Settled{Status: store.Stale, Now: now}
}

// apply makes the change of a settlement whose token is current.
func (s *Store) apply(rec *record, st *job.Settlement, next *following, now job.Instant) store.Settled {
	change := st.Change(rec.cancelRequested)
	done := store.Settled{Status: store.Applied, To: change.To, Reason: strings.Clone(change.Reason), Now: now}
	done.NextAt, done.EndedAt = change.Times(now, rec.createdAt)
	x, l := rec.more(), rec.lane
	rec.state, rec.attempts, x.snoozes, x.expiredLeases = done.To, st.Attempts, st.Snoozes, st.ExpiredLeases
	rec.version++
	done.UID, done.Version = rec.uid, rec.version
	x.claim = claim{}
	if done.To.Final() {
		rec.nextAt, x.endedAt, x.reason = 0, done.EndedAt, done.Reason
		s.end(rec, now)
	} else {
		rec.nextAt = done.NextAt
		s.rescore(rec, bucketScore(rec.wakeAt(), done.To))
		s.look(l, now)
		s.placeFree(l, now)
	}
	if st.Attempt != nil {
		a := *st.Attempt
		a.NextAt = done.NextAt
		x.appendAttempt(a)
	}
	x.settled, x.settledBy = done, st.Token
	if next != nil {
		done.Shed = s.follow(next.of(st, rec), rec, now)
		if kept := s.find(st.Key); kept != nil && kept.settledBy(st.Token) {
			kept.extra.settled.Shed = done.Shed
		}
	}
	return done
}

// end moves an unfinished job to the list of ended jobs.
func (s *Store) end(rec *record, now job.Instant) {
	lane := rec.lane.Lane
	hadTurn := rec.hasTurn()
	s.unplace(rec, now)
	rec.score = endedScore(rec.extra.endedAt, rec.state)
	s.place(rec, lane, now)
	s.promote(rec.turns, now)
	if hadTurn {
		s.noteLast(rec)
	}
	s.forgetEnded(rec, now)
}

// forgetEnded deletes an ended job if the retention is zero.
func (s *Store) forgetEnded(rec *record, now job.Instant) {
	if s.retention == 0 && rec.state.Final() && rec.state != job.Dead && !rec.keepsEnd {
		s.forgetLast(rec)
		s.remove(rec, now)
	}
}
