package inbox

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
)

// Bounds of what a round reads.
const (
	maxRows  = 500
	maxBytes = 8 << 20
)

// dialect is in what the statements of servers differ.
type dialect struct {
	name string
	key  string                     // the column, as text
	time func(column string) string // in milliseconds
	arg  string                     // the first parameter of a statement
	role func(name string) string   // as statements write it
	// change is the statement that sets columns of the rows with some ids on a condition, or deletes them if there is nothing to set.
	change func(ids []int64, condition, set string) string
}

var (
	postgres = &dialect{
		name: "postgres", key: `key::text`, arg: "$1", role: func(name string) string { return quoted(name, `"`) },
		time: func(column string) string {
			return `CASE WHEN isfinite(` + column + `) THEN floor(extract(epoch FROM ` + column + `) * 1000)::bigint ELSE 0 END`
		},
		change: func(ids []int64, condition, set string) string {
			rows := ` WHERE ` + condition + ` AND id IN (` + list(ids, ", ") + `)`
			if set == "" {
				return `DELETE FROM duehook_inbox` + rows
			}
			return `UPDATE duehook_inbox SET ` + set + rows
		},
	}
	mySQL = &dialect{
		name: "mysql", key: "`key`", arg: "?", role: account,
		time: func(column string) string { return `CAST(UNIX_TIMESTAMP(` + column + `) * 1000 AS SIGNED)` },
		// For a list of ids MariaDB may scan the whole table, and wait for rows that an application has not committed. This join
		// looks up one row after another by its id.
		change: func(ids []int64, condition, set string) string {
			rows := `(SELECT NULL AS id UNION ALL SELECT ` + list(ids, " UNION ALL SELECT ") + `) AS named STRAIGHT_JOIN duehook_inbox AS inbox ON inbox.id = named.id`
			if set == "" {
				return `DELETE inbox FROM ` + rows + ` WHERE ` + condition
			}
			return `UPDATE ` + rows + ` SET ` + set + ` WHERE ` + condition
		},
	}
)

// table is the table of one database. Each call waits for a bounded time.
type table struct {
	*dialect
	db         *sql.DB
	direct     *pgx.ConnConfig // for notifications; nil: the server has none
	maxRequest int64
}

// row is a row that is read.
type row struct {
	id      int64
	key     string
	request []byte // nil: it is larger than the bound
	size    int64
	created job.Instant
	age     time.Duration
	waited  string // what it waits for; empty: it is fresh
}

// The conditions of rows that are fresh, that wait for a name of holds, and that are no jobs.
const (
	isFresh   = `failed_at IS NULL AND waits_for IS NULL`
	isWaiting = `failed_at IS NULL AND waits_for IS NOT NULL`
	isFailed  = `failed_at IS NOT NULL AND waits_for IS NULL` // the second part always holds: MySQL needs it to find them by the index
)

// read returns the first rows that wait for a name, or are fresh if it is empty, in the order of their ids. A row that
// commits later may have a smaller id, so it always starts at the first.
func (t *table) read(ctx context.Context, waitsFor string) (rows []row, err error) {
	condition, args := isFresh, []any(nil)
	if waitsFor != "" {
		condition, args = `failed_at IS NULL AND waits_for = `+t.arg, []any{waitsFor}
	}
	size := fmt.Sprintf("LEAST(size, %d)", t.maxRequest)
	statement := `SELECT id, row_key, CASE WHEN size <= ` + strconv.FormatInt(t.maxRequest, 10) + ` THEN request END, size, made, ` + t.time("CURRENT_TIMESTAMP(3)") + `
FROM (SELECT found.*, SUM(` + size + `) OVER (ORDER BY id) AS total
	FROM (SELECT id, ` + t.key + ` AS row_key, request, OCTET_LENGTH(request) AS size, ` + t.time("created_at") + ` AS made
		FROM duehook_inbox WHERE ` + condition + ` ORDER BY id LIMIT ` + strconv.Itoa(maxRows) + `) found) summed
WHERE total - ` + size + ` < ` + strconv.Itoa(maxBytes) + ` ORDER BY id`
	err = t.query(ctx, statement, args, func(found *sql.Rows) error {
		r := row{waited: waitsFor}
		var now job.Instant
		err := found.Scan(&r.id, &r.key, &r.request, &r.size, &r.created, &now)
		r.age = max(0, now.Sub(r.created))
		rows = append(rows, r)
		return err
	})
	return rows, err
}

// delete deletes rows whose jobs are registered.
func (t *table) delete(ctx context.Context, ids []int64) error {
	_, err := t.exec(ctx, t.change(ids, `TRUE`, ""))
	return err
}

// fail sets a row aside until somebody retries or drops it.
func (t *table) fail(ctx context.Context, id int64, text string) error {
	_, err := t.exec(ctx, `UPDATE duehook_inbox SET error = `+t.arg+`, failed_at = CURRENT_TIMESTAMP(3), waits_for = NULL WHERE id = `+strconv.FormatInt(id, 10), text)
	return err
}

// hold sets rows aside that wait for a name.
func (t *table) hold(ctx context.Context, ids []int64, waitsFor string) error {
	_, err := t.exec(ctx, t.change(ids, `failed_at IS NULL`, `waits_for = `+t.arg), waitsFor)
	return err
}

// held are what rows wait for, at most maxHolds of it.
func (t *table) held(ctx context.Context) (names []string, err error) {
	err = t.query(ctx, `SELECT DISTINCT waits_for FROM duehook_inbox WHERE `+isWaiting+` LIMIT `+strconv.Itoa(maxHolds), nil, func(found *sql.Rows) error {
		var name string
		err := found.Scan(&name)
		names = append(names, name)
		return err
	})
	return names, err
}

// query calls each with every row of an answer.
func (t *table) query(ctx context.Context, statement string, args []any, each func(*sql.Rows) error) error {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	rows, err := t.db.QueryContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err has what matters
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// exec returns how many rows changed.
func (t *table) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	result, err := t.db.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// list writes ids, with something between them.
func list(ids []int64, between string) string {
	var b strings.Builder
	for i, id := range ids {
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString(strconv.FormatInt(id, 10))
	}
	return b.String()
}

// maxCount bounds what count counts.
const maxCount = 10_000

// count counts rows on a condition.
func (t *table) count(ctx context.Context, condition string) (n int64, err error) {
	err = t.query(ctx, `SELECT COUNT(*) FROM (SELECT id FROM duehook_inbox WHERE `+condition+` LIMIT `+strconv.Itoa(maxCount)+`) counted`, nil,
		func(found *sql.Rows) error { return found.Scan(&n) })
	return n, err
}
