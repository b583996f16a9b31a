package journal

import (
	"context"
	"database/sql"

	"github.com/duehook/duehook/job"
)

// Access for tests of this package and of package ledger.

// Writer is the connection of the committer.
func (j *Journal) Writer() *sql.DB { return j.pools.write }

// WriteIn writes a group in a transaction of the Writer, like the committer of a node.
func (j *Journal) WriteIn(ctx context.Context, tx *sql.Tx, add func(*Group)) error {
	g := newGroup(map[job.Key]*Target{}, "host", j.rules)
	if err := tx.QueryRowContext(ctx, sqlLastSeq).Scan(&g.nextSeq); err != nil {
		return err
	}
	g.nextSeq++
	add(g)
	return g.write(ctx, tx, j.st)
}

// EntriesIn reads all messages in a transaction of the Writer.
func EntriesIn(ctx context.Context, tx *sql.Tx) ([]Entry, error) {
	var all []Entry
	err := each(ctx, tx, "SELECT "+entryColumns+" FROM message m ORDER BY m.seq", nil, func(rows *sql.Rows) error {
		var e Entry
		err := e.scan(rows.Scan)
		all = append(all, e)
		return err
	})
	return all, err
}

// Fill reserves all room for waiting rows.
func (j *Journal) Fill() (release func()) {
	j.committer.room.TryAcquire(maxQueued)
	return func() { j.committer.room.Release(maxQueued) }
}
