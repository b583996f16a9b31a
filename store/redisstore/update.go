package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// Update changes a job by comparing and setting its record.
func (s *Store) Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	for range store.Tries(ctx) {
		sh, old, err := s.find(ctx, key)
		if err == nil {
			err = s.complete(ctx, sh, old)
		}
		if err != nil {
			return job.Job{}, err
		}
		// Decoded again, not copied: change may write into the memory of old.
		fresh, err := decodeRecord(key, old.stored)
		if err != nil {
			return job.Job{}, err
		}
		fresh.State, fresh.LastAttempt = old.State, old.LastAttempt
		if err := change(&fresh.Job, old.now); err != nil {
			return old.Job, err
		}
		if fresh.State == job.Ready {
			// Its hint may name another lane now; as a pending job it is carried again.
			fresh.State = fresh.Pending()
		}
		fresh.Version, fresh.UpdatedAt = fresh.Version+1, max(old.now, fresh.CreatedAt)
		fresh.mark = newMark()
		written, err := s.putUpdated(ctx, sh, old, fresh)
		switch {
		case err != nil:
			return job.Job{}, err
		case written == full:
			return old.Job, store.ErrTopicFull
		case written == draining:
			return old.Job, store.ErrTopicDraining
		case written != outrun:
			if s.forgets(fresh) {
				s.unforward(ctx, []gone{{key: key, uid: fresh.UID, orderKey: fresh.Spec.OrderKey}})
			}
			return fresh.Job, nil
		}
	}
	return job.Job{}, store.ErrConflict
}

// putUpdated puts an updated job, with the callback of its end. If Redis is full, the callback has
// no content that may be large, and a change that needs room is refused.
func (s *Store) putUpdated(ctx context.Context, sh *shard, old, fresh *record) (written, error) {
	if rules.NeedsRoom(&old.Job, &fresh.Job) {
		done, err := s.put(ctx, takeScript, sh, old, fresh, fresh.Ended(old.State, job.ShedNothing))
		if refuses(err) {
			err = fmt.Errorf("%w: %w", store.ErrFull, err)
		}
		return done, err
	}
	if next := fresh.Ended(old.State, job.ShedNothing); len(next) > 0 {
		done, err := s.put(ctx, takeScript, sh, old, fresh, next)
		if !refuses(err) {
			return done, err
		}
		s.log.Warn("Redis is full: left the request out of a callback", "topic", fresh.Topic, "id", fresh.ID)
	}
	return s.put(ctx, changeScript, sh, old, fresh, fresh.Ended(old.State, job.ShedContent))
}

// newMark returns a mark that is unique among the changes of one version of a job.
func newMark() string { return strconv.FormatUint(rand.Uint64(), 36) } //nolint:gosec // no secret
