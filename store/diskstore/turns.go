package diskstore

import (
	"github.com/duehook/duehook/internal/job"
)

// head is the row of an order key. It lives as long as the key has an unfinished job, or a
// dead letter stops it. The jobs behind the head are rows of their own, sorted by turn.
type head struct {
	id   string // of the only job that may be delivered, or of the dead letter; empty while there is none
	turn string
	// taken: the head was claimed, or is a dead letter. No other job takes its place.
	taken bool
	// floor: no job behind the head has an earlier turn. A search need not pass those that
	// are gone.
	floor string
}

// turnOf is the turn of a job as a text that sorts as turns do.
func turnOf(rec *record) string {
	turn := rec.Turn()
	b := appendTime(appendTime([]byte{byte(turn.Stage)}, turn.Due), turn.Created)
	return string(append(b, turn.UID...))
}

// claimedTurn reports whether a turn is that of a claimed job.
func claimedTurn(turn string) bool { return turn[0] == byte(job.Claimed) }

func (t *txn) head(order string) *head {
	value := t.get(row(famOrder, order))
	if value == nil {
		return nil
	}
	in := reader{b: value}
	h := &head{id: in.text(), turn: in.text(), taken: in.uint() != 0, floor: in.text()}
	t.note(in.err)
	return h
}

func (t *txn) setHead(order string, h *head) {
	var w writer
	w.text(h.id)
	w.text(h.turn)
	w.uint(bit(1, h.taken))
	w.text(h.floor)
	t.set(row(famOrder, order), w.b)
}

// headOf finds or makes the row of an order key.
func (t *txn) headOf(order string) *head {
	h := t.head(order)
	if h == nil {
		h = &head{}
		t.s.meta.orderKeys++
		t.figure = true
	}
	return h
}

// isHead reports whether the record is the head of its order key, or has none.
func (t *txn) isHead(rec *record) bool {
	if rec.order == "" {
		return true
	}
	h := t.head(rec.order)
	return h != nil && h.id == rec.ID
}

// hasTurn reports whether the record is a head that was claimed.
func (t *txn) hasTurn(rec *record) bool {
	if rec.order == "" {
		return false
	}
	h := t.head(rec.order)
	return h != nil && h.id == rec.ID && h.taken
}

// takeTurn notes that a head was claimed.
func (t *txn) takeTurn(rec *record) {
	if rec.order == "" {
		return
	}
	if h := t.head(rec.order); h != nil && !h.taken {
		h.taken = true
		t.setHead(rec.order, h)
	}
}

// enterTurns gives an unfinished job its turn. A job that is not the head is parked.
func (t *txn) enterTurns(rec *record) {
	rec.parked = false
	if rec.order == "" {
		return
	}
	h, mine := t.headOf(rec.order), turnOf(rec)
	switch {
	case h.id == rec.ID:
		h.turn = mine
	case h.id == "":
		if next, _ := t.next(rec.order, h); next != "" && next < mine {
			t.wait(rec.order, h, mine, rec.ID) // until promote chooses the head
			rec.parked = true
			break
		}
		h.id, h.turn, h.taken = rec.ID, mine, claimedTurn(mine)
	case !h.taken && mine < h.turn:
		t.wait(rec.order, h, h.turn, h.id) // claiming it parks it
		h.id, h.turn, h.taken = rec.ID, mine, claimedTurn(mine)
	default:
		t.wait(rec.order, h, mine, rec.ID)
		rec.parked = true
	}
	t.setHead(rec.order, h)
}

// stopTurns stops the order key of a dead letter, unless another job has its turn.
func (t *txn) stopTurns(rec *record) {
	if rec.order == "" || rec.State != job.Dead || !t.s.stopsOnDead(rec.Topic) {
		return
	}
	h := t.headOf(rec.order)
	if !h.taken {
		if h.id != "" {
			t.wait(rec.order, h, h.turn, h.id)
		}
		h.id, h.turn, h.taken = rec.ID, turnOf(rec), true
	}
	t.setHead(rec.order, h)
}

func (s *Store) stopsOnDead(topic string) bool {
	l, ok := s.limits[topic]
	return ok && l.StopOnDead
}

// leaveTurns takes a job's turn from it. The caller then calls promote.
func (t *txn) leaveTurns(rec *record) {
	if rec.order == "" {
		return
	}
	h := t.head(rec.order)
	switch {
	case h == nil:
	case h.id == rec.ID:
		h.id, h.turn, h.taken = "", "", false
		t.setHead(rec.order, h)
	case !rec.State.Final():
		t.unwait(rec.order, turnOf(rec))
	}
}

// promote makes the next job the head of an order key if it has none.
func (t *txn) promote(order string) {
	if order == "" {
		return
	}
	h := t.head(order)
	if h == nil || h.id != "" {
		return
	}
	turn, id := t.next(order, h)
	if id == "" {
		t.delete(row(famOrder, order))
		t.s.meta.orderKeys--
		t.figure = true
		return
	}
	t.unwait(order, turn)
	h.id, h.turn, h.floor = id, turn, turn
	t.setHead(order, h)
	if rec := t.load(job.Key{Topic: topicOf(order), ID: id}); rec != nil && rec.parked {
		t.unpark(rec)
	}
}

// topicOf is the topic in topic/order_key.
func topicOf(order string) string {
	key, _ := job.ParseKey(order)
	return key.Topic
}

// unpark has a job wait for its time only.
func (t *txn) unpark(rec *record) {
	t.takeEntry(rec)
	t.putEntry(rec)
	t.set(row(famKey, rec.Topic, rec.ID), keyRow(rec))
}

// park returns a carried job that is not the head of its order key to its bucket.
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

// next is the job behind the head that goes first.
func (t *txn) next(order string, h *head) (turn, id string) {
	p := prefix(famQueue, order)
	from := append(append([]byte(nil), p...), h.floor...)
	t.scan(from, end(p), func(key, value []byte) bool {
		turn, id = string(key[len(p):]), string(value)
		return false
	})
	return turn, id
}

// wait puts a job behind the head.
func (t *txn) wait(order string, h *head, turn, id string) {
	t.set(append(prefix(famQueue, order), turn...), []byte(id))
	h.floor = min(h.floor, turn)
	t.s.meta.behind++
	t.figure = true
}

// unwait removes a job from behind the head.
func (t *txn) unwait(order, turn string) {
	t.delete(append(prefix(famQueue, order), turn...))
	t.s.meta.behind--
	t.figure = true
}
