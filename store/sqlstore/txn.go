package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// txn is a transaction. Its calls send batches of statements, one round trip each.
type txn struct {
	s     *Store
	conn  *pgxpool.Conn
	first *pgx.Batch // BEGIN, until it is sent
	began time.Time  // by this process's clock, before now
	ended bool
	// now is the database's time when the transaction began. It is known after the first call of send.
	now    job.Instant
	rows   rows
	deltas deltas
	total  total
	folds  reach
	purges [2]reach
	// followers are jobs to insert if their keys are free.
	followers []*record
	copied    []*record              // new rows to copy
	calls     bool                   // a take may find more after it
	pulls     map[string]job.Instant // when consumers may, by topic
}

// change runs a transaction: the call reads and changes rows and deltas. Then they are written, with COMMIT. If the call returns an
// error, nothing is written. After store.ErrUnavailable, the outcome is unknown. The call may run several times. Nothing is written for a
// caller that has given up: it may have repeated the call, and have changed what came of that.
func (s *Store) change(ctx context.Context, call func(ctx context.Context, t *txn) error) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	lasting, cancel, err := s.bounded(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	return s.again(lasting, func() error {
		return s.run(lasting, func(lasting context.Context, t *txn) error {
			if err := call(lasting, t); err != nil {
				return err
			}
			return gone(ctx)
		})
	})
}

func (s *Store) run(ctx context.Context, call func(ctx context.Context, t *txn) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return s.explain(err)
	}
	defer conn.Release() // closes a connection whose transaction is open
	t := s.begin(ctx, conn)
	if err := call(ctx, t); err != nil {
		t.rollback(ctx)
		return err
	}
	return t.commit(ctx)
}

// begin begins a transaction, with its first call of send.
func (s *Store) begin(ctx context.Context, conn *pgxpool.Conn) *txn {
	t := &txn{s: s, conn: conn, first: &pgx.Batch{}, began: job.SystemClock().Now()}
	t.first.Queue("BEGIN ISOLATION LEVEL READ COMMITTED") // a database may default to another level; statements behind a lock need a snapshot of their own
	queueTimeouts(ctx, t.first, &t.now)
	return t
}

// send sends statements. The first call also begins the transaction.
func (t *txn) send(ctx context.Context, b *pgx.Batch) error {
	if t.first != nil {
		t.first.QueuedQueries = append(t.first.QueuedQueries, b.QueuedQueries...)
		b, t.first = t.first, nil
	}
	return t.s.explain(t.conn.SendBatch(ctx, b).Close())
}

// commit writes the changes and the deltas, and commits, in one round trip.
func (t *txn) commit(ctx context.Context) error {
	if t.first != nil {
		return nil // nothing was sent
	}
	if err := t.prepare(ctx); err != nil {
		t.rollback(ctx)
		return err
	}
	b := &pgx.Batch{}
	t.write(b)
	t.deltas.write(t, b)
	t.queueCommit(b)
	err := t.copyFree(ctx)
	if err == nil {
		err = t.send(ctx, b)
	}
	if err != nil {
		t.rollback(ctx)
		return err
	}
	t.wake()
	return nil
}

// queueCommit ends a batch with COMMIT.
func (t *txn) queueCommit(b *pgx.Batch) {
	t.total.write(t.s, b, t.now)
	b.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		t.ended = true
		if tag.String() != "COMMIT" {
			return errors.New("the transaction was rolled back")
		}
		now := job.SystemClock().Now()
		t.s.folds.saw(t.folds, now)
		for i := range t.purges {
			t.s.purges[i].saw(t.purges[i], now)
		}
		return nil
	})
}

// rollback leaves the connection usable, if it is.
func (t *txn) rollback(ctx context.Context) {
	if t.first == nil && !t.ended && !t.conn.Conn().IsClosed() {
		_, _ = t.conn.Exec(ctx, "ROLLBACK") // a connection in a transaction is closed when it is released
	}
}

// ask reads in one round trip, by the statements that queue adds, in one transaction. It returns the database's time.
func (s *Store) ask(ctx context.Context, queue func(b *pgx.Batch)) (now job.Instant, err error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	return s.askAnyway(ctx, queue)
}

// askAnyway is ask before the tables are ready.
func (s *Store) askAnyway(ctx context.Context, queue func(b *pgx.Batch)) (now job.Instant, err error) {
	ctx, cancel, err := s.bounded(ctx)
	if err != nil {
		return 0, err
	}
	defer cancel()
	err = s.again(ctx, func() error {
		b := &pgx.Batch{}
		queueTimeouts(ctx, b, &now)
		if queue != nil {
			queue(b)
		}
		return s.explain(s.pool.SendBatch(ctx, b).Close())
	})
	return now, err
}

// collect calls visit for each row of a statement's answer.
func collect(q *pgx.QueuedQuery, visit func(row pgx.Rows) error) {
	q.Query(func(rows pgx.Rows) error {
		for rows.Next() {
			if err := visit(rows); err != nil {
				return fmt.Errorf("%w: a row: %w", store.ErrUnreadable, err)
			}
		}
		return rows.Err()
	})
}
