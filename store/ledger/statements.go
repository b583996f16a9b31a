package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/duehook/duehook/job"
)

// chunks are the numbers of rows that a statement is prepared for. More rows
// at a time are slower again: the driver searches all parameters for each.
var chunks = [...]int{16, 4, 1}

// bulk is a statement about many rows.
type bulk struct {
	cols  int
	stmts [len(chunks)]*sql.Stmt
}

// prepareBulk prepares text, in which %s stands for the rows, for rows of cols
// parameters.
func prepareBulk(ctx context.Context, db *sql.DB, cols int, text string) (bulk, error) {
	b := bulk{cols: cols}
	for i, n := range chunks {
		stmt, err := db.PrepareContext(ctx, fmt.Sprintf(text, placeholders(n, cols)))
		if err != nil {
			return b, fmt.Errorf("prepare %q: %w", text, err)
		}
		b.stmts[i] = stmt
	}
	return b, nil
}

// each calls do with every statement to be run for all rows of args, which
// stand one after the other.
func (b *bulk) each(args []any, do func(stmt *sql.Stmt, args []any) error) error {
	for i, n := range chunks {
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

// exec runs the statement for all rows of args.
func (b *bulk) exec(ctx context.Context, tx *sql.Tx, args []any) error {
	return b.each(args, func(stmt *sql.Stmt, args []any) error {
		_, err := tx.StmtContext(ctx, stmt).ExecContext(ctx, args...)
		return err
	})
}

func (b *bulk) close() error {
	var errs []error
	for _, stmt := range b.stmts {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	return errors.Join(errs...)
}

// messageColumns in the order in which put takes them, seq first.
var messageColumns = []string{
	"seq", "topic", "id", "uid", "biz_key", "endpoint", "delay", "ttl", "created", "due", "expires", "status",
	"attempts", "snoozes", "lapses", "token", "version", "cancel", "next_at", "reason", "ended_at", "done_at", "updated",
}

// statements are those that every commit uses, prepared. Their parameters:
type statements struct {
	lookup   bulk // index, topic, id
	put      bulk // messageColumns
	payload  bulk // seq, body, spec
	confirm  bulk // seq, created, due, expires, next_at, token, version, updated
	progress bulk // seq, status, attempts, snoozes, lapses, token, version, next_at, reason, ended_at, done_at, updated
	flow     bulk // message, at, from_state, to_state, attempt, actor, host, reason, log
}

func prepare(ctx context.Context, db *sql.DB) (*statements, error) {
	var st statements
	for _, s := range []struct {
		into *bulk
		cols int
		text string
	}{
		{&st.lookup, 3, `SELECT v.column1, (SELECT max(seq) FROM message WHERE topic = v.column2 AND id = v.column3)
			FROM (VALUES %s) AS v`},
		{&st.put, len(messageColumns), upsert("message", messageColumns)},
		{&st.payload, 3, upsert("payload", []string{"seq", "body", "spec"})},
		{&st.confirm, 8, `UPDATE message SET created = v.column2, due = v.column3, expires = v.column4,
			next_at = v.column5, token = v.column6, version = v.column7, updated = v.column8
			FROM (VALUES %s) AS v WHERE message.seq = v.column1`},
		{&st.progress, 12, `UPDATE message SET status = v.column2, attempts = v.column3, snoozes = v.column4,
			lapses = v.column5, token = v.column6, version = ` + phraseGreatest + `(version, v.column7),
			next_at = v.column8, reason = v.column9, ended_at = v.column10, done_at = v.column11, updated = v.column12
			FROM (VALUES %s) AS v WHERE message.seq = v.column1`},
		{&st.flow, 9, `INSERT INTO flow (message, at, from_state, to_state, attempt, actor, host, reason, log)
			VALUES %s`},
	} {
		var err error
		if *s.into, err = prepareBulk(ctx, db, s.cols, s.text); err != nil {
			return nil, errors.Join(err, st.close())
		}
	}
	return &st, nil
}

// upsert inserts rows, or overwrites those whose seq is taken.
func upsert(table string, columns []string) string {
	assign := make([]string, len(columns)-1)
	for i, c := range columns[1:] {
		assign[i] = c + " = excluded." + c
	}
	return "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES %s " +
		phraseUpsert + strings.Join(assign, ", ")
}

func (st *statements) close() error {
	var errs []error
	for _, b := range []*bulk{&st.lookup, &st.put, &st.payload, &st.confirm, &st.progress, &st.flow} {
		errs = append(errs, b.close())
	}
	return errors.Join(errs...)
}

// Statements that are rare enough to be run as they are.
var (
	// A job that was replaced is cancelled; a dead letter that gave way may age.
	// Parameters: now, now, the reason, now, seq.
	sqlReplace = fmt.Sprintf(`UPDATE message SET done_at = ?, updated = ?,
		reason = CASE WHEN status < %[1]d THEN ? ELSE reason END,
		ended_at = CASE WHEN status < %[1]d THEN ? ELSE ended_at END,
		status = CASE WHEN status < %[1]d THEN %[2]d ELSE status END
		WHERE seq = ? AND done_at IS NULL`, job.Delivered, job.Cancelled)
	// sqlUnsettled counts the message if no outcome of the claim with this token
	// is written. Parameters: seq, token, token.
	sqlUnsettled = fmt.Sprintf(`SELECT count(*) FROM message
		WHERE seq = ? AND (token < ? OR token = ? AND status = %d)`, job.Running)
)

const (
	sqlAged = `SELECT seq FROM message WHERE done_at < ? ORDER BY done_at, seq LIMIT ?`

	sqlDropFlow    = `DELETE FROM flow WHERE message ` + phraseInList
	sqlDropPayload = `DELETE FROM payload WHERE seq ` + phraseInList
	sqlDropMessage = `DELETE FROM message WHERE seq ` + phraseInList

	sqlLastSeq = `SELECT coalesce(max(seq), 0) FROM message`

	// What stored.scan reads.
	sqlStored = `SELECT m.seq, topic, id, uid, created, due, expires, status, attempts, snoozes, lapses, token,
		version, cancel, next_at, reason, ended_at, body, spec
		FROM message m JOIN payload p ON p.seq = m.seq `
	// Unfinished jobs and dead letters, in the order of registration.
	sqlOpen = sqlStored + `WHERE done_at IS NULL ORDER BY m.seq`
	// Those that ended since an instant, the last first.
	sqlEnded = sqlStored + `WHERE done_at >= ? ORDER BY done_at DESC, m.seq DESC`

	sqlLogs = `SELECT message, log FROM flow WHERE log IS NOT NULL AND message ` + phraseInList + ` ORDER BY message, seq`

	sqlFlow = `SELECT m.uid, f.at, f.from_state, f.to_state, f.attempt, f.actor, f.host, f.reason, f.log
		FROM message m JOIN flow f ON f.message = m.seq
		WHERE m.topic = ? AND m.id = ? ORDER BY m.seq, f.at, f.seq`
)
