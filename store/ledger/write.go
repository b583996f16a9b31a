package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/duehook/duehook/job"
)

// writing writes a group within its transaction.
type writing struct {
	*group
	ctx context.Context
	tx  *sql.Tx
	st  *statements
}

// write makes all changes of the group.
func (g *group) write(ctx context.Context, tx *sql.Tx, st *statements) error {
	w := &writing{group: g, ctx: ctx, tx: tx, st: st}
	first := g.nextSeq
	for _, step := range []func() error{
		w.lookUp, w.writeProgress,
		// Ended messages free their keys before others take them.
		w.endReplaced,
		w.writePuts, w.writeTallies, w.writeFlows, w.delete,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if g.nextSeq != first {
		if err := w.exec(sqlNextSeq, g.nextSeq); err != nil {
			return fmt.Errorf("count messages: %w", err)
		}
	}
	if g.probe {
		if err := w.exec(sqlProbe, ownerKind, ownerName); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}

// exec runs one of the rare statements.
func (w *writing) exec(text string, args ...any) error {
	_, err := w.tx.ExecContext(w.ctx, w.st.bind(text), args...)
	return err
}

// lookUp looks up unknown messages and those of which the ledger may have later versions, and
// decides what is written.
func (w *writing) lookUp() error {
	var args []any
	for i, c := range w.changes {
		if c.seq == 0 || c.looks {
			args = append(args, int64(i), c.key.Topic, c.key.ID, c.uid)
		}
	}
	rows, err := w.st.lookup.find(w.ctx, w.tx, args)
	if err != nil {
		return fmt.Errorf("look up messages: %w", err)
	}
	w.resolve(rows)
	return nil
}

// supersede marks the message as a replaced job's.
func (m *message) supersede(at job.Instant) {
	if !m.job.State.Final() {
		m.job.State, m.job.Reason, m.job.EndedAt = job.Cancelled, reasonReplaced, at
	}
	m.gone = at
}

// writeProgress updates messages that are not written as a whole.
func (w *writing) writeProgress() error {
	args := w.st.progress.room(len(w.changes))
	for _, c := range w.changes {
		if c.job != nil && c.seq != 0 && !c.rewrites && (c.own == nil || c.own.version < c.job.job.Version) {
			args = c.job.progress(args, c.seq)
		}
	}
	if err := w.st.progress.exec(w.ctx, w.tx, args); err != nil {
		return fmt.Errorf("write the progress of messages: %w", err)
	}
	return nil
}

// endReplaced ends replaced messages that are not written as a whole.
func (w *writing) endReplaced() error {
	for _, c := range w.changes {
		if c.replaced != 0 && c.seq != 0 && !c.rewrites {
			w.ends[c.seq] = c.replaced
		}
	}
	for seq, ended := range w.ends {
		at := int64(ended)
		if err := w.exec(sqlReplace, at, reasonReplaced, at, superseded, at, seq); err != nil {
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

// writePuts writes whole messages and messages that the ledger lacked. Of several
// registrations of a key, at most the last may be restored, so their order does not
// matter.
func (w *writing) writePuts() error {
	var r rows
	var first []flowRow // of messages that somebody else registered
	for _, c := range w.changes {
		m := c.anew()
		if m == nil {
			continue
		}
		if c.seq != 0 {
			r.overwrite(m, c.seq)
		} else {
			c.seq = w.take()
			r.add(m, c.seq)
			if !c.listed {
				first = append(first, registered(c.target, m.job.CreatedAt))
			}
		}
		for _, f := range c.log {
			f.of = c.target
			w.flows = append(w.flows, f)
		}
	}
	w.flows = append(first, w.flows...)
	return w.writeRows(&r)
}

// anew returns the message that a change writes as a whole, or nil.
func (c *change) anew() *message {
	if !c.adds() {
		return nil
	}
	m := *c.job
	if c.replaced != 0 {
		m.supersede(c.replaced)
	}
	return &m
}

// take returns the seq of a new message.
func (w *writing) take() int64 {
	seq := w.nextSeq
	w.nextSeq++
	return seq
}

func (w *writing) writeFlows() error {
	args := w.st.flow.room(len(w.flows))
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

// delete deletes messages with their other rows, in the order of their keys.
func (w *writing) delete() error {
	var seqs []int64
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
	var seqs []int64
	err := each(w.ctx, w.tx, w.st.bind(sqlAged), []any{int64(p.until), p.limit}, func(rows *sql.Rows) error {
		var seq int64
		err := rows.Scan(&seq)
		seqs = append(seqs, seq)
		return err
	})
	return seqs, err
}
