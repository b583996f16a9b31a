package torture

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	_ "github.com/lib/pq" // the driver "postgres"

	"github.com/duehook/duehook/e2e/rig"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/listing"
)

// checkLedger holds the ledger against what the store showed before its nodes were
// stopped, and each job's flow against its state.
func (a *audit) checkLedger(ctx context.Context) {
	db := a.ledger
	if a.dataDir != "" {
		if err := a.onDisk(ctx); err != nil {
			a.fail("the data of the node: %v", err)
		}
	}
	if db == nil {
		return
	}
	if err := a.messages(ctx, db); err != nil {
		a.fail("ledger: %v", err)
	}
	if err := a.flow(ctx, db); err != nil {
		a.fail("ledger: %v", err)
	}
}

// onDisk holds the data of an embedded node against what it showed before it was stopped.
func (a *audit) onDisk(ctx context.Context) error {
	s, err := diskstore.Open(diskstore.Options{Dir: a.dataDir})
	if err != nil {
		return err
	}
	found := 0
	jobs, _, err := store.ReadPages(1_000_000, func(cursor string) ([]job.Job, string, error) {
		page, err := listing.List(ctx, s, store.Query{Limit: 1_000, Cursor: cursor})
		return page.Jobs, page.Next, err
	})
	for i := range jobs {
		j := &jobs[i]
		shown, known := a.stored[j.Key]
		if !known {
			continue // a callback
		}
		if found++; shown.UID != j.UID || shown.State != j.State.String() || shown.Attempts != j.Attempts {
			a.fail("%s is %s with %d attempts (uid %s) on the disk; the node showed %+v", j.Key, j.State, j.Attempts, j.UID, shown)
		}
	}
	if found != len(a.stored) {
		a.fail("the disk has %d of the %d jobs that the node showed", found, len(a.stored))
	}
	return errors.Join(err, s.Close())
}

// countInLedger is how many jobs are unfinished in the ledger beside Redis.
func (r *run) countInLedger(ctx context.Context) (n int, err error) {
	err = r.ledger.QueryRowContext(ctx, `SELECT count(*) FROM message WHERE status < $1`, int(job.Delivered)).Scan(&n)
	return n, err
}

// over reports whether a job has ended and is not to be had back, as dead
// letters are.
func (r *run) over(ctx context.Context, key job.Key) bool {
	var state job.State
	err := r.ledger.QueryRowContext(ctx, `SELECT status FROM message WHERE topic = $1 AND id = $2 ORDER BY created DESC, uid DESC LIMIT 1`,
		key.Topic, key.ID).Scan(&state)
	return err == nil && state.Final() && state != job.Dead
}

// messages: the ledger knows the same jobs in the same states.
func (a *audit) messages(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, `SELECT seq, topic, id, uid, status, attempts, version FROM message ORDER BY created DESC, uid DESC`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	inLedger := map[job.Key]bool{}
	for rows.Next() {
		var key job.Key
		var uid string
		var state job.State
		var attempts int
		var message, version int64
		if err := rows.Scan(&message, &key.Topic, &key.ID, &uid, &state, &attempts, &version); err != nil {
			return err
		}
		if a.abandoned(key, uid, state) || inLedger[key] && isLoop(key) && state == job.Delivered {
			continue // a later registration, or a later round, took its place
		}
		inLedger[key] = true
		if _, known := a.stored[key]; !known && a.run.row.forgets && state.Final() {
			// It has ended: Redis need not have it back.
			a.stored[key] = jobView{UID: uid, Topic: key.Topic, ID: key.ID, State: state.String(), Attempts: attempts}
		}
		j := a.stored[key]
		if j.UID != uid || j.State != state.String() || j.Attempts != attempts {
			a.fail("%s is %s with %d attempts (uid %s, version %d) in the ledger; the store showed %+v; its flow: %s",
				key, state, attempts, uid, version, j, a.history(ctx, db, message))
		}
	}
	for key := range a.stored {
		if !inLedger[key] {
			a.fail("%s is not in the ledger", key)
		}
	}
	return rows.Err()
}

// abandoned: a registration that got no answer, since Redis was gone, and was
// made again when Redis had forgotten it.
func (a *audit) abandoned(key job.Key, uid string, state job.State) bool {
	return a.run.row.forgets && state == job.Cancelled && a.stored[key].UID != uid && a.stored[key].UID != ""
}

// history is the flow of a message, for people.
func (a *audit) history(ctx context.Context, db *sql.DB, message int64) string {
	rows, err := db.QueryContext(ctx, `SELECT at, from_state, to_state, actor, attempt, reason FROM flow WHERE message = $1 ORDER BY seq`, message)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = rows.Close() }()
	var all []string
	for rows.Next() {
		var at job.Instant
		var from, to, actor, attempt, reason any
		if err := rows.Scan(&at, &from, &to, &actor, &attempt, &reason); err != nil {
			return err.Error()
		}
		all = append(all, fmt.Sprintf("%s %v>%v by %v, attempt %v, %v", rig.ClockTime(at.Time()), from, to, actor, attempt, reason))
	}
	if err := rows.Err(); err != nil {
		return err.Error()
	}
	return strings.Join(all, "; ")
}

// flow: each job was registered once, and has ended once more than it was
// replayed, unless it has yet to end. Of a registration, only nodes that share a
// ledger write a row. Rows are not compared with their
// neighbours: what happened side by side may stand in either order.
// A Redis that forgets an outcome with its callbacks is told the outcome again, and so
// registers callbacks again that the ledger has.
func (a *audit) flow(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, `SELECT m.seq, m.topic, m.id, m.uid, m.status,
		count(*) FILTER (WHERE f.from_state IS NULL), count(*) FILTER (WHERE f.to_state >= $1),
		count(*) FILTER (WHERE f.from_state >= $1)
		FROM flow f JOIN message m ON m.seq = f.message GROUP BY m.seq, m.topic, m.id, m.uid, m.status`, int(job.Delivered))
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	const registered = 1
	for rows.Next() {
		var key job.Key
		var state job.State
		var uid string
		var message int64
		var begun, ended, replayed int
		if err := rows.Scan(&message, &key.Topic, &key.ID, &uid, &state, &begun, &ended, &replayed); err != nil {
			return err
		}
		if a.abandoned(key, uid, state) {
			continue
		}
		want := replayed
		if state.Final() {
			want++
		}
		// Of a Redis that forgets, an end that was on its way to the ledger may
		// come to be twice.
		_, callback := job.CallbackOf(key.ID)
		again := callback && a.run.row.forgets && begun > registered
		if begun != registered && !again || ended != want && (!a.run.row.forgets || ended < want) {
			a.fail("ledger: %s is %s, and was registered %d, ended %d and replayed %d times: %s",
				key, state, begun, ended, replayed, a.history(ctx, db, message))
		}
	}
	return rows.Err()
}
