package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Register takes jobs in, a script call for each shard and batch.
func (s *Store) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	out := make([]store.Registered, len(regs))
	perShard := make([][]int, len(s.shards))
	for i := range regs {
		n := s.shardOf(regs[i].Key)
		perShard[n] = append(perShard[n], i)
	}
	for n, indexes := range perShard {
		for len(indexes) > 0 {
			batch := indexes[:min(len(indexes), maxBatch)]
			indexes = indexes[len(batch):]
			if err := s.registerBatch(ctx, s.shards[n], regs, batch, out); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (s *Store) registerBatch(ctx context.Context, sh *shard, regs []store.Registration, batch []int, out []store.Registered) error {
	b := sh.newBatch(len(batch), 6, nil)
	for _, i := range batch {
		r := &regs[i]
		delay, ttl := millis(r.Spec.When.Delay), millis(r.Spec.TTL)
		if r.Spec.When.At != 0 {
			delay = none
		}
		body, err := encodeBody(r.UID, &r.Spec, delay, ttl)
		if err != nil {
			return err
		}
		lane := (&job.Job{Key: r.Key, Spec: r.Spec}).Lane()
		b.add(r.Key, lane, body, delay, int64(r.Spec.When.At), ttl, millis(r.Spec.Timeout), b.index(r.Spec.BizKey))
	}
	keys, args := b.call([]string{sh.lanes, sh.counts, sh.held, sh.topics}, sh.wake)
	cmd, err := s.commit(ctx, sh, registerScript, keys, args)
	if err != nil {
		return err
	}
	reply, err := timed(cmd)
	if err != nil {
		return err
	}
	if len(reply) != 1+len(batch) {
		return fmt.Errorf("redisstore: register answered %d values for %d jobs", len(reply), len(batch))
	}
	now := sh.clock.observe(reply[0])
	for n, i := range batch {
		raw, _ := reply[1+n].(string)
		if raw == "" {
			out[i] = store.Registered{Outcome: store.Created, Job: regs[i].Job(now)}
			continue
		}
		if refused, ok := refusals[raw]; ok {
			out[i] = store.Registered{Outcome: refused}
			continue
		}
		if out[i], err = s.registerTaken(ctx, sh, regs[i], raw); err != nil {
			return err
		}
	}
	return nil
}

// refusals are what lua/register.lua answers for jobs whose topic takes no more.
var refusals = map[string]store.RegisterOutcome{"full": store.TopicFull, "draining": store.TopicDraining}

// registerTaken registers a job whose key is held by the record raw.
func (s *Store) registerTaken(ctx context.Context, sh *shard, reg store.Registration, raw string) (store.Registered, error) {
	for range maxTries {
		var old *record
		if raw != "" {
			var err error
			old, err = s.decode(ctx, sh, reg.Key, raw)
			if errors.Is(err, errRecord) {
				s.log.Error("a job's record cannot be read; it is registered anew", "error", err)
				err, old, raw = s.forget(ctx, sh, reg.Key, raw), nil, ""
			}
			if err != nil {
				return store.Registered{}, err
			}
		}
		if old != nil {
			// Our own record: the script was sent again after its reply was lost.
			if old.UID == reg.UID {
				return store.Registered{Outcome: store.Created, Job: old.Job}, nil
			}
			if outcome := reg.Against(&old.Job); outcome != store.Created {
				return store.Registered{Outcome: outcome, Job: old.Job}, nil
			}
		}
		current, now, err := s.read(ctx, sh, reg.Key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return store.Registered{}, err
		}
		if current != raw {
			raw = current
			continue
		}
		j := reg.Job(now)
		if old != nil {
			j = reg.Over(&old.Job, now)
		}
		fresh, err := newRecord(j, nil)
		if err != nil {
			return store.Registered{}, err
		}
		if old != nil {
			fresh.Token = old.Token // no worker of the old job may settle the new one
		}
		written, err := s.put(ctx, s.commit, sh, old, fresh)
		switch {
		case err != nil:
			return store.Registered{}, err
		case written == full:
			return store.Registered{Outcome: store.TopicFull}, nil
		case written == draining:
			return store.Registered{Outcome: store.TopicDraining}, nil
		case written != outrun:
			return store.Registered{Outcome: store.Created, Job: fresh.Job}, nil
		}
	}
	return store.Registered{}, store.ErrConflict
}

// forget removes what is left of a job whose record raw cannot be read, so that
// its key is free: the lane that it was in is not known, so from all of its topic.
func (s *Store) forget(ctx context.Context, sh *shard, key job.Key, raw string) error {
	lanes, err := s.lanes(ctx, sh)
	if err != nil {
		return err
	}
	groups, err := s.db.ZRange(ctx, sh.deads, 0, -1).Result()
	if err != nil {
		return s.wrap(err)
	}
	foreign := func(name string) bool { return !strings.HasPrefix(name, key.Topic+"|") }
	lanes, groups = slices.DeleteFunc(lanes, foreign), slices.DeleteFunc(groups, foreign)
	keys := []string{sh.lanes, sh.counts, sh.out, sh.page(key), sh.deads, sh.ended(key.Topic)}
	args := []any{key.ID, key.Topic, raw, len(lanes)}
	for _, lane := range lanes {
		keys, args = append(keys, sh.bucket(lane)), append(args, lane)
	}
	for _, group := range groups {
		keys, args = append(keys, sh.dead(group)), append(args, group)
	}
	_, err = s.commit(ctx, sh, forgetScript, keys, args)
	return err
}
