package diskstore

import (
	"context"
	"errors"

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

// loadAt is load with an iterator over the view. place saves the search for the key of a record that is still there; it may be
// empty. Records in the order of their places cost least. The record is valid until the iterator moves: nothing was copied.
func (v *view) loadAt(it *pebble.Iterator, place string, key job.Key) (*record, error) {
	if place != "" && it.SeekPrefixGE([]byte(place)) {
		if rec, err := decodeRecord(it.Value()); err == nil && rec.Key == key {
			rec.overlay(v.flights[key])
			return rec, nil
		}
	}
	at, err := get(v.snap, row(famKey, key.Topic, key.ID))
	switch {
	case err != nil:
		return nil, err
	case at == nil:
		return nil, store.ErrNotFound
	}
	var value []byte
	if it.SeekPrefixGE(at[1:]) {
		value = it.Value()
	} else if err := it.Error(); err != nil {
		return nil, unavailable(err)
	}
	rec, err := recordAt(key, at, value)
	if err != nil {
		return nil, err
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
		n, err := addRecord(&r, rec, q.Part)
		if err != nil {
			return store.Records{}, err
		}
		bytes += n
	}
	return r, nil
}

// addRecord adds a part of a record, and returns about how many bytes it takes; nil: the job is gone.
func addRecord(r *store.Records, rec *record, part store.Part) (bytes int, err error) {
	var log []job.Attempt
	var found *job.Job
	if rec != nil {
		bytes = rec.size()
		if part == store.JobLog {
			log, err = rec.attempts()
		} else {
			var j job.Job
			if j, err = rec.decode(part == store.WholeJob); part == store.JobHead {
				bytes = store.SizeOf(&j)
			}
			found = &j
		}
		if err != nil {
			return 0, err
		}
	}
	if part == store.JobLog {
		r.Logs = append(r.Logs, log)
	} else {
		r.Jobs = append(r.Jobs, found)
	}
	return bytes, nil
}
