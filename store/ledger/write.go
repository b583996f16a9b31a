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
	for _, step := range []func() error{w.lookUp, w.writeMessages, w.writeCounts, w.writeFlows, w.delete} {
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

// lookUp looks up the messages and the last registrations of their keys, and decides what is written.
// It ends those that are replaced: they free their keys before others take them.
func (w *writing) lookUp() error {
	args := w.st.lookup.room(len(w.changes))
	for i, c := range w.changes {
		args = append(args, int64(i), c.key.Topic, c.key.ID, c.uid)
	}
	rows, err := w.st.lookup.find(w.ctx, w.tx, args)
	if err != nil {
		return fmt.Errorf("look up messages: %w", err)
	}
	for seq, e := range w.resolve(rows) {
		at := w.lasts[e.key].at
		if err := w.exec(sqlReplace, int64(at), reasonReplaced, int64(at), int64(at), seq); err != nil {
			return fmt.Errorf("end a replaced message: %w", err)
		}
	}
	for _, c := range w.changes {
		if c.parted {
			if err := w.exec(sqlSurpass, c.seq, int64(c.own.version)); err != nil {
				return fmt.Errorf("put a message before the store's job: %w", err)
			}
		}
	}
	return nil
}

// writeMessages writes messages, and what clients gave if the ledger lacks it or it may have changed.
func (w *writing) writeMessages() error {
	var put, payloads, progress []any
	for _, c := range w.changes {
		if c.job == nil || !c.writes {
			continue
		}
		m := *c.job
		if !c.last {
			m.supersede(w.lasts[c.key].at)
		}
		if c.own == nil {
			c.seq, w.nextSeq = w.nextSeq, w.nextSeq+1
			w.first = append(w.first, flowRow{of: c, fact: "registered", at: m.job.CreatedAt, to: job.Waiting})
		}
		for _, f := range c.log {
			f.of = c
			w.flows = append(w.flows, f)
		}
		if c.own != nil && c.own.open && !c.put {
			progress = m.row(progress, c)
			continue
		}
		put = m.row(put, c)
		payloads = m.payload(payloads, c.seq)
	}
	for _, c := range w.changes {
		if own := w.byID[registrationID{c.key, w.lasts[c.key].uid}]; c.uid == "" && own != nil {
			c.seq = own.seq
		}
	}
	for _, part := range []struct {
		of   *bulk
		args []any
	}{{&w.st.progress, progress}, {&w.st.put, put}, {&w.st.payload, payloads}} {
		if err := part.of.exec(w.ctx, w.tx, part.args); err != nil {
			return fmt.Errorf("write messages: %w", err)
		}
	}
	return nil
}

func (w *writing) writeFlows() error {
	args := w.st.flow.room(len(w.first) + len(w.flows))
	for _, f := range slices.Concat(w.first, w.flows) {
		if f.of.seq != 0 {
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
