package memstore

import (
	"github.com/tidwall/btree"

	"github.com/duehook/duehook/job"
)

// turns are the unfinished jobs of an order key. They live as long as there is one, or a
// dead letter stops the key.
type turns struct {
	name string // topic/key
	// head is the only job that may be delivered, or the dead letter that stops the key.
	head *record
	// taken: the head was claimed, or is a dead letter. No other job takes its place.
	taken bool
	rest  *btree.BTreeG[*record] // the others in their order; nil until there are some
}

// last is the last job of an order key that was claimed and has ended.
type last struct{ id, uid string }

// hasTurn reports whether the record is a head that was claimed.
func (r *record) hasTurn() bool { return r.turns != nil && r.turns.head == r && r.turns.taken }

// noteLast notes a claimed head that has ended or was replaced.
func (s *Store) noteLast(rec *record) { s.lasts[rec.turns.name] = last{rec.id, rec.uid} }

// forgetLast forgets the end of a job.
func (s *Store) forgetLast(rec *record) {
	if rec.turns != nil && s.lasts[rec.turns.name].id == rec.id {
		delete(s.lasts, rec.turns.name)
	}
}

// lastBefore returns the last job of the record's order key that ended before it was claimed.
func (s *Store) lastBefore(rec *record) last {
	if rec.turns == nil {
		return last{}
	}
	if l := s.lasts[rec.turns.name]; l.uid != rec.uid {
		return l
	}
	return last{}
}

// parked is added to the score of a waiting job that is not the head of its order key. The
// sum lies beyond all times, so the job is not due. It stays in the bucket.
const parked = score(4_000_000_000_000 << 2)

func park(sc score) score { return unparked(sc) + parked }

// unparked is the score without the parking.
func unparked(sc score) score {
	if sc >= parked {
		return sc - parked
	}
	return sc
}

// turn is job.Job.Turn of the record.
func (r *record) turn() job.Turn {
	j := job.Job{UID: r.uid, State: r.state, DueAt: r.dueAt, CreatedAt: r.createdAt, Attempts: r.attempts}
	if r.extra != nil {
		j.Snoozes, j.ExpiredLeases = r.extra.snoozes, r.extra.expiredLeases
	}
	return j.Turn()
}

// isHead reports whether the record is the head of its order key, or has none.
func (r *record) isHead() bool { return r.turns == nil || r.turns.head == r }

// turnsOf finds or makes the turns of an order key.
func (s *Store) turnsOf(name string) *turns {
	t, ok := s.orders[name]
	if !ok {
		t = &turns{name: name}
		s.orders[name] = t
	}
	return t
}

// enterTurns adds an unfinished job. A job that is not the head is parked.
func (s *Store) enterTurns(rec *record) {
	if rec.turns == nil {
		return
	}
	t := s.turnsOf(rec.turns.name)
	rec.turns = t
	mine := rec.turn()
	switch {
	case t.head == rec:
	case t.head == nil:
		if next, ok := t.next(); ok && next.turn().Compare(mine) < 0 {
			s.wait(t, rec) // until promote chooses the head
			break
		}
		t.head, t.taken = rec, mine.Stage == job.Claimed
	case !t.taken && mine.Compare(t.head.turn()) < 0:
		s.wait(t, t.head) // claiming it parks it
		t.head, t.taken = rec, mine.Stage == job.Claimed
	default:
		s.wait(t, rec)
	}
	rec.score = unparked(rec.score)
	if t.head != rec {
		rec.score = park(rec.score)
	}
}

// stopTurns stops the order key of a dead letter, unless another job has its turn.
func (s *Store) stopTurns(rec *record) {
	if rec.turns == nil || rec.state != job.Dead || !s.stopsOnDead(rec.topic.name) {
		return
	}
	t := s.turnsOf(rec.turns.name)
	rec.turns = t
	if t.taken {
		return
	}
	if t.head != nil {
		s.wait(t, t.head)
	}
	t.head, t.taken = rec, true
}

func (s *Store) stopsOnDead(topic string) bool {
	l, ok := s.limits[topic]
	return ok && l.StopOnDead
}

// leaveTurns removes a job. The caller then calls promote.
func (s *Store) leaveTurns(rec *record) {
	t := rec.turns
	switch {
	case t == nil:
	case t.head == rec:
		t.head, t.taken = nil, false
	case !rec.state.Final():
		s.unwait(t, rec)
	}
}

// promote makes the next job the head of its order key if it has none.
func (s *Store) promote(t *turns, now job.Instant) {
	if t == nil || t.head != nil || s.orders[t.name] != t {
		return
	}
	next, ok := t.next()
	if !ok {
		delete(s.orders, t.name)
		return
	}
	s.unwait(t, next)
	t.head = next
	if next.score >= parked {
		s.rescore(next, unparked(next.score))
		s.look(next.lane, now)
	}
}

// park returns a carried job that is not the head of its order key to its bucket.
func (s *Store) park(rec *record, now job.Instant) {
	if rec.state == job.Running {
		return // its lease expired, and another job is the head now: it waits for that one
	}
	wasInFlight := isInFlight(rec.shown())
	s.rescore(rec, park(bucketScore(rec.wakeAt(), rec.state)))
	s.look(rec.lane, now)
	if wasInFlight {
		s.placeFree(rec.lane, now)
	}
}

func (t *turns) next() (*record, bool) {
	if t.rest == nil {
		return nil, false
	}
	return t.rest.Min()
}

// wait adds a job to the others of its order key.
func (s *Store) wait(t *turns, rec *record) {
	if t.rest == nil {
		t.rest = btree.NewBTreeGOptions(func(a, b *record) bool { return a.turn().Compare(b.turn()) < 0 },
			btree.Options{NoLocks: true, Degree: 8})
	}
	if _, known := t.rest.Set(rec); !known {
		s.behind++
	}
}

// unwait removes a job from the others of its order key.
func (s *Store) unwait(t *turns, rec *record) {
	if _, known := t.rest.Delete(rec); known {
		s.behind--
	}
}
