package redisstore

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// restoredAtOnce bounds the jobs that one call restores.
const restoredAtOnce = 100

// Restore stores jobs whose keys are free, or held by RestoredJob.Over.
func (s *Store) Restore(ctx context.Context, jobs []store.RestoredJob) (int, error) {
	var restored atomic.Int64
	jobs, err := s.reserveRestored(ctx, jobs)
	if err != nil {
		return 0, err
	}
	place := func(i int) int { return s.place(jobs[i].Job.Key, jobs[i].Job.Spec.OrderKey) }
	err = s.toShards(ctx, len(jobs), place, func(ctx context.Context, sh *shard, items []int) ([]int, error) {
		size := batchToRestore(jobs, items)
		again, err := s.restore(ctx, sh, jobs, items[:size], &restored)
		return append(again, items[size:]...), err
	})
	return int(restored.Load()), err
}

// batchToRestore is how many of the items one call restores: jobs of different keys.
func batchToRestore(jobs []store.RestoredJob, items []int) int {
	size := store.Batch(len(items), restoredAtOnce, func(i int) int {
		bytes := len(jobs[items[i]].Job.Spec.Body)
		for a := range jobs[items[i]].Log {
			bytes += len(jobs[items[i]].Log[a].ResponseBody)
		}
		return bytes
	})
	seen := make(map[job.Key]bool, size)
	for n, i := range items[:size] {
		if seen[jobs[i].Job.Key] {
			return n
		}
		seen[jobs[i].Job.Key] = true
	}
	return size
}

// restore restores jobs of one shard. It returns the jobs left for another call.
func (s *Store) restore(ctx context.Context, sh *shard, jobs []store.RestoredJob, items []int, restored *atomic.Int64) ([]int, error) {
	var keys []job.Key // of what may be replaced
	for _, i := range items {
		if jobs[i].Over != nil {
			keys = append(keys, jobs[i].Job.Key)
		}
	}
	raws, err := s.readAll(ctx, sh, keys)
	if err != nil {
		return nil, err
	}
	there := s.decodeAll(keys, raws)
	// A full Redis refuses jobs that it lacks.
	changes, of := map[*redis.Script][]change{}, map[*redis.Script][]int{}
	for _, i := range items {
		r, old, script := &jobs[i], (*record)(nil), takeScript
		if r.Over != nil {
			old, there = there[0], there[1:]
		}
		if old != nil {
			if !r.Over.Of(&old.Job) {
				continue
			}
			script = changeScript
		}
		fresh := newRecord(r.Job, store.KeptLog(r.Log, store.MaxLogBytes))
		if !fresh.State.Final() {
			fresh.State = fresh.Pending()
		}
		if fresh.Spec.Count != nil {
			fresh.mark = newMark() // nodes may remember other terms of its count
			if err := s.putCountKeys(ctx, sh, &r.Job, r.CountKeys); err != nil {
				return nil, err
			}
		}
		c, err := s.changeOf(old, fresh)
		if err != nil {
			return nil, err
		}
		changes[script], of[script] = append(changes[script], c), append(of[script], i)
	}
	var again []int
	for _, script := range []*redis.Script{changeScript, takeScript} {
		if len(changes[script]) == 0 {
			continue
		}
		// Not confirmed by replicas: reconciling finds a job again that a failover loses.
		done, err := s.change(ctx, s.run, script, sh, false, changes[script])
		if redis.HasErrorPrefix(err, outOfMemory) {
			return nil, fmt.Errorf("%w: %w", store.ErrFull, err)
		}
		if err != nil {
			return nil, err
		}
		for n, w := range done {
			switch w {
			case stored:
				restored.Add(1)
			case left:
				again = append(again, of[script][n])
			}
		}
	}
	return again, nil
}

// reserveRestored writes the forwards of restored jobs whose shard is not their home. It
// leaves out jobs whose place is taken.
func (s *Store) reserveRestored(ctx context.Context, jobs []store.RestoredJob) ([]store.RestoredJob, error) {
	if len(s.shards) == 1 {
		return jobs, nil
	}
	regs := make([]store.Registration, len(jobs))
	for i := range jobs {
		j := &jobs[i].Job
		regs[i] = store.Registration{Key: j.Key, UID: j.UID, Spec: job.Spec{OrderKey: j.Spec.OrderKey}}
	}
	here, taken, err := s.reserve(ctx, regs)
	if err != nil {
		return nil, err
	}
	for _, i := range taken {
		r := &regs[i]
		old, err := s.makeWay(ctx, r.Key, r.UID, r.Spec.OrderKey, func(old *job.Job) bool {
			return jobs[i].Over != nil && jobs[i].Over.Of(old)
		})
		switch {
		case redis.HasErrorPrefix(err, outOfMemory):
			return nil, fmt.Errorf("%w: %w", store.ErrFull, err)
		case err != nil:
			return nil, err
		case old == nil:
			here = append(here, i)
		}
	}
	if len(here) == len(jobs) {
		return jobs, nil
	}
	slices.Sort(here)
	some := make([]store.RestoredJob, len(here))
	for n, i := range here {
		some[n] = jobs[i]
	}
	return some, nil
}
