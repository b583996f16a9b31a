package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// walkCount is how many fields of a page are read at once, roughly: some are bodies.
const walkCount = 10

// reportEvery is the interval of progress reports.
const reportEvery = 5 * time.Second

// tally counts for a report, from several goroutines.
type tally struct {
	mu         sync.Mutex
	told       time.Time
	unreadable map[job.Key]bool
}

// count changes the report, and calls Report every reportEvery.
func (m *mover) count(change func(r *Resharding)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.report)
	if now := job.SystemClock().Now(); m.o.Report != nil && now.Sub(m.told) >= reportEvery {
		m.told = now
		m.o.Report(m.report)
	}
}

// cannotRead counts a job that stays where it is, once.
func (m *mover) cannotRead(key job.Key) {
	m.count(func(r *Resharding) {
		if m.unreadable == nil {
			m.unreadable = map[job.Key]bool{}
		}
		m.unreadable[key] = true
		r.Unreadable = int64(len(m.unreadable))
	})
}

// moveJobs moves all jobs that belong to another shard, the pages of a shard side by side.
func (m *mover) moveJobs(ctx context.Context) error {
	for _, sh := range m.from.shards {
		if err := m.walk(ctx, m.from, sh, func(ctx context.Context, key job.Key) error { return m.move(ctx, sh, key) }); err != nil {
			return err
		}
	}
	return nil
}

// walk calls do with each job of a shard once at least.
func (m *mover) walk(ctx context.Context, s *Store, sh *shard, do func(ctx context.Context, key job.Key) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, page := range sh.jobs {
		group.Go(func() error {
			scan := func(cursor uint64) *redis.ScanCmd { return s.db.HScan(ctx, page, cursor, "", walkCount) }
			return s.eachPage(scan, func(fields []string) error {
				for i := 0; i < len(fields); i += 2 {
					if key, ok := registeredAs(fields[i]); ok {
						if err := do(ctx, key); err != nil {
							return err
						}
					}
				}
				return nil
			})
		})
	}
	return group.Wait()
}

// move moves one job, unless it is in its shard.
func (m *mover) move(ctx context.Context, sh *shard, key job.Key) error {
	old, err := m.from.load(ctx, sh, key)
	if led := (*forwardedError)(nil); errors.As(err, &led) {
		return m.dropForward(ctx, sh, key) // checking writes the necessary ones
	}
	m.count(func(r *Resharding) { r.Walked++ })
	if errors.Is(err, store.ErrUnreadable) {
		m.cannotRead(key)
		return nil
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil // the walk has met it twice
	}
	if err != nil {
		return err
	}
	target := m.to.shards[m.to.place(key, old.Spec.OrderKey)]
	if target.prefix == sh.prefix {
		return nil
	}
	if err := m.dropForward(ctx, target, key); err != nil {
		return err
	}
	fresh := *old
	if !fresh.State.Final() {
		fresh.State = fresh.Pending()
	}
	c, err := m.to.changeOf(nil, &fresh)
	if err != nil {
		return err
	}
	if old.Spec.Count != nil {
		keys, err := m.from.countKeys(ctx, sh, old.UID)
		if err != nil {
			return err
		}
		if err := m.to.putCountKeys(ctx, target, &old.Job, keys); err != nil {
			return err
		}
	}
	done, err := m.to.change(ctx, m.to.commit, takeScript, target, false, []change{c})
	if err != nil {
		return err
	}
	if done[0] == outrun {
		if err := m.movedBefore(ctx, target, old); err != nil {
			return err
		}
	}
	if err := m.remove(ctx, sh, old); err != nil {
		return err
	}
	m.count(func(r *Resharding) { r.Moved++ })
	return nil
}

// dropForward removes a forward.
func (m *mover) dropForward(ctx context.Context, sh *shard, key job.Key) error {
	was, err := m.from.db.HGet(ctx, sh.page(key), key.String()).Result()
	if _, ok := forwardedTo(was); ok {
		_, err = m.from.swap(ctx, sh, key, was, "")
	}
	if isNil(err) {
		return nil
	}
	return err
}

// putForward writes the forward of a job whose shard is not its home.
func (m *mover) putForward(ctx context.Context, r *record) error {
	if !m.to.away(r.Key, r.Spec.OrderKey) {
		return nil
	}
	done, err := m.to.swap(ctx, m.to.shards[m.to.shardOf(r.Key)], r.Key, "", forward(r.UID, r.Spec.OrderKey))
	if err == nil && !done {
		err = fmt.Errorf("%s: another job has its topic and id", r.Key)
	}
	return err
}

// movedBefore checks that the new shard has the same job: an earlier
// run was broken off between its two steps.
func (m *mover) movedBefore(ctx context.Context, sh *shard, old *record) error {
	there, err := m.to.load(ctx, sh, old.Key)
	if err != nil {
		return fmt.Errorf("%s in its new shard: %w", old.Key, err)
	}
	if there.UID != old.UID || there.Version != old.Version {
		return fmt.Errorf("%s: its new shard already has another job (%s v%d, and %s v%d in the old one)",
			old.Key, there.UID, there.Version, old.UID, old.Version)
	}
	return nil
}

// remove deletes a job from its old shard with its entries in all indexes.
func (m *mover) remove(ctx context.Context, sh *shard, old *record) error {
	c := change{key: old.Key, was: old.stored, from: old.position()}.forgetting()
	done, err := m.from.change(ctx, m.from.commit, changeScript, sh, false, []change{c})
	if err != nil || done[0] != outrun {
		return err
	}
	_, err = m.from.load(ctx, sh, old.Key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil // the reply was lost, not the work
	case err == nil:
		err = store.ErrConflict
	}
	return fmt.Errorf("%s in its old shard: %w", old.Key, err)
}

// checkJobs checks each job in its new shard, and counts all.
func (m *mover) checkJobs(ctx context.Context) error {
	var after Census
	for n, sh := range m.to.shards {
		err := m.walk(ctx, m.to, sh, func(ctx context.Context, key job.Key) error { return m.check(ctx, n, sh, key) })
		if err == nil {
			err = m.census(ctx, m.to, sh, &after)
		}
		if err != nil {
			return err
		}
	}
	for _, sh := range m.from.shards {
		if m.same(sh) {
			continue
		}
		err := m.walk(ctx, m.from, sh, func(ctx context.Context, key job.Key) error {
			if _, err := m.from.load(ctx, sh, key); !errors.Is(err, store.ErrUnreadable) {
				return fmt.Errorf("%s was left in its old shard", key)
			}
			m.cannotRead(key)
			return nil
		})
		if err == nil {
			err = m.census(ctx, m.from, sh, &after)
		}
		if err != nil {
			return err
		}
	}
	m.count(func(r *Resharding) { r.After = after })
	return nil
}

// census adds the counts of a shard.
func (m *mover) census(ctx context.Context, s *Store, sh *shard, c *Census) error {
	counts, err := s.counts(ctx, sh, "", []string{ofAll})
	if err != nil {
		return err
	}
	for state, n := range counts[0] {
		c.add(state, n)
	}
	return nil
}

// check checks that a job is in its shard and its bucket.
func (m *mover) check(ctx context.Context, n int, sh *shard, key job.Key) error {
	r, err := m.to.load(ctx, sh, key)
	if led := (*forwardedError)(nil); errors.As(err, &led) {
		return nil
	}
	switch {
	case errors.Is(err, store.ErrUnreadable):
		m.cannotRead(key)
		return nil
	case err != nil:
		return err
	}
	if place := m.to.place(key, r.Spec.OrderKey); place != n {
		return fmt.Errorf("%s is in shard %d and belongs to shard %d", key, n, place)
	}
	if err := m.putForward(ctx, r); err != nil {
		return err
	}
	if !r.State.Final() {
		if err := m.to.db.ZScore(ctx, sh.bucket(r.Lane().String()), key.ID).Err(); err != nil {
			return fmt.Errorf("%s in its bucket: %w", key, err)
		}
	}
	m.count(func(r *Resharding) { r.Checked++ })
	return nil
}
