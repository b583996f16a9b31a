package diskstore

import (
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store/records"
)

// orderRows are the rows of order keys, as package records wants them.
type orderRows struct{ t *txn }

// turns decides who has the turn of an order key.
func (t *txn) turns() records.Turns { return records.Turns{Rows: orderRows{t}} }

// Head implements records.Rows.
func (r orderRows) Head(order string) *records.Head {
	value := r.t.get(row(famOrder, order))
	if value == nil {
		return nil
	}
	in := reader{b: value}
	h := &records.Head{ID: in.text(), Turn: in.text(), Taken: in.uint() != 0, Floor: in.text()}
	r.t.note(in.err)
	return h
}

// SetHead implements records.Rows. It counts the order keys.
func (r orderRows) SetHead(order string, h *records.Head) {
	t, key := r.t, row(famOrder, order)
	if was := t.get(key) != nil; was != (h != nil) {
		t.figure = true
		if was {
			t.s.meta.orderKeys--
		} else {
			t.s.meta.orderKeys++
		}
	}
	if h == nil {
		t.delete(key)
		return
	}
	var w writer
	w.text(h.ID)
	w.text(h.Turn)
	w.uint(bit(1, h.Taken))
	w.text(h.Floor)
	t.set(key, w.b)
}

// Behind implements records.Rows.
func (r orderRows) Behind(order, from string) (turn, id string) {
	p := prefix(famQueue, order)
	r.t.scan(append(append([]byte(nil), p...), from...), end(p), func(key, value []byte) bool {
		turn, id = string(key[len(p):]), string(value)
		return false
	})
	return turn, id
}

// Queue implements records.Rows.
func (r orderRows) Queue(order, turn, id string) {
	r.t.set(append(prefix(famQueue, order), turn...), []byte(id))
	r.t.s.meta.behind++
	r.t.figure = true
}

// Unqueue implements records.Rows.
func (r orderRows) Unqueue(order, turn string) {
	r.t.delete(append(prefix(famQueue, order), turn...))
	r.t.s.meta.behind--
	r.t.figure = true
}

// enterTurns gives an unfinished job its turn. A job that is not the head is parked. One that was the head until now is parked
// when somebody claims it.
func (t *txn) enterTurns(rec *record) {
	rec.parked, _ = t.turns().Enter(rec.order, &rec.Job)
}

// stopTurns stops the order key of a dead letter, unless another job has its turn.
func (t *txn) stopTurns(rec *record) {
	if rec.State == job.Dead && t.s.stopsOnDead(rec.Topic) {
		t.turns().Stop(rec.order, &rec.Job)
	}
}

func (s *Store) stopsOnDead(topic string) bool {
	l, ok := s.limits[topic]
	return ok && l.StopOnDead
}

// promote makes the next job the head of an order key if it has none.
func (t *txn) promote(order string) {
	id := t.turns().Promote(order)
	if id == "" {
		return
	}
	if rec := t.load(job.Key{Topic: records.TopicOf(order), ID: id}); rec != nil && rec.parked {
		t.unpark(rec)
	}
}

// unpark has a job wait for its time only.
func (t *txn) unpark(rec *record) {
	t.takeEntry(rec)
	t.putEntry(rec)
	t.set(row(famKey, rec.Topic, rec.ID), keyRow(rec))
}

// park keeps a job that is not the head of its order key from being due.
func (t *txn) park(rec *record) {
	if rec.State == job.Running {
		return // its lease expired, and another job is the head now: it waits for that one
	}
	if rec.parked {
		return
	}
	t.takeEntry(rec)
	rec.parked = true
	t.putEntry(rec)
	t.set(row(famKey, rec.Topic, rec.ID), keyRow(rec))
}
