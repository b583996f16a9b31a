package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// maxTries bounds how often a change is begun again because the job changed
// under it.
const maxTries = 20

// Update changes a job by comparing and setting its record.
func (s *Store) Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	sh := s.shards[s.shardOf(key)]
	for range maxTries {
		w, now, err := s.read(ctx, sh, key)
		if err != nil {
			return job.Job{}, err
		}
		old, err := s.decode(ctx, sh, key, w)
		if err != nil {
			return job.Job{}, err
		}
		// Decoded again, not copied: change may write into what old holds.
		fresh, err := decodeRecord(key, w)
		if err != nil {
			return job.Job{}, err
		}
		fresh.State, fresh.LastAttempt = old.State, old.LastAttempt
		if err := change(&fresh.Job, now); err != nil {
			return old.Job, err
		}
		if fresh.State == job.Ready {
			// Its hint may name another lane now; as a pending job it is carried again.
			fresh.State = fresh.Pending()
		}
		fresh.Version++
		fresh.mark = newMark()
		written, err := s.put(ctx, putting{run: s.commit, script: updateScript, obey: true}, sh, old, fresh)
		switch {
		case err != nil:
			return job.Job{}, err
		case written == full:
			return old.Job, store.ErrTopicFull
		case written == draining:
			return old.Job, store.ErrTopicDraining
		case written != outrun:
			return fresh.Job, nil
		}
	}
	return job.Job{}, store.ErrConflict
}

// newMark is unique enough among the changes of one version of one job.
func newMark() string { return strconv.FormatUint(rand.Uint64(), 36) } //nolint:gosec // no secret

// decode reads a record with all that is known of the job.
func (s *Store) decode(ctx context.Context, sh *shard, key job.Key, w raw) (*record, error) {
	r, err := decodeRecord(key, w)
	if err != nil {
		return nil, err
	}
	if err := s.refine(ctx, sh, r); err != nil {
		return nil, err
	}
	r.Job = s.whole(r)
	return r, nil
}

// written says what became of a put, in the words of lua/update.lua.
type written int

const (
	outrun   written = iota // something else stands there
	stored                  // it is done
	already                 // an earlier run of the same put did it
	full                    // the topic takes no more
	draining                // nor this one
)

type runner = func(ctx context.Context, sh *shard, script *redis.Script, keys []string, args []any) (*redis.Cmd, error)

// putting says how a record is put.
type putting struct {
	run    runner
	script *redis.Script // updateScript, or takeScript if a full Redis is to refuse it
	obey   bool          // the topic's limits count
}

// put stores fresh in the place of old, or of nothing when old is nil, if that
// still stands there.
func (s *Store) put(ctx context.Context, p putting, sh *shard, old, fresh *record) (written, error) {
	encoded, err := fresh.encode()
	if err != nil {
		return outrun, err
	}
	if s.retention == 0 && fresh.State.Final() && fresh.State != job.Dead {
		encoded = raw{}
	}
	to := fresh.indexed()
	from, stored := to, raw{}
	from.bizKey = ""
	if old != nil {
		from, stored = old.indexed(), old.stored
	}
	return s.replace(ctx, p, sh, fresh.Key, replacing{from, to, stored, encoded, fresh.State, fresh.placeMillis()})
}

// indexed is where a job is named beside its record.
type indexed struct{ lane, group, bizKey string }

func (r *record) indexed() indexed {
	return indexed{r.Lane().String(), listing.DeadName(r.Lane(), r.Reason), r.Spec.BizKey}
}

// replacing is a change of a job in the words of lua/update.lua.
type replacing struct {
	from, to indexed
	old, raw raw
	state    job.State
	place    string
}

// replace stores a record in the place of another if that still stands there.
func (s *Store) replace(ctx context.Context, p putting, sh *shard, key job.Key, r replacing) (written, error) {
	from, to := r.from, r.to
	keys := sh.own(p.script, sh.page(key), sh.bucket(from.lane), sh.dead(from.group), sh.biz(from.bizKey),
		sh.bucket(to.lane), sh.dead(to.group), sh.biz(to.bizKey), sh.ended(key.Topic))
	args := []any{
		sh.wake, key.ID, key.String(), from.lane, to.lane,
		r.old.registration, r.old.progress, r.raw.registration, r.raw.progress, int(r.state), r.place,
		from.bizKey != "", to.bizKey != "", from.group, to.group, p.obey,
	}
	cmd, err := p.run(ctx, sh, p.script, keys, args)
	if err != nil {
		return outrun, err
	}
	n, err := cmd.Int()
	return written(n), err
}

// placeMillis is the time that scores the job where its state puts it; empty
// for a running job, whose lease stays as it is.
func (r *record) placeMillis() string {
	switch {
	case r.State == job.Running:
		return ""
	case r.State.Final():
		return strconv.FormatInt(int64(r.EndedAt), 10)
	}
	return strconv.FormatInt(int64(r.WakeAt()), 10)
}

// Restore puts jobs back whose keys are free, or held by what they are to replace.
func (s *Store) Restore(ctx context.Context, jobs []store.RestoredJob) (int, error) {
	restored := 0
	for i := range jobs {
		fresh := newRecord(jobs[i].Job, jobs[i].Log)
		if !fresh.State.Final() {
			fresh.State = fresh.Pending()
		}
		sh := s.shards[s.shardOf(fresh.Key)]
		old, err := s.replaced(ctx, sh, &jobs[i])
		if err != nil {
			return restored, err
		}
		// Nobody is told of it: what a failover loses is found missing again.
		p := putting{run: s.run, script: updateScript}
		if old == nil {
			p.script = takeScript
		}
		written, err := s.put(ctx, p, sh, old, fresh)
		if redis.HasErrorPrefix(err, outOfMemory) {
			return restored, fmt.Errorf("%w: %w", store.ErrFull, err)
		}
		if err != nil {
			return restored, err
		}
		if written == stored {
			restored++
		}
	}
	return restored, nil
}

// replaced is the record that r is to replace, or nil: what stands there then
// is left alone.
func (s *Store) replaced(ctx context.Context, sh *shard, r *store.RestoredJob) (*record, error) {
	if r.Over == nil {
		return nil, nil
	}
	old, err := s.load(ctx, sh, r.Job.Key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil || !r.Over.Of(&old.Job) {
		return nil, err
	}
	return old, nil
}

// read gives the record and the server's time.
func (s *Store) read(ctx context.Context, sh *shard, key job.Key) (raw, job.Instant, error) {
	raws, now, err := s.readRaw(ctx, sh, []job.Key{key}, 0, false)
	if err != nil {
		return raw{}, now, err
	}
	if raws[0].missing() {
		return raws[0], now, store.ErrNotFound
	}
	return raws[0], now, nil
}

// refine looks up in its bucket whether an unfinished job was carried.
func (s *Store) refine(ctx context.Context, sh *shard, r *record) error {
	if r.State.Final() {
		return nil
	}
	score, err := s.db.ZScore(ctx, sh.bucket(r.Lane().String()), r.ID).Result()
	switch {
	case isNil(err):
		return nil
	case err != nil:
		return s.wrap(err)
	}
	r.refine(score)
	return nil
}
