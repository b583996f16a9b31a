package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
)

// Status is an inbox as an operator sees it. Counts end at maxCount.
type Status struct {
	Name     string
	Database string // postgres or mysql
	Topics   job.TopicSet
	// Reading: this node reads the inbox.
	Reading bool
	// Fresh rows are to be read, Waiting ones wait for a topic or a job, Failed ones for an operator.
	Fresh, Waiting, Failed int64
	// Error is why the rows cannot be read; empty: they can.
	Error string
}

// Row is a row that is set aside.
type Row struct {
	ID        int64
	Key       string
	Request   string // its beginning
	CreatedAt job.Instant
	FailedAt  job.Instant // 0: it waits
	Error     string
	WaitsFor  string
}

const (
	// MaxIDs bounds the rows that one call names, and a page.
	MaxIDs = 1000
	// shownRequest is how much of a request is shown, in characters.
	shownRequest = 2000
	// changeAtOnce bounds the rows that one statement changes.
	changeAtOnce = 1000
)

// Statuses are those of all inboxes, by name. They ask each database.
func (m *Manager) Statuses(ctx context.Context) []Status {
	all := make([]Status, len(m.readers))
	var asked sync.WaitGroup
	for i, name := range slices.Sorted(maps.Keys(m.readers)) {
		asked.Go(func() { all[i] = m.readers[name].status(ctx) })
	}
	asked.Wait()
	return all
}

// stuckAfter is how long an inbox cannot be read until that is a trouble: databases restart.
const stuckAfter = 30 * time.Second

// Troubles are inboxes with failed rows, and those that cannot be read, and whether this node knows all: the one that reads does.
func (m *Manager) Troubles() (all []string, known bool) {
	known = true
	for _, name := range slices.Sorted(maps.Keys(m.readers)) {
		r := m.readers[name]
		failed := r.failed.Load()
		known = known && failed != unknown
		if failed > 0 {
			all = append(all, name+": rows have failed")
		}
		if r.outage.Lasts(m.o.stuck) {
			all = append(all, name+": it cannot be read")
		}
	}
	return all, known
}

// drainPause is between looks at rows that are not yet jobs.
const drainPause = 5 * time.Millisecond

// Drain waits until the rows that are committed are jobs, or set aside.
func (m *Manager) Drain(ctx context.Context) error {
	for _, r := range m.readers {
		if err := r.drain(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) drain(ctx context.Context) error {
	for {
		r.wake.Set()
		n, err := r.t.count(ctx, isFresh)
		if err != nil || n == 0 {
			return r.unavailable(err)
		}
		if err := job.Sleep(ctx, job.SystemClock(), drainPause); err != nil {
			return err
		}
	}
}

func (r *reader) status(ctx context.Context) Status {
	s := Status{Name: r.in.Name, Database: r.t.name, Topics: r.in.Topics, Reading: r.leading.Load()}
	var err error
	for _, part := range []struct {
		to        *int64
		condition string
	}{{&s.Fresh, isFresh}, {&s.Waiting, isWaiting}, {&s.Failed, isFailed}} {
		if err == nil {
			*part.to, err = r.t.count(ctx, part.condition)
		}
	}
	if err == nil && !s.Reading { // the node that reads knows
		err = r.t.try(ctx)
	}
	r.mu.Lock()
	away := r.away
	r.mu.Unlock()
	if away != nil && !errors.Is(away, errLost) {
		err = away
	}
	if err != nil {
		s.Error = access.SightOf(ctx).Text(err.Error())
	}
	return s
}

// SetAside returns rows of an inbox that are set aside, by id, after an id: failed ones, or those that wait.
func (m *Manager) SetAside(ctx context.Context, inbox string, thatWait bool, after int64, limit int) ([]Row, error) {
	r, err := m.reader(inbox)
	if err != nil {
		return nil, err
	}
	condition := isFailed
	if thatWait {
		condition = isWaiting
	}
	rows, err := r.t.list(ctx, condition, after, limit)
	return rows, r.unavailable(err)
}

// Retry has failed rows read again, of ids or all of them. It returns how many.
func (m *Manager) Retry(ctx context.Context, inbox string, ids []int64) (int64, error) {
	return m.change(ctx, inbox, ids, `error = NULL, failed_at = NULL`)
}

// Drop deletes failed rows, of ids or all of them. It returns how many.
func (m *Manager) Drop(ctx context.Context, inbox string, ids []int64) (int64, error) {
	return m.change(ctx, inbox, ids, "")
}

func (m *Manager) change(ctx context.Context, inbox string, ids []int64, set string) (changed int64, err error) {
	r, err := m.reader(inbox)
	if err != nil {
		return 0, err
	}
	all := len(ids) == 0
	for after := int64(0); ; {
		if all {
			if ids, err = r.t.next(ctx, after); err != nil || len(ids) == 0 {
				break
			}
			after = ids[len(ids)-1]
		}
		n, failing := r.t.exec(ctx, r.t.change(ids, isFailed, set))
		changed += n
		if err = failing; err != nil || !all {
			break
		}
	}
	r.wake.Set()
	return changed, r.unavailable(err)
}

func (m *Manager) reader(name string) (*reader, error) {
	if m == nil || m.readers[name] == nil {
		return nil, ErrNotFound
	}
	return m.readers[name], nil
}

func (r *reader) unavailable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, r.in.Name, err)
}

// Examine connects to a database, and returns what the table or the rights to it lack and what to do, or nil. It changes nothing. The
// error says why it does not answer.
func Examine(ctx context.Context, url string) (missing, err error) {
	t, err := open(url, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = t.db.Close() }() // it has no state
	role := ""
	if err := t.query(ctx, "SELECT CURRENT_USER", nil, func(found *sql.Rows) error { return found.Scan(&role) }); err != nil {
		return nil, err
	}
	if _, err := t.read(ctx, ""); err != nil {
		return t.advise(err, role), nil
	}
	if err := t.try(ctx); err != nil {
		return t.advise(err, role), nil
	}
	return nil, nil
}

// try writes to no row as the reader writes to rows, and returns why that is refused.
func (t *table) try(ctx context.Context) error {
	const none = "-1" // of a row
	for _, statement := range []string{
		`UPDATE duehook_inbox SET error = NULL, failed_at = NULL, waits_for = NULL WHERE id = ` + none, `DELETE FROM duehook_inbox WHERE id = ` + none,
	} {
		if _, err := t.exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// advise adds what to do to an error about the table.
func (t *table) advise(err error, role string) error {
	code := ""
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		code = refused.Code
	} else if refused, ok := errors.AsType[*mysql.MySQLError](err); ok {
		code = strconv.Itoa(int(refused.Number))
	}
	switch code {
	case "42P01", "1146":
		return fmt.Errorf("%w: apply what duehook inbox sql --dialect %s prints", err, t.name)
	case "42501", "1142", "1143":
		return fmt.Errorf("%w: let the owner of the table run %s%s", err, readerGrant, t.role(role))
	}
	return fmt.Errorf("%w: duehook inbox sql --dialect %s prints the table and the rights", err, t.name)
}

// list returns rows on a condition with ids after one.
func (t *table) list(ctx context.Context, condition string, after int64, limit int) (rows []Row, err error) {
	statement := `SELECT id, ` + t.key + `, LEFT(request, ` + strconv.Itoa(shownRequest) + `), ` + t.time("created_at") + `,
	COALESCE(` + t.time("failed_at") + `, 0), COALESCE(error, ''), COALESCE(waits_for, '')
FROM duehook_inbox WHERE ` + condition + ` AND id > ` + strconv.FormatInt(after, 10) + ` ORDER BY id LIMIT ` + strconv.Itoa(limit)
	err = t.query(ctx, statement, nil, func(found *sql.Rows) error {
		var r Row
		err := found.Scan(&r.ID, &r.Key, &r.Request, &r.CreatedAt, &r.FailedAt, &r.Error, &r.WaitsFor)
		rows = append(rows, r)
		return err
	})
	return rows, err
}

// next are the ids of failed rows after one.
func (t *table) next(ctx context.Context, after int64) (ids []int64, err error) {
	err = t.query(ctx, `SELECT id FROM duehook_inbox WHERE `+isFailed+` AND id > `+strconv.FormatInt(after, 10)+` ORDER BY id LIMIT `+strconv.Itoa(changeAtOnce), nil, func(found *sql.Rows) error {
		var id int64
		err := found.Scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}
