package diskstore

import (
	"context"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/records"
	"github.com/duehook/duehook/store/rules"
)

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
	if rec == nil {
		return store.Settled{Status: store.Missing, Now: t.now}
	}
	switch records.Meets(&rec.Job, rec.settledBy, st) {
	case records.Extends:
		return t.extendLease(rec, st.Delay)
	case records.Applies:
		return t.apply(rec, st)
	case records.Repeated:
		earlier := rec.settled
		earlier.Repeated = true
		return earlier
	}
	return store.Settled{Status: store.Stale, Now: t.now}
}

// apply makes the change of a settlement whose token is current.
func (t *txn) apply(rec *record, st *job.Settlement) store.Settled {
	if st.Change(rec.CancelRequested).To.Final() {
		t.take(rec)
	} else {
		t.takeEntry(rec)
	}
	done := records.Settle(&rec.Job, st, t.now)
	if a := records.Attempt(st, &done); a != nil {
		t.note(rec.appendAttempt(a, rules.LogBytes(t.s.full())))
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
