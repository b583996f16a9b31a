package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

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
func (b *bulk) room(rows int) []any { return make([]any, 0, rows*len(b.cols)) }

// each calls do for every statement that all rows of args need. args has the rows one after
// the other.
func (b *bulk) each(args []any, do func(stmt *sql.Stmt, args []any) error) error {
	cols := len(b.cols)
	for len(args) > 0 {
		rows, stmt := len(args)/cols, b.stmts[0]
		if b.arrays {
			// PostgreSQL ends a session that does not send its next statement within 5 s (see postgresLimits),
			// and a slow client needs that for a few large bodies.
			rows = store.Batch(rows, rows, func(i int) int { return bytesOf(args[i*cols : (i+1)*cols]) })
		} else {
			n := slices.IndexFunc(b.sizes, func(size int) bool { return size <= rows })
			rows, stmt = b.sizes[n], b.stmts[n]
		}
		part := args[:rows*cols]
		if args = args[rows*cols:]; b.arrays {
			part = arraysOf(b.cols, part)
		}
		if err := do(stmt, part); err != nil {
			return err
		}
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
		"attempts snoozes expired_leases token version cancel next_at reason:t ended_at done_at:n updated place replaced counted:g")
	payloadColumns = columns("seq body:b spec:b dialect:b")
	// What claims and outcomes change of a message.
	progressColumns = columns("status attempts snoozes expired_leases token version next_at reason ended_at done_at updated place replaced counted:g")
	flowColumns     = columns("message fact:t at from_state:n to_state attempt actor:t host:t reason:t log:b")
	keyColumns      = columns("seq name:t")
)

// statements are the prepared statements of every commit, and the texts of others.
type statements struct {
	*words
	lookup, put, payload, progress, flow, countKey bulk
}

// prepare prepares the statements.
func prepare(ctx context.Context, p *pools) (*statements, error) {
	st, w := statements{words: p.words}, p.words
	for _, s := range []struct {
		into  *bulk
		shape shape
	}{
		{&st.lookup, w.lookup()},
		{&st.put, w.putting("message", messageColumns, messageColumns)},
		{&st.payload, w.putting("payload", payloadColumns, payloadColumns)},
		{&st.progress, w.putting("message", messageColumns, progressColumns)},
		// Another node may have written an outcome from the store, or the reply to a commit was lost.
		{&st.flow, w.keeping("flow", flowColumns)},
		{&st.countKey, w.keeping("count_key", keyColumns)},
	} {
		var err error
		if *s.into, err = prepareBulk(ctx, p.write, s.shape); err != nil {
			return nil, err
		}
	}
	return &st, nil
}

// Rare statements, which are not prepared; each ? is a parameter.
var (
	// A job that was replaced is cancelled; a dead letter that gave way may age; what has
	// ended stays as it is. MySQL assigns one column after the other, so columns in
	// conditions are assigned last. Parameters: now, the reason, now, now, seq.
	sqlReplace = fmt.Sprintf(`UPDATE message SET updated = CASE WHEN done_at IS NULL THEN ? ELSE updated END,
		reason = CASE WHEN status < %[1]d THEN ? ELSE reason END,
		ended_at = CASE WHEN status < %[1]d THEN ? ELSE ended_at END,
		status = CASE WHEN status < %[1]d THEN %[2]d ELSE status END,
		replaced = 1, done_at = coalesce(done_at, ?)
		WHERE seq = ?`, job.Delivered, job.Cancelled)
)

const (
	sqlAged = `SELECT seq FROM message WHERE done_at < ? ORDER BY done_at, seq LIMIT ?`

	// A client may have been told of the ledger's change, so that stays, and the store gets it.
	sqlSurpass = `UPDATE message SET version = version + 1 WHERE seq = ? AND version = ?`

	sqlCounted = `UPDATE message SET counted = GREATEST(counted, ?) WHERE seq = ?`

	sqlNextSeq = `UPDATE writer SET next_seq = ?`

	// What stored.scan reads.
	sqlStored = `SELECT m.seq, topic, id, uid, created, due, expires, status, attempts, snoozes, expired_leases, token,
		version, cancel, next_at, reason, ended_at, updated, counted, body, spec
		FROM message m LEFT JOIN payload p ON p.seq = m.seq `
	// What messages take; a list of them follows.
	sqlSizes = `SELECT seq, coalesce(length(body), 0) + length(spec) FROM payload WHERE seq`
)

// sqlDrop deletes messages with their payloads, flow and counts.
func sqlDrop(seqs []int64) []string {
	list := in(seqs)
	return []string{
		"DELETE FROM flow WHERE message" + list, "DELETE FROM payload WHERE seq" + list,
		"DELETE FROM count_key WHERE seq" + list, "DELETE FROM message WHERE seq" + list,
	}
}

// sqlLogs reads the attempt logs of messages.
func sqlLogs(seqs []int64) string {
	return "SELECT message, log FROM flow WHERE log IS NOT NULL AND message" + in(seqs) + " ORDER BY message, seq"
}
