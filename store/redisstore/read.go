package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Get reads one job.
func (s *Store) Get(ctx context.Context, key job.Key) (job.Job, error) {
	sh, r, err := s.loadAnywhere(ctx, key)
	if err != nil {
		return job.Job{}, err
	}
	if err := s.refine(ctx, sh, r); err != nil {
		return job.Job{}, err
	}
	return s.whole(r), nil
}

// whole is the job with its last attempt, without if the log cannot be read.
func (s *Store) whole(r *record) job.Job {
	j, err := r.whole()
	if err != nil {
		s.log.Error("a job's log cannot be read", "error", err)
	}
	return j
}

// Attempts reads a job's log.
func (s *Store) Attempts(ctx context.Context, key job.Key) ([]job.Attempt, error) {
	_, r, err := s.loadAnywhere(ctx, key)
	if err != nil {
		return nil, err
	}
	return r.attempts()
}

// loadAnywhere reads a record at its home or where a forward leads, and returns its shard.
func (s *Store) loadAnywhere(ctx context.Context, key job.Key) (*shard, *record, error) {
	sh := s.shards[s.shardOf(key)]
	r, err := s.load(ctx, sh, key)
	var led *forwardedError
	if errors.As(err, &led) {
		sh = s.shards[s.place(key, led.orderKey)]
		r, err = s.load(ctx, sh, key)
	}
	return sh, r, err
}

func (s *Store) load(ctx context.Context, sh *shard, key job.Key) (*record, error) {
	values, err := s.db.HMGet(ctx, sh.page(key), fieldsOf(key)...).Result()
	if err != nil {
		return nil, s.wrap(err)
	}
	w, err := rawOf(values)
	if err != nil {
		return nil, err
	}
	if w.missing() {
		return nil, store.ErrNotFound
	}
	return decodeRecord(key, w)
}

// records reads records of a shard, nil for missing and unreadable ones: these must not
// affect the others. Each call reads as many as their bytes allow.
func (s *Store) records(ctx context.Context, sh *shard, keys []job.Key) ([]*record, error) {
	out := make([]*record, 0, len(keys))
	for len(keys) > 0 {
		some, err := s.someRecords(ctx, sh, keys[:min(len(keys), maxRead)])
		if err != nil {
			return nil, err
		}
		out, keys = append(out, some...), keys[len(some):]
	}
	return out, nil
}

// someRecords reads the first records of several, one at least.
func (s *Store) someRecords(ctx context.Context, sh *shard, keys []job.Key) ([]*record, error) {
	raws, _, err := s.readRaw(ctx, sh, keys, store.BatchBytes, wholeRecords)
	if err != nil {
		return nil, err
	}
	out := make([]*record, len(raws))
	for i, w := range raws {
		if w.missing() {
			continue
		}
		out[i], err = decodeRecord(keys[i], w)
		if led := (*forwardedError)(nil); errors.As(err, &led) {
			continue
		}
		if err != nil {
			s.log.Error("a job's record cannot be read", "error", err)
		}
	}
	return out, nil
}

// What lua/read.lua reads of records.
const (
	wholeRecords = "all"
	headsOnly    = "heads"    // of both parts
	progressOnly = "progress" // the registration only if there is no progress
)

// readRaw reads the first records of several in writing, or a part of them, and the
// server's time: at least one, until they take so many bytes.
func (s *Store) readRaw(ctx context.Context, sh *shard, keys []job.Key, bytes int, what string) ([]raw, job.Instant, error) {
	inPages, args := make([]string, len(keys)), append(make([]any, 0, 2+len(keys)), bytes, what)
	for i, key := range keys {
		inPages[i], args = sh.page(key), append(args, key.String())
	}
	reply, err := s.eval(ctx, readScript, inPages, args)
	if err != nil {
		return nil, 0, err
	}
	now, reply := sh.clock.observe(reply[0]), reply[1:]
	if len(reply)%2 != 0 || len(reply) == 0 || len(reply) > 2*len(keys) {
		return nil, 0, fmt.Errorf("redisstore: %d values for a record each of %d jobs", len(reply), len(keys))
	}
	raws := make([]raw, len(reply)/2)
	for i := range raws {
		if raws[i], err = rawOf(reply[2*i : 2*i+2]); err != nil {
			return nil, 0, err
		}
	}
	return raws, now, nil
}

func isNil(err error) bool { return errors.Is(err, redis.Nil) }

// exec sends a pipeline and returns its first error. A missing value is none.
func (s *Store) exec(ctx context.Context, pipe redis.Pipeliner) error {
	cmds, err := pipe.Exec(ctx)
	for _, cmd := range cmds {
		if isNil(err) && cmd.Err() != nil { // a missing value hides later errors
			err = cmd.Err()
		}
	}
	if isNil(err) {
		return nil
	}
	return s.wrap(err)
}

// openAt counts the circuits that are open at now.
func openAt(circuits []string, now job.Instant) (n int64) {
	for _, text := range circuits {
		if circuitAt(text, now).OpenUntil != 0 {
			n++
		}
	}
	return n
}
