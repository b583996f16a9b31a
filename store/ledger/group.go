package ledger

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// reasonReplaced is why a job ended that a registration replaced.
const reasonReplaced = "replaced"

// maxTargets bounds what is remembered between groups.
const maxTargets = 1 << 16

// target is the current message of a key, as far as the committer knows it. It
// is remembered from the carrying of a job to its settlement.
type target struct {
	key     job.Key
	seq     int64  // zero: not looked up yet, or there is none
	token   uint64 // of the last claim written, with its version and worker
	version uint64
	by      string
}

// change is what a group does to a target.
type change struct {
	*target
	put      *message    // everything is written anew
	adopt    *job.Job    // written if there is no message yet
	log      []flowRow   // written if there is no message yet
	progress *progress   // what changed after that
	replaced job.Instant // when another registration took the key; comes last
	settled  bool        // nothing needs to be remembered
}

// group collects the changes of many callers for one transaction. Changes of
// one key must be added in the order in which the store made them. A
// registration's rows are committed before the store hears of it, so no change
// ever concerns a message that is added in the same group.
type group struct {
	known   map[job.Key]*target
	nextSeq int64
	host    string

	changes  map[job.Key]*change
	order    []*change // of changes, for one fixed order of locks and writes
	inserts  []insertion
	confirms []any
	flows    []flowRow
	repeated []*settlement
	drops    []int64
	purges   []*purge
	probe    bool
}

type insertion struct {
	message *message
	of      *target
}

// settlement is one that may have been written before.
type settlement struct {
	change *change
	next   progress
	flow   flowRow
}

// purge deletes messages whose age counts from before until, at most limit.
type purge struct {
	until   job.Instant
	limit   int
	deleted int
}

func newGroup(known map[job.Key]*target, nextSeq int64, host string) *group {
	if len(known) > maxTargets {
		clear(known)
	}
	return &group{known: known, nextSeq: nextSeq, host: host, changes: map[job.Key]*change{}}
}

// of gives the change of a key.
func (g *group) of(key job.Key) *change {
	c, ok := g.changes[key]
	if !ok {
		t, ok := g.known[key]
		if !ok {
			t = &target{key: key}
		}
		c = &change{target: t}
		g.changes[key] = c
		g.order = append(g.order, c)
	}
	return c
}

// insert adds a message and gives its seq.
func (g *group) insert(m *message, registered job.Instant) int64 {
	t := &target{key: m.job.Key, seq: g.nextSeq}
	g.nextSeq++
	g.inserts = append(g.inserts, insertion{message: m, of: t})
	g.flows = append(g.flows, flowRow{of: t, at: registered, to: job.Waiting})
	return t.seq
}

// replace ends the message of a key that a new one takes. old is the job as
// the store had it, or nil if the store had none.
func (g *group) replace(key job.Key, old *job.Job, at job.Instant) {
	c := g.of(key)
	c.replaced, c.settled = at, true
	if old != nil && !old.State.Final() {
		g.flows = append(g.flows, flowRow{
			of: c.target, at: at, from: int64(old.State), to: job.Cancelled, reason: reasonReplaced,
		})
	}
}

// confirm writes the times that the store gave to a registration.
func (g *group) confirm(seq int64, j *job.Job) {
	g.confirms = append(g.confirms, seq, int64(j.CreatedAt), int64(j.DueAt), int64(j.ExpiresAt),
		int64(j.NextAt), int64(j.Token), int64(j.Version), int64(j.CreatedAt))
}

// put writes a job anew, after an update.
func (g *group) put(m *message, from job.State, reason string) {
	c := g.of(m.job.Key)
	c.put, c.progress, c.version = m, nil, m.job.Version
	g.flows = append(g.flows, flowRow{of: c.target, at: m.at, from: int64(from), to: m.job.State, reason: reason})
}

// restored writes a job as it stands. Its log is written if the journal did
// not know the job.
func (g *group) restored(m *message, log []flowRow) {
	c := g.of(m.job.Key)
	c.put, c.progress, c.log = m, nil, log
}

// carried notes that a job went to the ready list.
func (g *group) carried(c *store.Carried, by string, at job.Instant) {
	g.flows = append(g.flows, flowRow{
		of: g.of(c.Hint.Key()).target, at: at, from: int64(c.From), to: job.Ready, actor: by,
	})
}

// claimed writes a claim. A claim that is given again is not written again.
func (g *group) claimed(c *store.Claimed, by string) {
	j := &c.Job
	ch := g.of(j.Key)
	if ch.token == j.Token {
		return
	}
	ch.token, ch.version, ch.by, ch.settled = j.Token, j.Version, by, false
	ch.adopt = j
	ch.progress = &progress{
		state: job.Running, attempts: j.Attempts, snoozes: j.Snoozes, lapses: j.Lapses,
		token: j.Token, version: j.Version, nextAt: j.NextAt, updated: c.Now,
	}
	g.flows = append(g.flows, flowRow{
		of: ch.target, at: c.Now, from: int64(c.From), to: job.Running, attempt: j.Attempts + 1, actor: by,
	})
}

// settle writes what a claim came to.
func (g *group) settle(s *job.Settlement, r *store.Settled, log []byte) {
	c := g.of(s.Key)
	next := progress{
		state: r.To, attempts: s.Attempts, snoozes: s.Snoozes, lapses: s.Lapses, token: s.Token,
		nextAt: r.NextAt, endedAt: r.EndedAt, updated: r.Now,
	}
	if r.To.Final() {
		next.reason = r.Reason
	}
	flow := flowRow{of: c.target, at: r.Now, from: int64(job.Running), to: r.To, reason: r.Reason}
	if c.token == s.Token {
		next.version = c.version + 1
		flow.actor = c.by
	}
	if s.Attempt != nil {
		flow.attempt, flow.log = s.Attempt.Number, log
	}
	if r.Repeated {
		g.repeated = append(g.repeated, &settlement{change: c, next: next, flow: flow})
		return
	}
	c.progress, c.settled = &next, true
	g.flows = append(g.flows, flow)
}

// write makes all changes of the group.
func (g *group) write(ctx context.Context, tx *sql.Tx, st *statements) error {
	for _, step := range []func(context.Context, *sql.Tx, *statements) error{
		g.resolve, g.writeConfirms, g.writeMessages, g.writeProgress, g.writeRepeated, g.writeReplaced, g.writeFlows, g.delete,
	} {
		if err := step(ctx, tx, st); err != nil {
			return err
		}
	}
	if g.probe {
		return probe(ctx, tx)
	}
	return nil
}

// committed remembers what the next groups will want to know.
func (g *group) committed() {
	for _, c := range g.order {
		if c.settled || c.seq == 0 {
			delete(g.known, c.key)
		} else {
			g.known[c.key] = c.target
		}
	}
	for _, in := range g.inserts {
		delete(g.known, in.of.key)
	}
}

// resolve looks up the messages that are not known.
func (g *group) resolve(ctx context.Context, tx *sql.Tx, st *statements) error {
	var args []any
	for i, c := range g.order {
		if c.seq == 0 {
			args = append(args, int64(i), c.key.Topic, c.key.ID)
		}
	}
	return st.lookup.each(args, func(stmt *sql.Stmt, args []any) error {
		rows, err := tx.StmtContext(ctx, stmt).QueryContext(ctx, args...)
		if err != nil {
			return fmt.Errorf("look up messages: %w", err)
		}
		defer rows.Close() //nolint:errcheck // rows.Err tells
		for rows.Next() {
			var i int
			var seq sql.NullInt64
			if err := rows.Scan(&i, &seq); err != nil {
				return fmt.Errorf("look up messages: %w", err)
			}
			g.order[i].seq = seq.Int64
		}
		return rows.Err()
	})
}

// writeConfirms comes first: nothing can have happened to a job before.
func (g *group) writeConfirms(ctx context.Context, tx *sql.Tx, st *statements) error {
	if err := st.confirm.exec(ctx, tx, g.confirms); err != nil {
		return fmt.Errorf("confirm messages: %w", err)
	}
	return nil
}

// message is what is to be written anew, if anything.
func (c *change) message() (*message, error) {
	if c.put != nil || c.adopt == nil || c.seq != 0 {
		return c.put, nil
	}
	m, err := newMessage(*c.adopt, c.progress.updated)
	return &m, err
}

// writeMessages writes new messages and those that were written anew.
func (g *group) writeMessages(ctx context.Context, tx *sql.Tx, st *statements) error {
	var messages, payloads []any
	for _, in := range g.inserts {
		messages = in.message.row(messages, in.of.seq)
		payloads = in.message.payload(payloads, in.of.seq)
	}
	for _, c := range g.order {
		m, err := c.message()
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		if c.seq == 0 {
			c.seq = g.nextSeq
			g.nextSeq++
			for _, f := range c.log {
				f.of = c.target
				g.flows = append(g.flows, f)
			}
		}
		messages = m.row(messages, c.seq)
		payloads = m.payload(payloads, c.seq)
	}
	if err := st.put.exec(ctx, tx, messages); err != nil {
		return fmt.Errorf("write messages: %w", err)
	}
	if err := st.payload.exec(ctx, tx, payloads); err != nil {
		return fmt.Errorf("write payloads: %w", err)
	}
	return nil
}

func (g *group) writeProgress(ctx context.Context, tx *sql.Tx, st *statements) error {
	var args []any
	for _, c := range g.order {
		if c.progress != nil && c.seq != 0 {
			args = c.progress.row(args, c.seq)
		}
	}
	if err := st.progress.exec(ctx, tx, args); err != nil {
		return fmt.Errorf("write the progress of messages: %w", err)
	}
	return nil
}

// writeRepeated writes settlements that the store knew already, unless the
// earlier run wrote them: its answer may have been lost on the way from the
// store.
func (g *group) writeRepeated(ctx context.Context, tx *sql.Tx, st *statements) error {
	for _, s := range g.repeated {
		seq, token := s.change.seq, int64(s.next.token)
		var unsettled int
		if err := tx.QueryRowContext(ctx, sqlUnsettled, seq, token, token).Scan(&unsettled); err != nil {
			return fmt.Errorf("look for a settlement: %w", err)
		}
		if unsettled == 0 {
			continue
		}
		if err := st.progress.exec(ctx, tx, s.next.row(nil, seq)); err != nil {
			return fmt.Errorf("write the progress of messages: %w", err)
		}
		g.flows = append(g.flows, s.flow)
	}
	return nil
}

// writeReplaced ends messages whose keys were taken.
func (g *group) writeReplaced(ctx context.Context, tx *sql.Tx, _ *statements) error {
	for _, c := range g.order {
		if c.replaced == 0 {
			continue
		}
		at := int64(c.replaced)
		if _, err := tx.ExecContext(ctx, sqlReplace, at, at, reasonReplaced, at, c.seq); err != nil {
			return fmt.Errorf("end a replaced message: %w", err)
		}
	}
	return nil
}

func (g *group) writeFlows(ctx context.Context, tx *sql.Tx, st *statements) error {
	var args []any
	for i := range g.flows {
		if f := &g.flows[i]; f.of.seq != 0 {
			args = f.row(args, g.host)
		}
	}
	if err := st.flow.exec(ctx, tx, args); err != nil {
		return fmt.Errorf("write flow: %w", err)
	}
	return nil
}

// delete deletes messages with all that belongs to them.
func (g *group) delete(ctx context.Context, tx *sql.Tx, _ *statements) error {
	for _, p := range g.purges {
		seqs, err := aged(ctx, tx, p)
		if err != nil {
			return err
		}
		p.deleted = len(seqs)
		g.drops = append(g.drops, seqs...)
	}
	if len(g.drops) == 0 {
		return nil
	}
	list := listParam(g.drops)
	for _, text := range []string{sqlDropFlow, sqlDropPayload, sqlDropMessage} {
		if _, err := tx.ExecContext(ctx, text, list); err != nil {
			return fmt.Errorf("delete messages: %w", err)
		}
	}
	return nil
}

func aged(ctx context.Context, tx *sql.Tx, p *purge) ([]int64, error) {
	rows, err := tx.QueryContext(ctx, sqlAged, int64(p.until), p.limit)
	if err != nil {
		return nil, fmt.Errorf("look for old messages: %w", err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	var seqs []int64
	for rows.Next() {
		var seq int64
		if err := rows.Scan(&seq); err != nil {
			return nil, fmt.Errorf("look for old messages: %w", err)
		}
		seqs = append(seqs, seq)
	}
	return seqs, rows.Err()
}
