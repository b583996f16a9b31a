package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store/records"
)

// head is the row of an order key, and the first jobs behind it.
type head struct {
	row     *records.Head // nil: none
	existed bool
	changed bool
	behind  []queued // by turn, as stored, from the floor on
	all     bool     // behind has them all
	added   map[string]string
	removed map[string]bool
}

type queued struct{ turn, id string }

// turns are the order keys of a transaction.
type turns struct {
	t   *txn
	ctx context.Context // of the call that decides
	err error
}

// prefetched is how many jobs behind a head are read with it.
const prefetched = 4

// lockTurns locks order keys, and reads the first jobs behind their heads.
func (t *txn) lockTurns(b *pgx.Batch, orders []string) {
	slices.Sort(orders)
	if orders = slices.Compact(orders); len(orders) == 0 {
		return
	}
	t.rows.heads = make(map[string]*head, len(orders))
	q := b.Queue(t.s.sql(`INSERT INTO duehook.order_head AS h (order_key, id, turn, floor, taken)
		SELECT k, '', '', '', false FROM unnest($1::text[]) k
		ON CONFLICT (order_key) DO UPDATE SET taken = h.taken RETURNING order_key, id, turn, floor, taken`), orders)
	collect(q, func(row pgx.Rows) error {
		var order string
		var turn, floor []byte
		h := &head{row: &records.Head{}}
		if err := row.Scan(&order, &h.row.ID, &turn, &floor, &h.row.Taken); err != nil {
			return err
		}
		h.row.Turn, h.row.Floor = string(turn), string(floor)
		if h.existed = h.row.ID != ""; !h.existed {
			h.row, h.changed = nil, true
		}
		t.rows.heads[order] = h
		return nil
	})
	q = b.Queue(t.s.sql(`SELECT q.order_key, q.turn, q.id FROM duehook.order_head h CROSS JOIN LATERAL
		(SELECT order_key, turn, id FROM duehook.order_queue WHERE order_key = h.order_key AND turn >= h.floor ORDER BY turn LIMIT $2) q
		WHERE h.order_key = ANY($1) ORDER BY q.order_key, q.turn`), orders, prefetched)
	collect(q, func(row pgx.Rows) error {
		var order, id string
		var turn []byte
		if err := row.Scan(&order, &turn, &id); err != nil {
			return err
		}
		h := t.rows.heads[order]
		h.behind = append(h.behind, queued{string(turn), id})
		return nil
	})
}

// turns decides about the order keys that were locked.
func (t *txn) turns(ctx context.Context) (records.Turns, *turns) {
	rows := &turns{t: t, ctx: ctx}
	return records.Turns{Rows: rows}, rows
}

func (r *turns) at(order string) *head {
	h := r.t.rows.heads[order]
	if h == nil {
		r.err = errors.Join(r.err, fmt.Errorf("%w: the order key %s was not locked", errAgain, order))
		h = &head{all: true}
		if r.t.rows.heads == nil {
			r.t.rows.heads = map[string]*head{}
		}
		r.t.rows.heads[order] = h
	}
	return h
}

// Head implements records.Rows.
func (r *turns) Head(order string) *records.Head {
	h := r.at(order)
	if h.row == nil {
		return nil
	}
	is := *h.row
	return &is
}

// SetHead implements records.Rows.
func (r *turns) SetHead(order string, is *records.Head) {
	h := r.at(order)
	h.row, h.changed = is, true
}

// Behind implements records.Rows.
func (r *turns) Behind(order, from string) (turn, id string) {
	h := r.at(order)
	for {
		for _, q := range h.behind {
			if q.turn >= from && !h.removed[q.turn] {
				turn, id = q.turn, q.id
				break
			}
		}
		if id != "" || h.all || len(h.behind) < prefetched {
			break
		}
		r.readBehind(order, h)
	}
	for added, by := range h.added {
		if added >= from && (id == "" || added < turn) {
			turn, id = added, by
		}
	}
	return turn, id
}

// readBehind reads more jobs behind a head.
func (r *turns) readBehind(order string, h *head) {
	const more = 500
	last, n := h.behind[len(h.behind)-1].turn, 0
	b := &pgx.Batch{}
	collect(b.Queue(r.t.s.sql(`SELECT turn, id FROM duehook.order_queue WHERE order_key = $1 AND turn > $2 ORDER BY turn LIMIT $3`), order, []byte(last), more), func(row pgx.Rows) error {
		var turn []byte
		var id string
		if err := row.Scan(&turn, &id); err != nil {
			return err
		}
		n++
		h.behind = append(h.behind, queued{string(turn), id})
		return nil
	})
	err := r.t.send(r.ctx, b)
	r.err = errors.Join(r.err, err)
	h.all = n < more || err != nil
}

// Queue implements records.Rows.
func (r *turns) Queue(order, turn, id string) {
	h := r.at(order)
	if h.added == nil {
		h.added = map[string]string{}
	}
	h.added[turn] = id
}

// Unqueue implements records.Rows.
func (r *turns) Unqueue(order, turn string) {
	h := r.at(order)
	delete(h.added, turn)
	if h.removed == nil {
		h.removed = map[string]bool{}
	}
	h.removed[turn] = true
}

// move notes that a job is parked, or no longer is. flush reads its row, unless the call has.
func (t *txn) move(order, id string, parked bool) {
	if id == "" {
		return
	}
	if t.rows.moved == nil {
		t.rows.moved = map[job.Key]bool{}
	}
	t.rows.moved[job.Key{Topic: records.TopicOf(order), ID: id}] = parked
}

// park applies the moves. The lock of the order key guards these rows.
func (t *txn) park(ctx context.Context) error {
	if len(t.rows.moved) == 0 {
		return nil
	}
	for key := range t.rows.moved {
		if r := t.rows.jobs[key]; r != nil && r.was == nil && !r.touched() { // it was read without its lane
			delete(t.rows.jobs, key)
		}
	}
	b := &pgx.Batch{}
	t.lock(b, withContent, sortedKeys(slices.Collect(maps.Keys(t.rows.moved))))
	if b.Len() > 0 {
		if err := t.send(ctx, b); err != nil {
			return err
		}
	}
	for key, parked := range t.rows.moved {
		if r := t.rows.jobs[key]; r != nil && !r.gone && !r.State.Final() && r.State != job.Running && r.parked != parked && t.rows.bad[key] == nil {
			r.parked, r.changed = parked, true
		}
	}
	return nil
}

// writeTurns writes the order keys that have changed.
func (t *txn) writeTurns(b *pgx.Batch) {
	var gone, orders, ids []string
	var turns, floors [][]byte
	var taken []bool
	var offOrders, onOrders, onIDs []string
	var offTurns, onTurns [][]byte
	for _, order := range slices.Sorted(maps.Keys(t.rows.heads)) {
		h := t.rows.heads[order]
		d := t.deltas.lane(job.Lane{Topic: records.TopicOf(order)})
		if h.row != nil && !h.existed {
			d.orderKeys++
		} else if h.row == nil && h.existed {
			d.orderKeys--
		}
		switch {
		case h.row == nil:
			gone = append(gone, order)
		case h.changed:
			orders, ids = append(orders, order), append(ids, h.row.ID)
			turns, floors, taken = append(turns, []byte(h.row.Turn)), append(floors, []byte(h.row.Floor)), append(taken, h.row.Taken)
		}
		for turn := range h.removed {
			if _, again := h.added[turn]; !again {
				offOrders, offTurns = append(offOrders, order), append(offTurns, []byte(turn))
			}
		}
		for turn, id := range h.added {
			onOrders, onTurns, onIDs = append(onOrders, order), append(onTurns, []byte(turn)), append(onIDs, id)
		}
	}
	if len(gone) > 0 {
		b.Queue(t.s.sql(`DELETE FROM duehook.order_head WHERE order_key = ANY($1)`), gone)
	}
	if len(orders) > 0 {
		b.Queue(t.s.sql(`UPDATE duehook.order_head h SET id = u.id, turn = u.turn, floor = u.floor, taken = u.taken
			FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[], $5::bool[]) u (order_key, id, turn, floor, taken) WHERE h.order_key = u.order_key`),
			orders, ids, turns, floors, taken)
	}
	if len(offOrders) > 0 {
		b.Queue(t.s.sql(`DELETE FROM duehook.order_queue q USING unnest($1::text[], $2::bytea[]) u (order_key, turn) WHERE q.order_key = u.order_key AND q.turn = u.turn`), offOrders, offTurns)
	}
	if len(onOrders) > 0 {
		b.Queue(t.s.sql(`INSERT INTO duehook.order_queue (order_key, turn, id) SELECT * FROM unnest($1::text[], $2::bytea[], $3::text[])
			ON CONFLICT (order_key, turn) DO UPDATE SET id = EXCLUDED.id`), onOrders, onTurns, onIDs)
	}
}

// enter gives an unfinished job its turn.
func (t *txn) enter(turns records.Turns, r *record) {
	var displaced string
	r.parked, displaced = turns.Enter(r.order, &r.Job)
	t.move(r.order, displaced, true)
}

// leave takes a job's turn from it, and gives it to the next one.
func (t *txn) leave(turns records.Turns, r *record) {
	turns.Leave(r.order, &r.Job)
	t.promote(turns, r.order)
}

// promote gives the turn to the next job.
func (t *txn) promote(turns records.Turns, order string) { t.move(order, turns.Promote(order), false) }
