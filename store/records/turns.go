package records

import (
	"encoding/binary"

	"github.com/duehook/duehook/internal/job"
)

// Head is the row of an order key. It lives as long as the key has an unfinished job, or a
// dead letter stops it. The jobs behind the head are rows of their own, sorted by turn.
type Head struct {
	ID   string // of the only job that may be delivered, or of the dead letter; empty while there is none
	Turn string
	// Taken: the head was claimed, or is a dead letter. No other job takes its place.
	Taken bool
	// Floor: no job behind the head has an earlier turn. A search need not pass those that
	// are gone.
	Floor string
}

// Rows are the rows of order keys, in a transaction of a store.
type Rows interface {
	// Head returns the row of an order key, nil without one.
	Head(order string) *Head
	// SetHead writes the row. Nil deletes it.
	SetHead(order string, h *Head)
	// Behind returns the first job behind the head whose turn is not before from; empty without one.
	Behind(order, from string) (turn, id string)
	// Queue puts a job behind the head.
	Queue(order, turn, id string)
	// Unqueue removes a job from behind the head.
	Unqueue(order, turn string)
}

// Turns decides who has the turn of an order key.
type Turns struct{ Rows }

// TurnOf is the turn of a job as a text that sorts as turns do.
func TurnOf(j *job.Job) string {
	turn := j.Turn()
	b := appendTime(appendTime([]byte{byte(turn.Stage)}, turn.Due), turn.Created)
	return string(append(b, turn.UID...))
}

// appendTime keeps the order of times, negative ones included.
func appendTime(b []byte, at job.Instant) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(at)^1<<63)
}

// claimed reports whether a turn is that of a claimed job.
func claimed(turn string) bool { return turn[0] == byte(job.Claimed) }

// headOf finds or makes the row of an order key.
func (t Turns) headOf(order string) *Head {
	if h := t.Head(order); h != nil {
		return h
	}
	return &Head{}
}

// IsHead reports whether the job is the head of its order key, or has none.
func (t Turns) IsHead(order, id string) bool {
	if order == "" {
		return true
	}
	h := t.Head(order)
	return h != nil && h.ID == id
}

// HasTurn reports whether the job is a head that was claimed.
func (t Turns) HasTurn(order, id string) bool {
	if order == "" {
		return false
	}
	h := t.Head(order)
	return h != nil && h.ID == id && h.Taken
}

// Take notes that a head was claimed.
func (t Turns) Take(order string) {
	if order == "" {
		return
	}
	if h := t.Head(order); h != nil && !h.Taken {
		h.Taken = true
		t.SetHead(order, h)
	}
}

// Enter gives an unfinished job its turn. A job that is not the head is parked. displaced is the id of a job that
// was the head before and is no more; empty: none.
func (t Turns) Enter(order string, j *job.Job) (parked bool, displaced string) {
	if order == "" {
		return false, ""
	}
	h, mine := t.headOf(order), TurnOf(j)
	switch {
	case h.ID == j.ID:
		h.Turn = mine
	case h.ID == "":
		if next, _ := t.Behind(order, h.Floor); next != "" && next < mine {
			t.queue(order, h, mine, j.ID) // until Promote chooses the head
			parked = true
			break
		}
		h.ID, h.Turn, h.Taken = j.ID, mine, claimed(mine)
	case !h.Taken && mine < h.Turn:
		displaced = h.ID
		t.queue(order, h, h.Turn, h.ID)
		h.ID, h.Turn, h.Taken = j.ID, mine, claimed(mine)
	default:
		t.queue(order, h, mine, j.ID)
		parked = true
	}
	t.SetHead(order, h)
	return parked, displaced
}

// Resume makes an ended job the head whose turn it kept: it goes first.
func (t Turns) Resume(order string, j *job.Job) {
	h := t.headOf(order)
	h.ID, h.Turn = j.ID, TurnOf(j)
	t.SetHead(order, h)
}

// Stop stops the order key of a dead letter, unless another job has its turn. displaced is that of Enter.
func (t Turns) Stop(order string, j *job.Job) (displaced string) {
	if order == "" {
		return ""
	}
	h := t.headOf(order)
	if !h.Taken {
		if displaced = h.ID; displaced != "" {
			t.queue(order, h, h.Turn, h.ID)
		}
		h.ID, h.Turn, h.Taken = j.ID, TurnOf(j), true
	}
	t.SetHead(order, h)
	return displaced
}

// Leave takes a job's turn from it. The caller then calls Promote.
func (t Turns) Leave(order string, j *job.Job) {
	if order == "" {
		return
	}
	h := t.Head(order)
	switch {
	case h == nil:
	case h.ID == j.ID:
		h.ID, h.Turn, h.Taken = "", "", false
		t.SetHead(order, h)
	case !j.State.Final():
		t.Unqueue(order, TurnOf(j))
	}
}

// Promote makes the next job the head of an order key if it has none, and returns its id. That job is not
// parked any more.
func (t Turns) Promote(order string) (id string) {
	if order == "" {
		return ""
	}
	h := t.Head(order)
	if h == nil || h.ID != "" {
		return ""
	}
	turn, id := t.Behind(order, h.Floor)
	if id == "" {
		t.SetHead(order, nil)
		return ""
	}
	t.Unqueue(order, turn)
	h.ID, h.Turn, h.Floor = id, turn, turn
	t.SetHead(order, h)
	return id
}

// queue puts a job behind the head.
func (t Turns) queue(order string, h *Head, turn, id string) {
	t.Queue(order, turn, id)
	h.Floor = min(h.Floor, turn)
}
