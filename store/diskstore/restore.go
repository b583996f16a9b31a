package diskstore

import (
	"bytes"
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/encoding"
)

// Kinds returns the kinds of documents. It passes over the documents of each.
func (s *Store) Kinds(ctx context.Context) (kinds []string, err error) {
	v, err := s.view(ctx)
	if err != nil {
		return nil, err
	}
	defer v.close()
	all := row(famDoc)
	it, err := v.snap.NewIter(&pebble.IterOptions{LowerBound: all, UpperBound: end(all)})
	if err != nil {
		return nil, unavailable(err)
	}
	for ok := it.First(); ok; {
		kind, _, _ := bytes.Cut(it.Key()[1:], []byte{0})
		kinds = append(kinds, string(kind))
		ok = it.SeekGE(end(prefix(famDoc, string(kind))))
	}
	return kinds, unavailable(errors.Join(it.Error(), it.Close()))
}

// Aside reads the keys that were counted for a job, and whether it stops its order key.
func (s *Store) Aside(ctx context.Context, j *job.Job) (aside store.Aside, err error) {
	var missing error
	err = s.change(ctx, false, func(t *txn) {
		rec := t.load(j.Key)
		if rec == nil {
			missing = store.ErrNotFound
			return
		}
		p := prefix(famCount, rec.UID)
		t.scan(p, end(p), func(key, _ []byte) bool {
			aside.CountKeys = append(aside.CountKeys, string(key[len(p):]))
			return true
		})
		aside.Stops = rec.State == job.Dead && t.turns().HasTurn(rec.order, rec.ID)
	})
	return aside, errors.Join(err, missing)
}

// Restore stores jobs as they are.
func (s *Store) Restore(ctx context.Context, jobs []store.Restored) error {
	if s.full() {
		return store.ErrFull
	}
	var refused error
	err := s.change(ctx, true, func(t *txn) {
		for i := range jobs {
			refused = errors.Join(refused, t.restore(&jobs[i]))
		}
	})
	return errors.Join(err, refused)
}

func (t *txn) restore(r *store.Restored) error {
	if old := t.load(r.Job.Key); old != nil {
		return r.Same(old.UID, old.Version)
	}
	rec := newRecord(&r.Job)
	for i := range r.Log {
		rec.log = append(rec.log, encoding.AppendAttempt(nil, &r.Log[i]))
	}
	t.addCountKeys(rec, r.CountKeys)
	t.index(rec)
	t.write(rec)
	if rec.State.Final() {
		t.putEnded(rec)
		if r.Stops {
			t.turns().Stop(rec.order, &rec.Job)
		}
	} else {
		t.enterTurns(rec)
		t.putEntry(rec)
	}
	t.set(row(famKey, rec.Topic, rec.ID), keyRow(rec))
	return nil
}
