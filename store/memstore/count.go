package memstore

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// tally is the count of a job.
type tally struct {
	count int64
	fired bool
	keys  map[string]struct{} // that were counted
}

// tallied returns the count of the record, for writing.
func (r *record) tallied() *tally {
	x := r.more()
	if x.tally == nil {
		x.tally = &tally{}
	}
	return x.tally
}

// add adds keys that were counted.
func (t *tally) add(keys []string) {
	if t.keys == nil && len(keys) > 0 {
		t.keys = make(map[string]struct{}, len(keys))
	}
	for _, key := range keys {
		t.keys[strings.Clone(key)] = struct{}{}
	}
}

// assignCount stores the count of j.
func (r *record) assignCount(j *job.Job) {
	if j.Counted != 0 || j.Fired {
		t := r.tallied()
		t.count, t.fired = j.Counted, j.Fired
	}
}

// countKeys are the keys that were counted; nil without any.
func (r *record) countKeys() map[string]struct{} {
	if r.extra == nil || r.extra.tally == nil {
		return nil
	}
	return r.extra.tally.keys
}

// Count adds to the count of a job.
func (s *Store) Count(ctx context.Context, c store.Count) (store.Counted, error) {
	for range maxTries {
		_, was, _, err := s.read(ctx, c.Key)
		if err != nil {
			return store.Counted{}, err
		}
		j, err := was.job()
		if err != nil {
			return store.Counted{}, err
		}
		counted, done, err := s.addTo(ctx, &was, &j.Spec, c)
		if err != nil || done {
			return counted, err
		}
	}
	return store.Counted{}, store.ErrConflict
}

// addTo adds to the count of the job unless its content has changed since it was read.
func (s *Store) addTo(ctx context.Context, was *snapshot, spec *job.Spec, c store.Count) (store.Counted, bool, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return store.Counted{}, false, err
	}
	defer s.leave()
	rec := s.find(c.Key)
	if rec == nil || rec.uid != was.UID || rec.spec != was.spec {
		return store.Counted{}, false, nil
	}
	if rec.version < c.Least {
		return store.Counted{}, false, store.ErrConflict
	}
	j := rec.progress()
	j.Spec = *spec
	keys := rec.countKeys()
	t, err := j.Tally(c.Adds, job.CountFacts{Now: now, Keys: len(keys), Known: func(key string) bool {
		_, known := keys[key]
		return known
	}})
	if err != nil {
		return store.Counted{Job: j, Now: now}, true, err
	}
	if t.Changes(&j) {
		t.Apply(&j, now)
		rec.version++
		j.Version = rec.version
		s.applyCount(rec, &j, t, now)
	}
	return store.Counted{Job: j, Now: now, Tally: t}, true, nil
}

// applyCount stores the count of j, and makes the job due if it is.
func (s *Store) applyCount(rec *record, j *job.Job, t job.Tally, now job.Instant) {
	rec.assignCount(j)
	rec.tallied().add(t.Keys)
	if !t.Due {
		return
	}
	rec.nextAt = j.NextAt
	due := bucketScore(rec.wakeAt(), rec.state)
	if !rec.isHead() {
		due = park(due)
	}
	s.rescore(rec, due)
	s.look(rec.lane, now)
}

// CountKeys returns the keys that were counted of a job.
func (s *Store) CountKeys(ctx context.Context, j *job.Job) ([]string, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	rec := s.find(j.Key)
	if rec == nil || rec.uid != j.UID {
		return nil, nil
	}
	return slices.Collect(maps.Keys(rec.countKeys())), nil
}
