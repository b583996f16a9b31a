package sqlstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
)

// Purge deletes ended jobs whose retention has passed. It leaves those that others have locked.
func (s *Store) Purge(ctx context.Context, limit int) (purged int, err error) {
	err = s.change(ctx, func(ctx context.Context, t *txn) (err error) {
		if purged, err = t.purge(ctx, false, s.retention, limit); err != nil || purged == limit {
			return err
		}
		kept, err := t.purge(ctx, true, max(s.retention, job.KeepOccurrence), limit-purged)
		purged += kept
		return err
	})
	if err == nil && purged < limit { // the last call of several; takes fold, too, if a node takes
		err = s.change(ctx, func(ctx context.Context, t *txn) error { return t.underLock(ctx, "", func(*pgx.Batch) {}) })
	}
	if err != nil {
		return 0, err
	}
	return purged, nil
}

// purge deletes up to limit jobs that ended longer ago than retention.
func (t *txn) purge(ctx context.Context, keepsEnd bool, retention time.Duration, limit int) (purged int, err error) {
	var uids []string // of jobs with counted keys
	var b pgx.Batch
	class := 0
	if keepsEnd {
		class = 1
	}
	// The time of the clock is a value of its own: compared with the volatile function, each row that is kept would be read.
	b.Queue(t.s.sql(`WITH old AS MATERIALIZED (
	SELECT topic, id FROM duehook.job WHERE state IN (4, 6, 7) AND keeps_end = $1 AND ended_at > $4 AND ended_at < (SELECT `+clock+`) - $2
	ORDER BY ended_at LIMIT $3 FOR UPDATE SKIP LOCKED
)
DELETE FROM duehook.job AS j USING old WHERE j.topic = old.topic AND j.id = old.id RETURNING j.topic, j.state, j.uid, j.count_keys, j.ended_at`),
		keepsEnd, retention.Milliseconds(), limit, t.s.purges[class].from(job.SystemClock().Now())).Query(func(rows pgx.Rows) error {
		var topic, uid string
		var state int16
		var keys int
		var ended int64
		_, err := pgx.ForEachRow(rows, []any{&topic, &state, &uid, &keys, &ended}, func() error {
			purged++
			t.purges[class].add(reach{least: ended, highest: ended})
			t.deltas.lane(job.Lane{Topic: topic}).states[state]--
			if keys > 0 {
				uids = append(uids, uid)
			}
			return nil
		})
		return err
	})
	if err := t.send(ctx, &b); err != nil || len(uids) == 0 {
		return purged, err
	}
	var counted pgx.Batch
	counted.Queue(t.s.sql(`DELETE FROM duehook.counted WHERE uid = ANY($1)`), uids)
	return purged, t.send(ctx, &counted)
}
