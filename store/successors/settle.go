package successors

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Store is the part of a store that Settle needs.
type Store interface {
	Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error)
	Update(ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error) (job.Job, error)
}

// Settle settles, and keeps the callbacks of failed attempts few: a newer one takes the place of an
// older one that was not sent, and those that have ended lose their content. The older one gives way
// before the newer one is registered, so a job never has two of them that wait, see
// job.Settlement.Supersedes. Results and errors are those of Store.Settle. After an error, the caller
// may repeat the call.
func Settle(ctx context.Context, s Store, settlements []job.Settlement) ([]store.Settled, error) {
	var older []job.Key
	for i := range settlements {
		if key, ok := settlements[i].Supersedes(); ok {
			older = append(older, key)
		}
	}
	if err := updateAll(ctx, s, older, (*job.Job).Supersede); err != nil {
		return nil, err
	}
	settled, err := s.Settle(ctx, settlements)
	if err != nil {
		return nil, err
	}
	var ended []job.Key
	for i := range settled {
		if r := &settled[i]; r.Status == store.Applied && r.To.Final() && job.Passing(settlements[i].Key.ID) {
			ended = append(ended, settlements[i].Key)
		}
	}
	// The outcomes are stored. Content that stays now goes after the retention.
	_ = updateAll(ctx, s, ended, func(j *job.Job, _ job.Instant) error { return j.Strip() })
	return settled, nil
}

// updatesAtOnce bounds the concurrent updates of a call.
const updatesAtOnce = 16

// updateAll changes jobs that exist, unless change returns job.ErrFinished. The changes are
// unacknowledged, because outcomes do not depend on replicas. If one is lost, a
// callback is sent or keeps its content.
func updateAll(ctx context.Context, s Store, keys []job.Key, change func(j *job.Job, now job.Instant) error) error {
	ctx = store.Unacknowledged(ctx)
	var group errgroup.Group
	group.SetLimit(updatesAtOnce)
	for _, key := range keys {
		group.Go(func() error {
			_, err := s.Update(ctx, key, change)
			if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, job.ErrFinished) {
				return nil
			}
			return fmt.Errorf("replace the callback %s: %w", key, err)
		})
	}
	return group.Wait()
}
