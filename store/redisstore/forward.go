package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// All jobs of an order key are in one shard, so that one script passes the turn on. The
// shard of a job without order key is its home: it follows from topic and id. If the order
// key puts the job into another shard, its home has a forward with the order key instead.
//
// A registration writes the forward first and the job then, and refreshes a forward without
// a job. So a job is always found, and an id names one job. Before a forward changes to
// another key, the shard that it led to gets a fence: a forward that makes a slow
// registration start over. A forward without a job counts as no job.

// forwardSign begins a forward. The head of a registration begins with a digit.
const forwardSign = ">\n"

// forward is an encoded forward. It contains the uid of the job, so that FindUID finds it.
func forward(uid, orderKey string) string {
	id, _ := ulid.ParseStrict(uid) // an unusable one cannot be registered
	return forwardSign + string(id[:]) + orderKey
}

// forwardedTo is the order key of a forward.
func forwardedTo(registration string) (orderKey string, ok bool) {
	if !strings.HasPrefix(registration, forwardSign) || len(registration) < len(forwardSign)+uidLen {
		return "", false
	}
	return registration[len(forwardSign)+uidLen:], true
}

// forwardedError reports a forward in the place of a record.
type forwardedError struct{ orderKey string }

func (e *forwardedError) Error() string { return "the job is in the shard of its order key" }
func (e *forwardedError) Unwrap() error { return store.ErrNotFound }

// shardFor is the shard of a job by its order key, or its home without one.
func (s *Store) shardFor(key job.Key, orderKey string) int {
	if orderKey == "" {
		return s.shardOf(key)
	}
	return s.shardOfHash(store.OrderHash(key.Topic, orderKey))
}

func (s *Store) away(key job.Key, orderKey string) bool {
	return s.shardFor(key, orderKey) != s.shardOf(key)
}

// sign is a change of the value in the place of a registration.
func (k *shardKeys) sign(key job.Key, was, now string) field {
	return field{k.page(key), key.String(), was, now}
}

// swap writes the value in the place of a registration, and reports whether it is there
// now.
func (s *Store) swap(ctx context.Context, sh *shard, key job.Key, was, now string) (bool, error) {
	done, err := changeFields(ctx, s.commit, reserveScript, sh, []field{sh.sign(key, was, now)})
	return err == nil && done[0] != fieldDiffers, err
}

// reserve writes the forwards of new jobs whose shard is not their home. It returns the
// numbers of the jobs that can be registered in their shards, in ascending order, and of
// those whose homes have another value.
func (s *Store) reserve(ctx context.Context, regs []store.Registration) (here, taken []int, err error) {
	byHome := map[int][]int{}
	for i := range regs {
		if r := &regs[i]; s.away(r.Key, r.Spec.OrderKey) {
			home := s.shardOf(r.Key)
			byHome[home] = append(byHome[home], i)
		} else {
			here = append(here, i)
		}
	}
	for home, items := range byHome {
		for some := range slices.Chunk(items, maxBatch) {
			sh, signs := s.shards[home], make([]field, len(some))
			for n, i := range some {
				signs[n] = sh.sign(regs[i].Key, "", forward(regs[i].UID, regs[i].Spec.OrderKey))
			}
			done, err := changeFields(ctx, s.commit, reserveScript, sh, signs)
			switch {
			case refuses(err): // an earlier registration may be there
				done = make([]int64, len(some))
			case err != nil:
				return nil, nil, err
			}
			for n, i := range some {
				if done[n] != fieldDiffers {
					here = append(here, i)
				} else {
					taken = append(taken, i)
				}
			}
		}
	}
	slices.Sort(here)
	slices.Sort(taken)
	return here, taken, nil
}

// gone is a job that its shard has forgotten.
type gone struct {
	key           job.Key
	uid, orderKey string
}

// unforward removes the forwards of deleted jobs. A forward left by a failure counts as no job; the
// next registration of its id, or Reshard, replaces it.
func (s *Store) unforward(ctx context.Context, jobs []gone) {
	byHome := map[*shard][]field{}
	for _, g := range jobs {
		if s.away(g.key, g.orderKey) {
			home := s.shards[s.shardOf(g.key)]
			byHome[home] = append(byHome[home], home.sign(g.key, forward(g.uid, g.orderKey), ""))
		}
	}
	for home, signs := range byHome {
		if _, err := changeFields(ctx, s.run, fieldsScript, home, signs); err != nil {
			s.log.Warn("forwards of forgotten jobs could not be removed", "jobs", len(signs), "error", err)
		}
	}
}

// makeWay frees the place of a new job whose forward is written, or which needs none. It
// deletes an old job that gives way in another shard; the registration replaces one in the
// same shard. It returns an old job that does not give way.
func (s *Store) makeWay(ctx context.Context, key job.Key, uid, orderKey string, givesWay func(old *job.Job) bool) (old *job.Job, err error) {
	home, target := s.shards[s.shardOf(key)], ""
	if s.away(key, orderKey) {
		target = forward(uid, orderKey)
	}
	for range store.Tries(ctx) {
		w, _, err := s.read(ctx, home, key)
		if err != nil {
			return nil, err
		}
		led, forwarded := forwardedTo(w.registration)
		sh, v := home, w
		if forwarded {
			sh = s.shards[s.shardFor(key, led)]
			if v, _, err = s.read(ctx, sh, key); err != nil {
				return nil, err
			}
		}
		stays := forwarded && led == orderKey || !forwarded && target == ""
		if _, fence := forwardedTo(v.registration); !v.missing() && !fence {
			r, err := s.decode(ctx, sh, key, v)
			switch {
			case errors.Is(err, errRecord):
				s.log.Error("a job's record cannot be read; it is registered anew", "error", err)
				if err := s.forget(ctx, sh, key, v); err != nil {
					return nil, err
				}
				continue
			case err != nil:
				return nil, err
			case !givesWay(&r.Job):
				return &r.Job, nil
			case !stays:
				c := change{key: key, was: r.stored, from: r.position()}.forgetting()
				if _, err := s.change(ctx, s.commit, changeScript, sh, false, []change{c}); err != nil {
					return nil, err
				}
				continue
			}
		} else if forwarded {
			mark := ""
			if led != orderKey {
				mark = forward(uid, orderKey)
			}
			if done, err := s.swap(ctx, sh, key, v.registration, mark); err != nil {
				return nil, err
			} else if !done {
				continue
			}
		}
		if w.registration == target || !forwarded && stays {
			return nil, nil
		}
		if done, err := s.swap(ctx, home, key, w.registration, target); err != nil || done {
			return nil, err
		}
	}
	return nil, store.ErrConflict
}

// registerElsewhere registers a job whose home or shard has a forward.
func (s *Store) registerElsewhere(ctx context.Context, reg store.Registration) (store.Registered, error) {
	key, orderKey := reg.Key, reg.Spec.OrderKey
	for range store.Tries(ctx) {
		old, err := s.makeWay(ctx, key, reg.UID, orderKey, func(old *job.Job) bool {
			return old.UID == reg.UID || rules.Against(&reg, old) == store.Created
		})
		switch {
		case refuses(err):
			return store.Registered{Outcome: store.StoreFull}, nil
		case errors.Is(err, store.ErrConflict):
			return store.Registered{Outcome: store.Busy, Job: job.Job{Key: key}}, nil
		case err != nil:
			return store.Registered{}, err
		case old != nil:
			return store.HeldBy(rules.Against(&reg, old), *old), nil
		}
		out := make([]store.Registered, 1)
		left, err := s.registerBatch(ctx, s.shards[s.shardFor(key, orderKey)], []store.Registration{reg}, []int{0}, out)
		if led := (*forwardedError)(nil); errors.As(err, &led) || err == nil && len(left) > 0 {
			continue
		}
		if uid := out[0].Job.UID; err == nil && uid != "" && uid != reg.UID && s.away(key, orderKey) {
			_, err = s.swap(ctx, s.shards[s.shardOf(key)], key, forward(reg.UID, orderKey), forward(uid, orderKey))
		}
		return out[0], err
	}
	return store.Registered{Outcome: store.Busy, Job: job.Job{Key: key}}, nil
}
