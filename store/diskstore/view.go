package diskstore

import (
	"context"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// view is the store at one moment, for reading without the lock.
type view struct {
	s       *Store
	now     job.Instant
	snap    *pebble.Snapshot
	flights map[job.Key]*flight // of the keys asked for
}

// view returns the store as it is, with what is known of some jobs in flight. The caller
// closes it.
func (s *Store) view(ctx context.Context, keys ...job.Key) (*view, error) {
	return s.viewWith(ctx, func(v *view) {
		for _, key := range keys {
			v.copy(key)
		}
	})
}

// viewWith also calls gather under the lock.
func (s *Store) viewWith(ctx context.Context, gather func(v *view)) (*view, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	v := &view{s: s, now: now, snap: s.db.NewSnapshot(), flights: map[job.Key]*flight{}}
	gather(v)
	return v, nil
}

func (v *view) copy(key job.Key) {
	if f := v.s.flights[key]; f != nil {
		is := *f
		v.flights[key] = &is
	}
}

// close ends the view. Its error can only be one of the engine, which also tells the log.
func (v *view) close() {
	_ = v.snap.Close()
	v.s.active.Done()
}

// load returns the record of a key, or ErrNotFound.
func (v *view) load(key job.Key) (*record, error) {
	rec, err := loadRecord(getterOf(v.snap), key)
	switch {
	case err != nil:
		return nil, err
	case rec == nil:
		return nil, store.ErrNotFound
	}
	rec.overlay(v.flights[key])
	return rec, nil
}

// loadAt is load that saves the search for the key of a record that is still at a place. Records in the order
// of their places cost least.
func (v *view) loadAt(it *pebble.Iterator, place string, key job.Key) (*record, error) {
	if place == "" || !it.SeekPrefixGE([]byte(place)) {
		return v.load(key)
	}
	rec, err := decodeRecord(slices.Clone(it.Value()))
	if err != nil || rec.Key != key {
		return v.load(key)
	}
	rec.overlay(v.flights[key])
	return rec, nil
}

// read returns a job's record and the time.
func (s *Store) read(ctx context.Context, key job.Key) (*record, job.Instant, error) {
	v, err := s.view(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	defer v.close()
	rec, err := v.load(key)
	return rec, v.now, err
}

// Get reads a job.
func (s *Store) Get(ctx context.Context, key job.Key) (job.Job, error) {
	rec, _, err := s.read(ctx, key)
	if err != nil {
		return job.Job{}, err
	}
	return rec.job()
}

// Read reads records.
func (s *Store) Read(ctx context.Context, q store.ReadQuery) (r store.Records, err error) {
	keys := q.Keys
	if q.Shard == store.AnyShard {
		keys = keys[:1]
	}
	v, err := s.view(ctx, keys...)
	if err != nil {
		return store.Records{}, err
	}
	defer v.close()
	it, err := v.snap.NewIter(&pebble.IterOptions{})
	if err != nil {
		return store.Records{}, unavailable(err)
	}
	defer func() { err = errors.Join(err, unavailable(it.Close())) }()
	for i, bytes := 0, 0; i < len(keys) && bytes < store.BatchBytes; i++ {
		var place string
		if q.Places != nil {
			place = q.Places[i]
		}
		rec, err := v.loadAt(it, place, keys[i])
		if err != nil && (q.Shard == store.AnyShard || !errors.Is(err, store.ErrNotFound)) {
			return store.Records{}, err
		}
		if err := addRecord(&r, rec, q.Part); err != nil {
			return store.Records{}, err
		}
		if rec != nil {
			bytes += rec.size()
		}
	}
	return r, nil
}

// addRecord adds a part of a record; nil: the job is gone.
func addRecord(r *store.Records, rec *record, part store.Part) error {
	var log []job.Attempt
	var found *job.Job
	if rec != nil {
		var err error
		switch part {
		case store.JobLog:
			log, err = rec.attempts()
		case store.WholeJob:
			var j job.Job
			j, err = rec.job()
			found = &j
		}
		if err != nil {
			return err
		}
	}
	switch part {
	case store.JobLog:
		r.Logs = append(r.Logs, log)
	case store.WholeJob:
		r.Jobs = append(r.Jobs, found)
	}
	return nil
}
