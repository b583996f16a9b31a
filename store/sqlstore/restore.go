package sqlstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/records"
)

// Kinds returns the kinds of documents.
func (s *Store) Kinds(ctx context.Context) (kinds []string, err error) {
	_, err = s.ask(ctx, func(b *pgx.Batch) {
		kinds = nil
		collect(b.Queue(s.sql(`SELECT DISTINCT kind FROM duehook.document ORDER BY kind`)), func(row pgx.Rows) error {
			var kind string
			err := row.Scan(&kind)
			kinds = append(kinds, kind)
			return err
		})
	})
	return kinds, err
}

// Aside reads the keys that were counted for a job, and whether it stops its order key.
func (s *Store) Aside(ctx context.Context, j *job.Job) (aside store.Aside, err error) {
	_, err = s.ask(ctx, func(b *pgx.Batch) {
		aside = store.Aside{}
		collect(b.Queue(s.sql(`SELECT key FROM duehook.counted WHERE uid = $1 ORDER BY key`), j.UID), func(row pgx.Rows) error {
			var key string
			err := row.Scan(&key)
			aside.CountKeys = append(aside.CountKeys, key)
			return err
		})
		b.Queue(s.sql(`SELECT $1 AND EXISTS (SELECT FROM duehook.order_head WHERE order_key = $2 AND id = $3 AND taken)`),
			j.State == job.Dead, records.OrderOf(j.Topic, j.Spec.OrderKey), j.ID).QueryRow(func(row pgx.Row) error { return row.Scan(&aside.Stops) })
	})
	return aside, err
}

// Restore stores jobs as they are.
func (s *Store) Restore(ctx context.Context, jobs []store.Restored) error {
	var refused error
	err := s.change(ctx, func(ctx context.Context, t *txn) (err error) {
		refused, err = t.restore(ctx, jobs)
		return err
	})
	return errors.Join(err, refused)
}

func (t *txn) restore(ctx context.Context, jobs []store.Restored) (refused, err error) {
	var orders, uids, counted []string
	keys := make([]job.Key, len(jobs))
	for i := range jobs {
		r := &jobs[i]
		keys[i] = r.Job.Key
		if order := records.OrderOf(r.Job.Topic, r.Job.Spec.OrderKey); order != "" {
			orders = append(orders, order)
		}
		for _, key := range r.CountKeys {
			uids, counted = append(uids, r.Job.UID), append(counted, key)
		}
	}
	b := &pgx.Batch{}
	t.lockTurns(b, orders)
	t.lock(b, withContent, sortedKeys(keys))
	if len(counted) > 0 {
		b.Queue(t.s.sql(`INSERT INTO duehook.counted (uid, key) SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING`), uids, counted)
	}
	if err := t.send(ctx, b); err != nil {
		return nil, err
	}
	turns, rows := t.turns(ctx)
	for i := range jobs {
		r := &jobs[i]
		if old := t.rows.jobs[r.Job.Key]; old != nil {
			refused = errors.Join(refused, r.Same(old.UID, old.Version))
			continue
		}
		fresh := newRecord(&r.Job)
		fresh.countKeys = len(r.CountKeys)
		for n := range r.Log {
			text, err := encodeAttempt(&r.Log[n])
			if err != nil {
				return nil, err
			}
			fresh.append = append(fresh.append, text)
		}
		switch {
		case fresh.order == "":
		case !fresh.State.Final():
			t.enter(turns, fresh)
		case r.Stops:
			t.move(fresh.order, turns.Stop(fresh.order, &fresh.Job), true)
		}
		t.add(fresh)
	}
	return refused, rows.err
}
