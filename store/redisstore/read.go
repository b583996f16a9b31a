package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Get reads one job.
func (s *Store) Get(ctx context.Context, key job.Key) (job.Job, error) {
	sh, r, err := s.find(ctx, key)
	if err == nil {
		err = s.complete(ctx, sh, r)
	}
	if err != nil {
		return job.Job{}, err
	}
	return r.Job, nil
}

// maxRead bounds the records of one read: each may contain a body of 256 KiB.
const maxRead = 100

// Read reads the records of the first jobs, as many as one script does.
func (s *Store) Read(ctx context.Context, q store.ReadQuery) (store.Records, error) {
	var r store.Records
	sh, records, err := s.recordsOf(ctx, &q)
	if err == nil && q.Part != store.JobLog {
		err = s.complete(ctx, sh, records...)
	}
	if err != nil {
		return r, err
	}
	for _, rec := range records {
		var j *job.Job
		var log []job.Attempt
		switch {
		case rec == nil:
		case q.Part == store.JobLog:
			if log, err = rec.attempts(); err != nil {
				return r, err
			}
		default:
			if j = &rec.Job; q.Part == store.JobHead {
				j.Spec.Body = nil
			}
		}
		r.Jobs, r.Logs = append(r.Jobs, j), append(r.Logs, log)
	}
	return r, nil
}

// recordsOf reads the first records.
func (s *Store) recordsOf(ctx context.Context, q *store.ReadQuery) (*shard, []*record, error) {
	if q.Shard == store.AnyShard {
		sh, r, err := s.find(ctx, q.Keys[0])
		return sh, []*record{r}, err
	}
	sh := s.shards[q.Shard]
	records, err := s.someRecords(ctx, sh, q.Keys[:min(len(q.Keys), maxRead)])
	return sh, records, err
}

// find reads a record in the shard of its job, which it returns: its home, or where a forward
// leads.
func (s *Store) find(ctx context.Context, key job.Key) (*shard, *record, error) {
	sh := s.shards[s.shardOf(key)]
	r, err := s.load(ctx, sh, key)
	if led := (*forwardedError)(nil); errors.As(err, &led) {
		sh = s.shards[s.shardFor(key, led.orderKey)]
		r, err = s.load(ctx, sh, key)
	}
	return sh, r, err
}

// load reads a record of a shard.
func (s *Store) load(ctx context.Context, sh *shard, key job.Key) (*record, error) {
	w, now, err := s.read(ctx, sh, key)
	if err != nil {
		return nil, err
	}
	if w.missing() {
		return nil, store.ErrNotFound
	}
	r, err := decodeRecord(key, w)
	if err == nil {
		r.now = now
	}
	return r, err
}

// complete adds what the records of unfinished jobs lack: the state ready, which only their
// buckets have, and their last attempts. Records may be nil.
func (s *Store) complete(ctx context.Context, sh *shard, records ...*record) error {
	pipe := s.db.Pipeline()
	scores := make(map[*record]*redis.FloatCmd)
	for _, r := range records {
		if r != nil && !r.State.Final() {
			scores[r] = pipe.ZScore(ctx, sh.bucket(r.Lane().String()), r.ID)
		}
	}
	if len(scores) > 0 {
		if err := s.exec(ctx, pipe); err != nil {
			return err
		}
	}
	for _, r := range records {
		if r == nil {
			continue
		}
		if score := scores[r]; score != nil && score.Err() == nil {
			r.refine(score.Val())
		}
		var err error
		if r.Job, err = r.whole(); err != nil {
			s.log.Error("a job's log cannot be read", "error", err)
		}
	}
	return nil
}

// decode decodes a record of a shard, and completes it.
func (s *Store) decode(ctx context.Context, sh *shard, key job.Key, w raw) (*record, error) {
	r, err := decodeRecord(key, w)
	if err == nil {
		err = s.complete(ctx, sh, r)
	}
	return r, err
}

// someRecords reads the first records of several, one at least. Missing and unreadable ones are
// nil: they must not affect the others.
func (s *Store) someRecords(ctx context.Context, sh *shard, keys []job.Key) ([]*record, error) {
	raws, _, err := s.readRaw(ctx, sh, keys, store.BatchBytes, wholeRecords)
	return s.decodeAll(keys, raws), err
}

func (s *Store) decodeAll(keys []job.Key, raws []raw) []*record {
	all := make([]*record, len(raws))
	for i, w := range raws {
		if w.missing() {
			continue
		}
		r, err := decodeRecord(keys[i], w)
		if led := (*forwardedError)(nil); err == nil {
			all[i] = r
		} else if !errors.As(err, &led) {
			s.log.Error("a job's record cannot be read", "error", err)
		}
	}
	return all
}

// readAll reads encoded records, some with each call.
func (s *Store) readAll(ctx context.Context, sh *shard, keys []job.Key) ([]raw, error) {
	all := make([]raw, 0, len(keys))
	for len(all) < len(keys) {
		rest := keys[len(all):]
		some, _, err := s.readRaw(ctx, sh, rest[:min(len(rest), maxRead)], store.BatchBytes, wholeRecords)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// read reads an encoded record of a shard, which may be missing, and the server's time.
func (s *Store) read(ctx context.Context, sh *shard, key job.Key) (raw, job.Instant, error) {
	raws, now, err := s.readRaw(ctx, sh, []job.Key{key}, 0, wholeRecords)
	if err != nil {
		return raw{}, now, err
	}
	return raws[0], now, nil
}

// The parts of records that lua/read.lua reads.
const (
	wholeRecords = "all"
	progressOnly = "progress" // the registration only if there is no progress
)

// readRaw reads the first of several encoded records, or a part of them, and the server's
// time: at least one, and more until they take so many bytes.
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

// eachPage calls do with what a scan finds, page by page. A scan may find something twice.
func (s *Store) eachPage(scan func(cursor uint64) *redis.ScanCmd, do func(page []string) error) error {
	for cursor := uint64(0); ; {
		page, next, err := scan(cursor).Result()
		if err != nil {
			return s.wrap(err)
		}
		if err := do(page); err != nil || next == 0 {
			return err
		}
		cursor = next
	}
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
