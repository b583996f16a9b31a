package diskstore

import (
	"context"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// Count adds to the count of a job.
func (s *Store) Count(ctx context.Context, c store.Count) (store.Counted, error) {
	if rules.CountNeedsRoom(c.Adds) && s.full() {
		return store.Counted{}, store.ErrFull
	}
	var counted store.Counted
	var refused error
	err := s.change(ctx, true, func(t *txn) { counted, refused = t.addTo(&c) })
	if err != nil {
		return store.Counted{}, err
	}
	return counted, refused
}

func (t *txn) addTo(c *store.Count) (store.Counted, error) {
	rec := t.load(c.Key)
	if rec == nil {
		return store.Counted{}, store.ErrNotFound
	}
	j, err := rec.job()
	if err != nil {
		return store.Counted{}, err
	}
	tally, err := j.Tally(c.Adds, job.CountFacts{Now: t.now, Keys: rec.countKeys, Known: func(key string) bool {
		return t.get(row(famCount, rec.UID, key)) != nil
	}})
	if err != nil {
		return store.Counted{Job: j, Now: t.now}, err
	}
	if tally.Changes(&j) {
		tally.Apply(&j, t.now)
		j.Version, j.UpdatedAt = j.Version+1, max(t.now, j.CreatedAt)
		t.applyCount(rec, &j, &tally)
	}
	return store.Counted{Job: j, Now: t.now, Tally: tally}, nil
}

// applyCount stores the count of j, and makes the job due if it is.
func (t *txn) applyCount(rec *record, j *job.Job, tally *job.Tally) {
	rec.Counted, rec.Fired, rec.Version, rec.UpdatedAt = j.Counted, j.Fired, j.Version, j.UpdatedAt
	t.addCountKeys(rec, tally.Keys)
	if !tally.Due {
		t.rewrite(rec)
		return
	}
	parked := rec.parked
	t.takeEntry(rec)
	rec.NextAt, rec.parked = j.NextAt, parked
	t.write(rec)
	t.putEntry(rec)
	t.set(row(famKey, rec.Topic, rec.ID), keyRow(rec))
}

// addCountKeys adds keys that were counted.
func (t *txn) addCountKeys(rec *record, keys []string) {
	for _, key := range keys {
		t.set(row(famCount, rec.UID, key), nil)
	}
	rec.countKeys += len(keys)
}
