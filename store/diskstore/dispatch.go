package diskstore

import (
	"context"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
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
	err = s.locked(ctx, func(job.Instant) {
		if n := min(limit, len(s.ready)); n > 0 {
			hints, s.ready = s.ready[:n:n], s.ready[n:]
			return
		}
		if s.pushed == nil {
			s.pushed = make(chan struct{})
		}
		pushed = s.pushed
	})
	return hints, pushed, err
}

// Claim claims hinted jobs.
func (s *Store) Claim(ctx context.Context, _ int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	n := len(hints)
	c := claiming{o: o, seen: make(map[job.Key]struct{}, n), claims: make([]store.Claimed, 0, n), records: make([]*record, 0, n)}
	var writing *syncing
	err := s.change(ctx, false, func(t *txn) {
		t.fetchRecords(hints)
		for _, h := range hints {
			c.hint(t, h)
		}
		if len(c.claims) > 0 && int64(c.changed) >= s.synced.Load() {
			writing = s.syncing
		}
	})
	if err != nil {
		return nil, err
	}
	// What a kill of the process takes back must not have been sent: a job, for its client registers
	// it again with another uid, or the attempt after an outcome, for the number of that comes again.
	if err := s.await(ctx, writing); err != nil {
		return nil, err
	}
	if len(c.left) > 0 {
		o.Left(c.left)
	}
	for i, rec := range c.records {
		if c.claims[i].Job, err = rec.job(); err != nil {
			return nil, err
		}
	}
	return c.claims, nil
}

// fetchRecords reads the records of hinted jobs, but large ones.
func (t *txn) fetchRecords(hints []store.Hint) {
	keys := make([][]byte, 0, len(hints))
	for i := range hints {
		if f := t.s.flights[hints[i].Key()]; f != nil && f.record == nil && f.entry.size <= store.SmallRecord {
			keys = append(keys, f.entry.place.key())
		}
	}
	t.note(t.rows.fetch(keys))
}

// claiming is one call of Claim. The jobs are decoded without the lock.
type claiming struct {
	o       store.ClaimOptions
	seen    map[job.Key]struct{}
	bytes   int
	claims  []store.Claimed
	records []*record
	changed job.Instant // when the last of the jobs was changed before
	left    []store.Hint
}

func (c *claiming) hint(t *txn, h store.Hint) {
	key := h.Key()
	if _, doubled := c.seen[key]; doubled {
		return
	}
	if f := t.s.flights[key]; f != nil && c.o.Left != nil && c.bytes >= store.BatchBytes && f.entry.size > store.SmallRecord {
		c.left = append(c.left, h)
		return
	}
	rec := t.loadInFlight(key)
	if rec == nil || rec.State.Final() || rec.lane != h.Lane {
		return
	}
	changed := rec.UpdatedAt
	if !rec.flight.heldBy(c.o.Nonce, t.now) && !(t.claimable(rec) && t.claim(rec, c.o)) {
		return
	}
	c.changed = max(c.changed, changed)
	c.seen[key] = struct{}{}
	f := *rec.flight
	claimed := store.Claimed{Now: f.claim.at, From: f.claim.from, Earlier: f.claim.prior}
	rec.flight = &f
	c.claims, c.records = append(c.claims, claimed), append(c.records, rec)
	c.bytes += rec.size()
}

// loadInFlight is load that saves a search if the job is in flight.
func (t *txn) loadInFlight(key job.Key) *record {
	f := t.s.flights[key]
	if f == nil {
		return t.load(key)
	}
	if f.record != nil {
		rec := *f.record
		rec.overlay(f)
		return &rec
	}
	rec := t.loadPlace(f.entry.place)
	if rec == nil {
		return t.load(key)
	}
	rec.overlay(f)
	return rec
}

// loadPlace returns the record at a place, as stored, nil if there is none.
func (t *txn) loadPlace(p place) *record {
	value := t.get(p.key())
	if value == nil {
		return nil
	}
	rec, err := decodeRecord(value)
	if err != nil {
		t.note(err)
		return nil
	}
	rec.place = p
	return rec
}

// claimable reports whether the limits of the topic allow the claim. It returns the job to
// its bucket if the topic is paused.
func (t *txn) claimable(rec *record) bool {
	switch l := t.s.limits[rec.Topic]; {
	case l == nil:
		return true
	case !l.PausedAt(t.now):
		return rec.shown() == job.Ready
	case rec.shown() == job.Ready && rec.State != job.Running:
		lane := rec.flight.lane
		lane.offer(rec.flight.entry)
		t.land(rec.flight)
		t.look(lane)
		t.placeFree(lane)
		t.hintFree(lane.Topic)
	}
	return false
}

// claim leases a job that is ready, or due in its bucket, and reports whether it did.
func (t *txn) claim(rec *record, o store.ClaimOptions) bool {
	from, f := rec.shown(), rec.flight
	if from != job.Ready {
		at := rec.WakeAt()
		if f != nil {
			at = f.until
		}
		if at > t.now || rec.parked {
			return false
		}
	}
	if !t.isHead(rec) {
		t.park(rec)
		return false
	}
	t.takeTurn(rec)
	until := t.now.Add(o.LeaseOf(rec.timeout))
	if f == nil {
		f = t.launch(t.s.laneOf(rec.lane), entryOf(rec), until)
	}
	// A token is at least the time of its claim, so that it is unique even if the job was
	// forgotten in between.
	var prior job.Instant
	switch {
	case rec.State != job.Running:
	case f.claim.nonce == o.Nonce: // no other claim since
		from, prior = f.claim.from, f.claim.prior
	default: // its lease has expired, carried again or not
		from, prior, rec.ExpiredLeases = job.Running, job.Instant(rec.Token), job.ExpiredLeasesAfter(rec.ExpiredLeases)
	}
	rec.Token = max(rec.Token+1, uint64(t.now))
	rec.Version, rec.UpdatedAt = rec.Version+1, max(t.now, rec.CreatedAt)
	rec.State, rec.flight = job.Running, f
	ready := f.ready
	t.extend(f, until, false)
	f.claimed, f.claim = true, claim{nonce: strings.Clone(o.Nonce), at: t.now, from: from, prior: prior, by: strings.Clone(o.By)}
	f.remember(rec)
	t.hold(f, rec)
	t.writeClaim(f)
	t.look(f.lane)
	if ready {
		t.hintFree(f.lane.Topic)
	}
	return true
}

// Settle stores the outcomes of claims.
func (s *Store) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	results := make([]store.Settled, len(settlements))
	err := s.change(ctx, true, func(t *txn) {
		for i := range settlements {
			results[i] = t.settle(&settlements[i])
		}
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func (t *txn) settle(st *job.Settlement) store.Settled {
	rec := t.loadInFlight(st.Key)
	switch {
	case rec == nil:
		return store.Settled{Status: store.Missing, Now: t.now}
	case rec.Token != st.Token:
		return store.Settled{Status: store.Stale, Now: t.now}
	case st.Extends():
		return t.extendLease(rec, st.Delay)
	case rec.State == job.Running:
		return t.apply(rec, st)
	case st.Token != 0 && rec.settledBy == st.Token:
		earlier := rec.settled
		earlier.Repeated = true
		return earlier
	}
	// An update ended the claim.
	return store.Settled{Status: store.Stale, Now: t.now}
}

// apply makes the change of a settlement whose token is current.
func (t *txn) apply(rec *record, st *job.Settlement) store.Settled {
	change := st.Change(rec.CancelRequested)
	done := store.Settled{Status: store.Applied, To: change.To, Reason: strings.Clone(change.Reason), Now: t.now}
	done.NextAt, done.EndedAt = change.Times(t.now, rec.CreatedAt)
	if done.To.Final() {
		t.take(rec)
		rec.NextAt, rec.EndedAt, rec.Reason = 0, done.EndedAt, done.Reason
	} else {
		t.takeEntry(rec)
		rec.NextAt = done.NextAt
	}
	rec.State, rec.Attempts, rec.Snoozes, rec.ExpiredLeases = done.To, st.Attempts, st.Snoozes, st.ExpiredLeases
	rec.Version, rec.UpdatedAt = rec.Version+1, max(t.now, rec.CreatedAt)
	done.UID, done.Version = rec.UID, rec.Version
	if st.Attempt != nil {
		a := *st.Attempt
		a.NextAt = done.NextAt
		t.note(rec.appendAttempt(&a, rules.LogBytes(t.s.full())))
	}
	rec.settled, rec.settledBy = done, st.Token
	if done.To.Final() {
		t.end(rec)
	} else {
		t.write(rec)
		t.putEntry(rec)
		t.set(row(famKey, rec.Topic, rec.ID), keyRow(rec))
	}
	if st.Job != nil {
		done.Shed = t.follow(followers(rec.UID, st.Successors(st.Change(rec.CancelRequested), rec.Version, job.ShedNothing)), t.now)
		t.noteShed(st, done.Shed)
	}
	return done
}

// noteShed stores what was left out of the successors, for repetitions of the settlement.
func (t *txn) noteShed(st *job.Settlement, shed job.Shed) {
	if shed == job.ShedNothing {
		return
	}
	if kept := t.load(st.Key); kept != nil && kept.settledBy == st.Token {
		kept.settled.Shed = shed
		t.rewrite(kept)
	}
}

// end stores an ended job that was taken out of its bucket.
func (t *txn) end(rec *record) {
	if t.dropsAtOnce(rec) {
		t.promote(rec.order)
		t.delete(rec.place.key())
		t.forgetNames(rec)
		rec.place = place{}
		return
	}
	t.put(rec)
	t.promote(rec.order)
}

// dropsAtOnce reports whether an ended job is not kept.
func (t *txn) dropsAtOnce(rec *record) bool {
	return t.s.retention == 0 && rec.State.Final() && rec.State != job.Dead && !rec.keepsEnd
}

// forgetEnded deletes an ended job that is not kept.
func (t *txn) forgetEnded(rec *record) {
	if t.dropsAtOnce(rec) {
		t.forget(rec)
	}
}
