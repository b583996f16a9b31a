package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/duehook/duehook/job"
)

// The common part of the SQL servers, to which several processes can write.

const (
	// idleLimit is how long an unused connection is kept: less than servers and their
	// proxies allow.
	idleLimit = 5 * time.Minute
	// readers is the number of connections for reading.
	readers = 4
	// commitLimit is how long a transaction may take before the server counts as dead,
	// beside the time for its bodies and rows at slowest. Clients wait as long for a
	// refusal.
	commitLimit = 4 * time.Second
	slowest     = 1 << 20 // bytes/s
	slowestRows = 1000    // per second
	// migrationPause is how long a process waits before it asks again whether another one
	// has migrated the tables.
	migrationPause = 100 * time.Millisecond
)

// limitOf is how long a transaction may take.
func limitOf(rows, bytes int64) time.Duration {
	return commitLimit + time.Duration(rows)*time.Second/slowestRows + time.Duration(bytes)*time.Second/slowest
}

// servers is a pair of pools.
func servers(write, read *sql.DB, s *silence) *pools {
	for db, conns := range map[*sql.DB]int{write: 1, read: readers} {
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(conns)
		db.SetConnMaxIdleTime(idleLimit)
	}
	return &pools{write: write, read: read, silence: s}
}

// queue orders the transactions of the nodes.
type queue struct {
	// relaxed is an expression that makes the commit of its transaction return before it
	// is durable; empty: there is none.
	relaxed string
}

// begin locks the row of the writer until the commit.
func (q *queue) begin(ctx context.Context, tx *sql.Tx, durable bool) (nextSeq int64, err error) {
	columns := "next_seq, 0"
	if !durable && q.relaxed != "" {
		columns = "next_seq, " + q.relaxed
	}
	if err := tx.QueryRowContext(ctx, "SELECT "+columns+" FROM writer FOR UPDATE").Scan(&nextSeq, new(any)); err != nil {
		return 0, fmt.Errorf("lock the ledger for writing: %w", err)
	}
	return nextSeq, nil
}

// exclusively runs up while this process has a lock, which tries takes if it is free.
func exclusively(ctx context.Context, read *sql.DB, tries, unlock string, up func() error) error {
	conn, err := read.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it only goes back to the pool
	for got := false; !got; {
		if err := conn.QueryRowContext(ctx, "SELECT "+tries).Scan(&got); err != nil {
			return err
		}
		if !got { // another process may need long for a migration
			if err := job.Sleep(ctx, job.SystemClock(), migrationPause); err != nil {
				return err
			}
		}
	}
	err = up()
	_, unlockErr := conn.ExecContext(context.WithoutCancel(ctx), unlock)
	return errors.Join(err, unlockErr)
}
