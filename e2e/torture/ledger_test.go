package torture

import (
	"context"
	"database/sql"
	"path/filepath"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of a ledger on PostgreSQL
	_ "modernc.org/sqlite"             // the driver of the embedded ledger

	"github.com/duehook/duehook/job"
)

// ledger holds the journal against what the store showed before its nodes were
// stopped, and each job's flow against its state.
func (a *audit) ledger(ctx context.Context) {
	var driver, source string
	switch {
	case a.dataDir != "":
		driver, source = "sqlite", "file:"+filepath.Join(a.dataDir, "duehook.db")+"?mode=ro"
	case a.sql != nil:
		driver, source = "pgx", a.sql.URL("postgres")
	default:
		return
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		a.fail("ledger: %v", err)
		return
	}
	defer func() { _ = db.Close() }()
	if err := a.messages(ctx, db); err != nil {
		a.fail("ledger: %v", err)
	}
	if err := a.flow(ctx, db); err != nil {
		a.fail("ledger: %v", err)
	}
}

// messages: the journal knows the same jobs in the same states.
func (a *audit) messages(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, `SELECT topic, id, uid, status, attempts FROM message`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	journaled := map[job.Key]bool{}
	for rows.Next() {
		var key job.Key
		var uid string
		var state job.State
		var attempts int
		if err := rows.Scan(&key.Topic, &key.ID, &uid, &state, &attempts); err != nil {
			return err
		}
		journaled[key] = true
		j := a.stored[key]
		if j.UID != uid || j.State != state.String() || j.Attempts != attempts {
			a.fail("%s is %s with %d attempts (uid %s) in the ledger; the store showed %+v", key, state, attempts, uid, j)
		}
	}
	for key := range a.stored {
		if !journaled[key] {
			a.fail("%s is not in the ledger", key)
		}
	}
	return rows.Err()
}

// flow: each job was registered once, and has ended once more than it was
// replayed, unless it has yet to end. Rows are not compared with their
// neighbours: what happened side by side may stand in either order.
func (a *audit) flow(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, `SELECT m.topic, m.id, m.status,
		count(*) FILTER (WHERE f.from_state IS NULL), count(*) FILTER (WHERE f.to_state >= $1),
		count(*) FILTER (WHERE f.from_state >= $1)
		FROM flow f JOIN message m ON m.seq = f.message GROUP BY m.seq, m.topic, m.id, m.status`, int(job.Delivered))
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var key job.Key
		var state job.State
		var begun, ended, replayed int
		if err := rows.Scan(&key.Topic, &key.ID, &state, &begun, &ended, &replayed); err != nil {
			return err
		}
		want := replayed
		if state.Final() {
			want++
		}
		if begun != 1 || ended != want {
			a.fail("ledger: %s is %s, and was registered %d, ended %d and replayed %d times", key, state, begun, ended, replayed)
		}
	}
	return rows.Err()
}
