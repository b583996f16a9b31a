package journal

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/duehook/duehook/job"
)

// The common part of the SQL servers, to which several processes can write.

// errJournalInUse is ErrInUse on a server.
var errJournalInUse = fmt.Errorf("%w: stop that one, or give this one a database of its own (--ledger-url)", ErrInUse)

// ErrOvertaken is the error of a process that another one has replaced.
var ErrOvertaken = errors.New("another process has taken the journal over")

const (
	// idleLimit is how long an unused connection is kept: less than servers and their
	// proxies allow.
	idleLimit = 5 * time.Minute
	// readers is the number of connections for reading; one of them holds a lock.
	readers = 5
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

// ownership keeps a process from writing to a journal that another one has taken over.
// Nodes that share a store own it together, under the empty name.
type ownership struct {
	name string
	// relaxed is an expression that makes the commit of its transaction return before it
	// is durable; empty: there is none.
	relaxed string
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

func (o *ownership) set(ctx context.Context, write *sql.DB, w *words, shared bool) error {
	if !shared {
		o.name = rand.Text()
	}
	_, err := write.ExecContext(ctx, w.bind("UPDATE writer SET owner = ?"), o.name)
	return err
}

// begin locks the row of the writer until the commit.
func (o *ownership) begin(ctx context.Context, tx *sql.Tx, durable bool) (nextSeq int64, err error) {
	columns := "next_seq, owner, 0"
	if !durable && o.relaxed != "" {
		columns = "next_seq, owner, " + o.relaxed
	}
	var owner string
	err = tx.QueryRowContext(ctx, "SELECT "+columns+" FROM writer FOR UPDATE").Scan(&nextSeq, &owner, new(any))
	switch {
	case err != nil:
		return 0, fmt.Errorf("lock the journal for writing: %w", err)
	case owner != o.name:
		return 0, ErrOvertaken
	}
	return nextSeq, nil
}

// setDurable does nothing: begin does, or the server has one setting for all its
// databases.
func (o *ownership) setDurable(context.Context, execer, bool) error { return nil }
