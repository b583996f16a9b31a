package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// copied is a job on its way to its new shard, or from another store.
type copied struct {
	*record
	log       []job.Attempt
	countKeys []string
	stops     bool // its order key
}

// claimedTurn is the stage of a turn that no other job may take: CLAIMED_TURN in Lua.
var claimedTurn = strconv.Itoa(int(job.Claimed))

// copy stores jobs in their shards. It leaves out those whose keys are taken: an earlier run may have stored them.
func (s *Store) copy(ctx context.Context, jobs []copied) error {
	missing, err := s.reserveCopies(ctx, jobs)
	if err != nil {
		return err
	}
	where := func(i int) int { return s.shardFor(jobs[missing[i]].Key, jobs[missing[i]].Spec.OrderKey) }
	return s.toShards(ctx, len(missing), where, func(ctx context.Context, sh *shard, items []int) (again []int, err error) {
		changes := make([]change, min(len(items), maxBatch))
		for n := range changes {
			if changes[n], err = s.copyOf(ctx, sh, &jobs[missing[items[n]]]); err != nil {
				return nil, err
			}
		}
		// Callers wait for replicas.
		done, err := s.change(ctx, s.run, takeScript, sh, false, changes)
		for n, w := range done {
			if w == left {
				again = append(again, items[n])
			}
		}
		return append(again, items[len(changes):]...), fullOr(err)
	})
}

// copyOf is the change that stores a job in its new shard, after the keys that it counted.
func (s *Store) copyOf(ctx context.Context, sh *shard, j *copied) (change, error) {
	fresh := newRecord(j.Job, j.log)
	if !fresh.State.Final() {
		fresh.State = fresh.Pending()
	}
	if fresh.Spec.Count != nil {
		fresh.mark = newMark() // nodes may remember other terms of its count
		if err := s.putCountKeys(ctx, sh, j.UID, j.countKeys); err != nil {
			return change{}, err
		}
	}
	c, err := s.changeOf(nil, fresh)
	if fresh.State == job.Dead && c.to.turn != "" {
		order, turn, _ := strings.Cut(c.to.turn, " ")
		if c.to.turn = ""; j.stops {
			c.to.turn = order + " " + claimedTurn + turn[len(claimedTurn):]
		}
	}
	return c, err
}

// reserveCopies writes the forwards of jobs whose shard is not their home. It returns the numbers of
// the jobs whose place is free.
func (s *Store) reserveCopies(ctx context.Context, jobs []copied) ([]int, error) {
	regs := make([]store.Registration, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		regs[i] = store.Registration{Key: j.Key, UID: j.UID, Spec: job.Spec{OrderKey: j.Spec.OrderKey}}
	}
	free, taken, err := s.reserve(ctx, regs)
	if err != nil {
		return nil, fullOr(err)
	}
	never := func(*job.Job) bool { return false }
	for _, i := range taken {
		old, err := s.makeWay(ctx, regs[i].Key, regs[i].UID, regs[i].Spec.OrderKey, never)
		if err != nil {
			return nil, fullOr(err)
		}
		if old == nil {
			free = append(free, i)
		}
	}
	return free, nil
}

// fullOr turns the error of a full Redis into store.ErrFull.
func fullOr(err error) error {
	if redis.HasErrorPrefix(err, outOfMemory) {
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	return err
}

// Kinds returns the kinds of documents.
func (s *Store) Kinds(ctx context.Context) (kinds []string, err error) {
	from := s.docs("")
	err = s.eachKey(ctx, from+"*", func(keys []string) error {
		for _, key := range keys {
			kinds = append(kinds, strings.TrimPrefix(key, from))
		}
		return nil
	})
	slices.Sort(kinds)
	return slices.Compact(kinds), s.wrap(err)
}

// Aside reads the keys that were counted for a job, and whether it stops its order key.
func (s *Store) Aside(ctx context.Context, j *job.Job) (aside store.Aside, err error) {
	sh := s.shards[s.shardFor(j.Key, j.Spec.OrderKey)]
	if j.Spec.Count != nil {
		if aside.CountKeys, err = s.countKeys(ctx, sh, j.UID); err != nil {
			return aside, err
		}
		slices.Sort(aside.CountKeys)
	}
	if j.State != job.Dead || j.Spec.OrderKey == "" {
		return aside, nil
	}
	head, err := s.db.HGet(ctx, sh.prefix+"heads", orderOf(j.Topic, j.Spec.OrderKey)).Result()
	if isNil(err) {
		return aside, nil
	}
	aside.Stops = strings.HasPrefix(head, claimedTurn) && strings.HasSuffix(head, "|"+j.ID)
	return aside, s.wrap(err)
}

// Restore stores jobs as they are.
func (s *Store) Restore(ctx context.Context, jobs []store.Restored) error {
	all := make([]copied, len(jobs))
	for i := range jobs {
		r := &jobs[i]
		all[i] = copied{record: &record{Job: r.Job}, log: r.Log, countKeys: r.CountKeys, stops: r.Stops}
	}
	if err := s.copy(ctx, all); err != nil {
		return err
	}
	var mu sync.Mutex // shards are asked at once
	var refused error
	where := func(i int) int { return s.shardFor(jobs[i].Job.Key, jobs[i].Job.Spec.OrderKey) }
	err := s.toShards(ctx, len(jobs), where, func(ctx context.Context, sh *shard, items []int) ([]int, error) {
		keys := make([]job.Key, min(len(items), maxRead))
		for n := range keys {
			keys[n] = jobs[items[n]].Job.Key
		}
		there, err := s.someRecords(ctx, sh, keys)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		for n, is := range there {
			if r := &jobs[items[n]]; is == nil {
				refused = errors.Join(refused, r.Same("", 0))
			} else {
				refused = errors.Join(refused, r.Same(is.UID, is.Version))
			}
		}
		_, err = s.commit(ctx, sh, markScript, []string{sh.mark}, nil)
		return items[len(there):], err
	})
	return errors.Join(err, refused)
}
