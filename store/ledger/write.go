package ledger

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/duehook/duehook/job"
)

// writing is the writing of a group within its transaction.
type writing struct {
	*group
	ctx context.Context
	tx  *sql.Tx
	st  *statements

	ends []ending
}

// write makes all changes of the group.
func (g *group) write(ctx context.Context, tx *sql.Tx, st *statements) error {
	w := &writing{group: g, ctx: ctx, tx: tx, st: st}
	first := g.nextSeq
	for _, step := range []func() error{
		w.resolve, w.writeConfirms,
		w.writeProgress, w.writeRepeated,
		// Keys are freed before they are taken.
		w.endReplaced,
		w.writePuts, w.writeInserts, w.writeFlows, w.delete,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if g.counted && g.nextSeq != first {
		if err := w.exec(sqlNextSeq, g.nextSeq); err != nil {
			return fmt.Errorf("count messages: %w", err)
		}
	}
	if g.probe {
		return st.probe(ctx, tx)
	}
	return nil
}

// exec runs one of the rare statements.
func (w *writing) exec(text string, args ...any) error {
	_, err := w.tx.ExecContext(w.ctx, w.st.bind(text), args...)
	return err
}

// found is a message as a lookup finds it.
type found struct {
	seq, created, version, confirmed int64
	uid                              string
	open                             bool  // it may be restored
	done                             int64 // from when its age counts, or zero
}

// resolve looks up the messages that are not known, and those in the way of
// what is to be written.
func (w *writing) resolve() error {
	var args []any
	for i, c := range w.order {
		if c.seq == 0 || c.born != nil || w.looks && c.put != nil || w.shared && c.adopt != nil {
			args = append(args, int64(i), c.key.Topic, c.key.ID, c.uid)
		}
	}
	if w.looks {
		for i, in := range w.inserts {
			args = append(args, int64(len(w.order)+i), in.of.key.Topic, in.of.key.ID, in.of.uid)
		}
	}
	byIndex, err := w.lookUp(args)
	if err != nil {
		return fmt.Errorf("look up messages: %w", err)
	}
	rivalries := w.rivalries(byIndex)
	changes := len(w.order) // insertions may add some
	for _, c := range w.order {
		c.resolve(w)
	}
	for i, in := range w.inserts {
		in.resolve(w, byIndex[changes+i], rivalries[in.of.key])
	}
	for _, c := range w.order[:changes] {
		if r := rivalries[c.key]; r != nil && r.changes[0] == c { // once, in a fixed order
			w.endLosers(r)
		}
	}
	return nil
}

func (w *writing) lookUp(args []any) (map[int][]found, error) {
	byIndex := map[int][]found{}
	err := w.st.lookup.each(args, func(stmt *sql.Stmt, args []any) error {
		rows, err := w.tx.StmtContext(w.ctx, stmt).QueryContext(w.ctx, args...)
		if err != nil {
			return err
		}
		defer rows.Close() //nolint:errcheck // rows.Err tells
		for rows.Next() {
			var i int
			var f found
			if err := rows.Scan(&i, &f.seq, &f.uid, &f.created, &f.version, &f.confirmed, &f.open, &f.done); err != nil {
				return err
			}
			byIndex[i] = append(byIndex[i], f)
		}
		return rows.Err()
	})
	return byIndex, err
}

// pickOwn gives the message of uid. Without a uid it gives the one that may be
// restored, or else the latest.
func pickOwn(messages []found, uid string) (own *found) {
	for i := range messages {
		f := &messages[i]
		if f.uid == uid || uid == "" && (own == nil || !own.open || f.open) {
			own = f
		}
	}
	return own
}

// advance makes the message what became of it, if that is later.
func (m *message) advance(p *progress) {
	j := &m.job
	if p == nil || p.version <= j.Version {
		return
	}
	j.State, j.Attempts, j.Snoozes, j.Lapses = p.state, p.attempts, p.snoozes, p.lapses
	j.Token, j.Version, j.NextAt, j.Reason, j.EndedAt = p.token, p.version, p.nextAt, p.reason, p.endedAt
	m.at = p.updated
}

// supersede makes the message that of a replaced job.
func (m *message) supersede(at job.Instant) {
	if !m.job.State.Final() {
		m.job.State, m.job.Reason, m.job.EndedAt = job.Cancelled, reasonReplaced, at
	}
	m.superseded = at
}

// writeConfirms comes first: in this process nothing can have happened to a job
// before.
func (w *writing) writeConfirms() error {
	if err := w.st.confirm.exec(w.ctx, w.tx, w.confirms); err != nil {
		return fmt.Errorf("confirm messages: %w", err)
	}
	return nil
}

// writeProgress is for messages that are not written anew.
func (w *writing) writeProgress() error {
	var args []any
	for _, c := range w.order {
		if c.progress != nil && c.seq != 0 && c.put == nil {
			args = c.progress.row(args, c.seq)
		}
	}
	if err := w.st.progress.exec(w.ctx, w.tx, args); err != nil {
		return fmt.Errorf("write the progress of messages: %w", err)
	}
	return nil
}

// writeRepeated writes settlements that the store knew already, unless the
// earlier run wrote them: its answer may have been lost on the way from the
// store.
func (w *writing) writeRepeated() error {
	for _, s := range w.repeated {
		seq := s.change.seq
		if seq == 0 {
			w.flows = append(w.flows, s.change.repeat(s)...)
			continue
		}
		var older int
		err := w.tx.QueryRowContext(w.ctx, w.st.bind(sqlOlder), seq, int64(s.next.version)).Scan(&older)
		if err != nil {
			return fmt.Errorf("look for a settlement: %w", err)
		}
		switch {
		case older == 0:
			continue
		case s.change.put != nil: // written below, with what has become of it
			w.flows = append(w.flows, s.change.repeat(s)...)
			continue
		}
		if err := w.st.progress.exec(w.ctx, w.tx, s.next.row(nil, seq)); err != nil {
			return fmt.Errorf("write the progress of messages: %w", err)
		}
		w.flows = append(w.flows, s.flow)
	}
	return nil
}

// repeat notes a repeated settlement of a job that the journal does not know
// yet, unless the change has its first run. It gives the flow of it.
func (c *change) repeat(s *settlement) []flowRow {
	if c.adopt == nil && c.put == nil || c.progress != nil && c.progress.version >= s.next.version {
		return nil
	}
	c.progress = &s.next
	return []flowRow{s.flow}
}

// endReplaced ends messages whose keys were taken, and that are not written anew.
func (w *writing) endReplaced() error {
	for _, c := range w.order {
		if c.replaced != 0 && c.seq != 0 && c.put == nil {
			w.ends = append(w.ends, ending{c.seq, c.replaced, superseded})
		}
	}
	for _, e := range w.ends {
		at := int64(e.at)
		if err := w.exec(sqlReplace, at, reasonReplaced, at, e.confirmed, at, e.seq); err != nil {
			return fmt.Errorf("end a replaced message: %w", err)
		}
	}
	return nil
}

// rows collects rows of message and payload.
type rows struct{ added, addedPayloads, put, putPayloads []any }

func (r *rows) add(m *message, seq int64) {
	r.added = m.row(r.added, seq)
	r.addedPayloads = m.payload(r.addedPayloads, seq)
}

func (r *rows) overwrite(m *message, seq int64) {
	r.put = m.row(r.put, seq)
	r.putPayloads = m.payload(r.putPayloads, seq)
}

func (w *writing) writeRows(r *rows) error {
	for _, part := range []struct {
		of   *bulk
		args []any
	}{{&w.st.put, r.put}, {&w.st.putPayload, r.putPayloads}, {&w.st.add, r.added}, {&w.st.addPayload, r.addedPayloads}} {
		if err := part.of.exec(w.ctx, w.tx, part.args); err != nil {
			return fmt.Errorf("write messages: %w", err)
		}
	}
	return nil
}

// writePuts writes what is written anew, and what the journal did not know. Of
// several registrations of a key at most the last may be restored, so their
// order does not matter.
func (w *writing) writePuts() error {
	var r rows
	for _, c := range w.order {
		m := c.anew()
		if m == nil {
			continue
		}
		log := c.log
		if c.seq != 0 {
			var err error
			if log, err = w.unknown(c.seq, log); err != nil {
				return err
			}
			r.overwrite(m, c.seq)
		} else {
			c.seq = w.take()
			r.add(m, c.seq)
		}
		for _, f := range log {
			f.of = c.target
			w.flows = append(w.flows, f)
		}
	}
	return w.writeRows(&r)
}

// anew is the message that a change writes, or nil, with all that came after.
func (c *change) anew() *message {
	var m message
	switch {
	case c.put != nil:
		m = *c.put
	case c.adopt == nil || c.seq != 0:
		return nil
	default:
		m = newMessage(*c.adopt, c.adopted)
	}
	m.advance(c.progress)
	switch {
	case c.replaced != 0:
		m.supersede(c.replaced)
	case c.beaten:
		m.supersede(c.last)
	}
	m.gaveWay = c.gaveWay
	return &m
}

// unknown are the rows of a log that a message does not have.
func (w *writing) unknown(seq int64, log []flowRow) ([]flowRow, error) {
	if len(log) == 0 {
		return nil, nil
	}
	known, _, err := readLogs(w.ctx, w.tx, []int64{seq})
	if err != nil {
		return nil, fmt.Errorf("look for attempts: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(log), func(f flowRow) bool {
		entry := encodeAttempt(f.entry)
		return slices.ContainsFunc(known[seq], func(a job.Attempt) bool { return bytes.Equal(encodeAttempt(&a), entry) })
	}), nil
}

// take gives the seq of a new message.
func (w *writing) take() int64 {
	seq := w.nextSeq
	w.nextSeq++
	return seq
}

func (w *writing) writeInserts() error {
	var r rows
	for _, in := range w.inserts {
		if in.conflict || in.of.seq != 0 {
			continue
		}
		in.of.seq = w.take()
		r.add(in.message, in.of.seq)
	}
	return w.writeRows(&r)
}

func (w *writing) writeFlows() error {
	var args []any
	for i := range w.flows {
		if f := &w.flows[i]; f.of.seq != 0 {
			args = f.row(args, w.host)
		}
	}
	if err := w.st.flow.exec(w.ctx, w.tx, args); err != nil {
		return fmt.Errorf("write flow: %w", err)
	}
	return nil
}

// delete deletes messages with all that belongs to them, in the order of their
// keys.
func (w *writing) delete() error {
	var seqs []int64
	for _, t := range w.drops {
		seqs = append(seqs, t.seq)
	}
	for _, p := range w.purges {
		old, err := w.aged(p)
		if err != nil {
			return fmt.Errorf("look for old messages: %w", err)
		}
		p.deleted = len(old)
		seqs = append(seqs, old...)
	}
	if len(seqs) == 0 {
		return nil
	}
	slices.Sort(seqs)
	for _, text := range sqlDrop(seqs) {
		if err := w.exec(text); err != nil {
			return fmt.Errorf("delete messages: %w", err)
		}
	}
	return nil
}

func (w *writing) aged(p *purge) ([]int64, error) {
	rows, err := w.tx.QueryContext(w.ctx, w.st.bind(sqlAged), int64(p.until), p.limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	var seqs []int64
	for rows.Next() {
		var seq int64
		if err := rows.Scan(&seq); err != nil {
			return nil, err
		}
		seqs = append(seqs, seq)
	}
	return seqs, rows.Err()
}
