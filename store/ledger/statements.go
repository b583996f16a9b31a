package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// bulk is a prepared statement for many rows. It ends with its connections.
type bulk struct {
	shape
	stmts []*sql.Stmt // for each of sizes
}

func prepareBulk(ctx context.Context, db *sql.DB, s shape) (bulk, error) {
	b := bulk{shape: s}
	for _, n := range s.sizes {
		stmt, err := db.PrepareContext(ctx, s.text(n))
		if err != nil {
			return b, fmt.Errorf("prepare %q: %w", s.text(1), err)
		}
		b.stmts = append(b.stmts, stmt)
	}
	return b, nil
}

// room is an empty list of arguments, with room for so many rows: growing takes five times as much.
func (b *bulk) room(rows int) []any { return make([]any, 0, rows*b.cols) }

// each calls do for every statement that all rows of args need. args has the rows one after
// the other.
func (b *bulk) each(args []any, do func(stmt *sql.Stmt, args []any) error) error {
	if len(args) == 0 {
		return nil
	}
	if b.pack != nil {
		return b.eachPack(args, do)
	}
	for i, n := range b.sizes {
		size := n * b.cols
		for len(args) >= size {
			if err := do(b.stmts[i], args[:size]); err != nil {
				return err
			}
			args = args[size:]
		}
	}
	return nil
}

// eachPack splits the rows by bytes, too. PostgreSQL ends a session that does not send its
// next statement within 5 s (see postgresLimits), and a slow client needs that for a few
// large bodies.
func (b *bulk) eachPack(args []any, do func(stmt *sql.Stmt, args []any) error) error {
	for len(args) > 0 {
		rows := len(args) / b.cols
		n := store.Batch(rows, cmp.Or(b.most, rows), func(i int) int { return bytesOf(args[i*b.cols : (i+1)*b.cols]) })
		packed, err := b.pack(args[:n*b.cols])
		if err != nil {
			return err
		}
		if err := do(b.stmts[0], packed); err != nil {
			return err
		}
		args = args[n*b.cols:]
	}
	return nil
}

func bytesOf(args []any) (n int) {
	for _, arg := range args {
		switch v := arg.(type) {
		case []byte:
			n += len(v)
		case string:
			n += len(v)
		}
	}
	return n
}

// exec runs the statement for all rows of args.
func (b *bulk) exec(ctx context.Context, tx *sql.Tx, args []any) error {
	return b.each(args, func(stmt *sql.Stmt, args []any) error {
		_, err := tx.StmtContext(ctx, stmt).ExecContext(ctx, args...)
		return err
	})
}

// The parameters of each row in the statements below.
var (
	lookupColumns  = columns("i topic:t id:t uid:t")
	messageColumns = columns("seq topic:t id:t uid:t biz_key:t endpoint:t delay ttl created due expires status " +
		"attempts snoozes expired_leases token version cancel next_at reason:t ended_at done_at:n updated confirmed")
	payloadColumns  = columns("seq body:b spec:b dialect:b")
	progressColumns = columns("seq status attempts snoozes expired_leases token version next_at reason:t ended_at done_at:n updated")
	flowColumns     = columns("message fact:t at from_state:n to_state attempt actor:t host:t reason:t log:b")
	tallyColumns    = columns("seq counted fired")
	keyColumns      = columns("seq name:t")
)

// statements are the prepared statements of every commit, and the texts of others.
type statements struct {
	*words
	lookup, add, addPayload, put, putPayload, progress, flow, tally, tallyKey bulk
}

// prepare prepares the statements.
func prepare(ctx context.Context, p *pools) (*statements, error) {
	st, w := statements{words: p.words}, p.words
	for _, s := range []struct {
		into  *bulk
		shape shape
	}{
		{&st.lookup, w.about(sqlLookup, lookupColumns)},
		{&st.add, w.adding("message", messageColumns, false)},
		{&st.addPayload, w.adding("payload", payloadColumns, false)},
		{&st.put, w.adding("message", messageColumns, true)},
		{&st.putPayload, w.adding("payload", payloadColumns, true)},
		// A job may have ended before another node wrote the registration that followed.
		{&st.progress, w.updating(assignAll(names(progressColumns)[1:]...),
			"message.version < v.version AND (v.done_at IS NOT NULL OR message.done_at IS NULL AND message.confirmed < 2)",
			progressColumns)},
		// Another node may have written an outcome from the store, or the reply to a commit was lost.
		{&st.flow, w.keeping("flow", flowColumns)},
		// Nodes may write counts in another order than the store made them.
		{&st.tally, w.raising("tally", tallyColumns)},
		{&st.tallyKey, w.keeping("tally_key", keyColumns)},
	} {
		var err error
		if *s.into, err = prepareBulk(ctx, p.write, s.shape); err != nil {
			return nil, err
		}
	}
	return &st, nil
}

// assignAll sets columns of message to those of v.
func assignAll(columns ...string) []string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = c + " = v." + c
	}
	return list
}

// Rare statements, which are not prepared; each ? is a parameter.
var (
	// A job that was replaced is cancelled; a dead letter that gave way may age; what has
	// ended stays as it is. MySQL assigns one column after the other, so columns in
	// conditions are assigned last. Parameters: now, the reason, now, confirmed, now, seq.
	sqlReplace = fmt.Sprintf(`UPDATE message SET updated = CASE WHEN done_at IS NULL THEN ? ELSE updated END,
		reason = CASE WHEN status < %[1]d THEN ? ELSE reason END,
		ended_at = CASE WHEN status < %[1]d THEN ? ELSE ended_at END,
		status = CASE WHEN status < %[1]d THEN %[2]d ELSE status END,
		confirmed = ?, done_at = coalesce(done_at, ?)
		WHERE seq = ? AND confirmed < 2`, job.Delivered, job.Cancelled)
)

const (
	sqlAged = `SELECT seq FROM message WHERE done_at < ? ORDER BY done_at, seq LIMIT ?`

	sqlNextSeq = `UPDATE writer SET next_seq = ?`

	// What stored.scan reads.
	sqlStored = `SELECT m.seq, topic, id, uid, created, due, expires, status, attempts, snoozes, expired_leases, token,
		version, cancel, next_at, reason, ended_at, updated, body, spec
		FROM message m LEFT JOIN payload p ON p.seq = m.seq `
	// What messages take; a list of them follows.
	sqlSizes = `SELECT seq, coalesce(length(body), 0) + length(spec) FROM payload WHERE seq`
)

// sqlDrop deletes messages with their payloads, flow and counts.
func sqlDrop(seqs []int64) []string {
	list := in(seqs)
	return []string{
		"DELETE FROM flow WHERE message" + list, "DELETE FROM payload WHERE seq" + list,
		"DELETE FROM tally WHERE seq" + list, "DELETE FROM tally_key WHERE seq" + list, "DELETE FROM message WHERE seq" + list,
	}
}

// sqlLogs reads the attempt logs of messages.
func sqlLogs(seqs []int64) string {
	return "SELECT message, log FROM flow WHERE log IS NOT NULL AND message" + in(seqs) + " ORDER BY message, seq"
}
