package journal

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// What the servers have in common, which several processes can write to.

// errJournalInUse is ErrInUse on a server.
var errJournalInUse = fmt.Errorf("%w: stop that one, or give this one a database of its own (--ledger-url)", ErrInUse)

// ErrOvertaken is what a process gets that was thought dead.
var ErrOvertaken = errors.New("another process has taken the journal over")

const (
	// idleLimit is for how long a connection is kept that nobody uses: less than
	// servers, and what stands before them, allow.
	idleLimit = 5 * time.Minute
	// readers is the number of connections for reading; one of them holds a lock.
	readers = 5
	// commitLimit is how long one transaction may take before the server is
	// taken for dead.
	commitLimit = 10 * time.Second
)

// servers is a pair of pools.
func servers(write, read *sql.DB) *pools {
	for db, conns := range map[*sql.DB]int{write: 1, read: readers} {
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(conns)
		db.SetConnMaxIdleTime(idleLimit)
	}
	return &pools{write: write, read: read}
}

// ownership fences writers of a journal off that has changed hands: nodes that
// share a store own it together, under the empty name.
type ownership struct{ name string }

func (o *ownership) set(ctx context.Context, write *sql.DB, d dialect, shared bool) error {
	if !shared {
		o.name = rand.Text()
	}
	_, err := write.ExecContext(ctx, d.bind("UPDATE writer SET owner = ?"), o.name)
	return err
}

// turn locks the row of the writer until the commit. The columns begin with
// next_seq and owner; another is not looked at.
func (o *ownership) turn(ctx context.Context, tx *sql.Tx, columns string) (nextSeq int64, err error) {
	var owner string
	into := []any{&nextSeq, &owner}
	if columns != "" {
		into = append(into, new(any))
		columns = ", " + columns
	}
	err = tx.QueryRowContext(ctx, "SELECT next_seq, owner"+columns+" FROM writer FOR UPDATE").Scan(into...)
	switch {
	case err != nil:
		return 0, fmt.Errorf("wait for the turn to write: %w", err)
	case owner != o.name:
		return 0, ErrOvertaken
	}
	return nextSeq, nil
}

// probeWriter writes the row that the transaction has locked.
func probeWriter(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "UPDATE writer SET next_seq = next_seq + 1"); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// The document that nodes which share a journal write every few seconds.
const (
	NodesKind = "restore"
	NodesName = "sweep"
)
