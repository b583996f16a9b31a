package sqlstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/records"
)

// Count adds to the count of a job.
func (s *Store) Count(ctx context.Context, c store.Count) (store.Counted, error) {
	var counted store.Counted
	var refused error
	err := s.change(ctx, func(ctx context.Context, t *txn) (err error) {
		counted, refused, err = t.addTo(ctx, &c)
		return err
	})
	if err != nil {
		return store.Counted{}, err
	}
	return counted, refused
}

func (t *txn) addTo(ctx context.Context, c *store.Count) (counted store.Counted, refused, err error) {
	keys := make([]string, 0, len(c.Adds))
	for _, a := range c.Adds {
		if a.Key != "" {
			keys = append(keys, a.Key)
		}
	}
	known := map[string]bool{}
	b := &pgx.Batch{}
	t.lock(b, withContent, []job.Key{c.Key})
	collect(b.Queue(t.s.sql(`SELECT c.key FROM duehook.job j JOIN duehook.counted c ON c.uid = j.uid
		WHERE j.topic = $1 AND j.id = $2 AND c.key = ANY($3)`), c.Key.Topic, c.Key.ID, keys), func(row pgx.Rows) error {
		var key string
		err := row.Scan(&key)
		known[key] = true
		return err
	})
	if err := t.send(ctx, b); err != nil {
		return counted, nil, err
	}
	rec := t.rows.jobs[c.Key]
	switch bad := t.rows.bad[c.Key]; {
	case rec == nil:
		return counted, store.ErrNotFound, nil
	case bad != nil:
		return counted, bad, nil
	}
	j, err := rec.job()
	if err != nil {
		return counted, err, nil
	}
	tally, refused := j.Tally(c.Adds, job.CountFacts{Now: t.now, Keys: rec.countKeys, Known: func(key string) bool { return known[key] }})
	if refused != nil {
		return store.Counted{Job: j, Now: t.now}, refused, nil
	}
	if tally.Changes(&j) {
		tally.Apply(&j, t.now)
		records.Touch(&j, t.now)
		rec.Counted, rec.Fired, rec.NextAt, rec.Version, rec.UpdatedAt = j.Counted, j.Fired, j.NextAt, j.Version, j.UpdatedAt
		rec.countKeys, rec.changed = rec.countKeys+len(tally.Keys), true
	}
	if len(tally.Keys) > 0 {
		b := &pgx.Batch{}
		b.Queue(t.s.sql(`INSERT INTO duehook.counted (uid, key) SELECT $1, unnest($2::text[])`), rec.UID, tally.Keys)
		err = t.send(ctx, b)
	}
	return store.Counted{Job: j, Now: t.now, Tally: tally}, nil, err
}
