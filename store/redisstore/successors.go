package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/successors"
)

// A settlement with successors, or of a job that was changed since it was claimed, is a change by
// lua/change.lua: the job's progress is read, decided on in Go, and replaced together with the
// registrations of the successors, if it is still the same. So the script of all other settlements
// knows nothing of successors, cancel requests and repetitions. The registration is read only if
// the settlement lacks the claimed job, and never written.

// follow adds the registrations of successors at an instant. The script makes them only
// together with the last change.
func (s *Store) follow(sh *shard, changes []change, next []store.Registration, at job.Instant) ([]change, error) {
	after := len(changes)
	for i := range next {
		c, err := s.changeOf(nil, newRecord(next[i].Job(at), nil))
		if err != nil {
			return nil, err
		}
		if s.shards[s.place(c.key, next[i].Spec.OrderKey)] != sh {
			return nil, fmt.Errorf("redisstore: %s is in another shard than its predecessor", c.key)
		}
		c.after = after
		changes = append(changes, c)
	}
	return changes, nil
}

// settling is a settlement with successors in progress.
type settling struct {
	item   int // of the call
	change int // its change, from 1; 0: none is needed
	result store.Settled
}

// settleApart settles the first jobs of a batch that are apart, as many as one call does. It
// returns the others, and jobs modified concurrently.
func (s *Store) settleApart(ctx context.Context, sh *shard, all []job.Settlement, items []int, apart []bool, out []store.Settled) (left []int, err error) {
	var batch []int
	var keys []job.Key
	what := progressOnly
	for _, i := range items {
		if !apart[i] || len(batch) == apartAtOnce {
			left = append(left, i)
			continue
		}
		batch, keys = append(batch, i), append(keys, all[i].Key)
		if all[i].Job == nil {
			what = wholeRecords
		}
	}
	raws, now, err := s.readRaw(ctx, sh, keys, store.BatchBytes, what)
	if err != nil {
		return nil, err
	}
	var changes []change
	var begun []settling
	bytes := 0
	for n, w := range raws {
		if bytes > store.BatchBytes {
			raws = raws[:n]
			break
		}
		one := settling{item: batch[n]}
		before := len(changes)
		if changes, one.result, err = s.settleOne(ctx, sh, changes, &all[batch[n]], w, now); err != nil {
			return nil, err
		}
		if len(changes) > before {
			one.change = before + 1
		}
		for _, c := range changes[before:] {
			bytes += len(c.now.registration)
		}
		begun = append(begun, one)
	}
	left = append(left, batch[len(raws):]...)
	var done []written
	if len(changes) > 0 {
		if done, err = s.change(ctx, s.run, changeScript, sh, false, changes); err != nil {
			return nil, err
		}
	}
	for _, one := range begun {
		if one.change == 0 || done[one.change-1] == stored || done[one.change-1] == already {
			out[one.item] = one.result
		} else {
			left = append(left, one.item)
		}
	}
	return left, nil
}

// settleOne adds the changes of a settlement to others, none if it changes nothing. w has the
// progress of the job.
func (s *Store) settleOne(ctx context.Context, sh *shard, changes []change, t *job.Settlement, w raw, now job.Instant) ([]change, store.Settled, error) {
	if w.missing() {
		return changes, store.Settled{Status: store.Missing, Now: now}, nil
	}
	stale := store.Settled{Status: store.Stale, Now: now}
	if w.progress == "" { // registered since, and not claimed
		return changes, stale, nil
	}
	var old *record
	var err error
	if t.Job == nil {
		old, err = decodeRecord(t.Key, w)
	} else if old, err = claimedRecord(t.Job, w.progress); errors.Is(err, errOtherUID) {
		old, err = s.load(ctx, sh, t.Key)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return changes, stale, nil
	case errors.Is(err, errRecord):
		s.log.Error("a job's record cannot be read", "error", err)
		return changes, stale, nil
	case err != nil:
		return nil, stale, err
	case old.Token != t.Token, old.State != job.Running && old.nonce != settledNonce:
		return changes, stale, nil
	case old.State != job.Running:
		r, err := s.settledBefore(ctx, sh, old, t, now)
		return changes, r, err
	}
	c := t.Change(old.CancelRequested)
	r := applied(t, c, now)
	r.UID, r.Version = old.UID, old.Version+1
	fresh := s.settledRecord(old, t, &r)
	following := s.successorsOf(old, t, c)
	next := change{key: t.Key, was: old.stored, now: raw{progress: fresh.encodeProgress(old.uid)}, from: old.position(), to: fresh.position()}
	if len(following) > 0 && following[0].Key == t.Key { // it takes the place of its predecessor
		again := newRecord(following[0].Over(&old.Job, now), nil)
		again.Token, again.nonce = old.Token, settledNonce
		if next, err = s.changeOf(old, again); err != nil {
			return nil, stale, err
		}
		following = following[1:]
	} else if s.forgets(fresh) {
		next = next.forgetting()
	}
	changes, err = s.follow(sh, append(changes, next), following, now)
	return changes, r, err
}

// settledNonce replaces the nonce of a settled claim; SETTLED in lua/settle.lua.
const settledNonce = "+"

// settledRecord is the record of a job after a settlement with the result r.
func (s *Store) settledRecord(old *record, t *job.Settlement, r *store.Settled) *record {
	log, err := old.attempts()
	if err != nil {
		s.log.Error("a job's log cannot be read", "error", err)
	}
	if t.Attempt != nil {
		a := *t.Attempt
		a.NextAt = r.NextAt
		log = append(log, a)
	}
	fresh := newRecord(old.Job, log)
	fresh.State, fresh.Reason, fresh.NextAt, fresh.EndedAt = r.To, r.Reason, r.NextAt, r.EndedAt
	fresh.Attempts, fresh.Snoozes, fresh.ExpiredLeases = t.Attempts, t.Snoozes, t.ExpiredLeases
	fresh.Version, fresh.nonce, fresh.mark = r.Version, settledNonce, old.mark
	return fresh
}

// successorsOf returns the registrations that follow from a change of a job. Successors
// that replace the job come first.
func (s *Store) successorsOf(old *record, t *job.Settlement, c job.Change) []store.Registration {
	if t.Job == nil {
		return nil
	}
	before, err := old.whole() // a claim leaves out the last attempt
	if err != nil {
		s.log.Error("a job's log cannot be read", "error", err)
	}
	claimed := *t.Job
	claimed.LastAttempt = before.LastAttempt
	of := *t
	of.Job = &claimed
	return successors.Of(old.UID, of.Successors(c, old.Version+1))
}

// settledBefore is the result of a settlement that an earlier run stored. Now is the time of that
// run if a successor shows it.
func (s *Store) settledBefore(ctx context.Context, sh *shard, old *record, t *job.Settlement, now job.Instant) (store.Settled, error) {
	r := store.Settled{
		Status: store.Applied, Repeated: true, To: old.State, Reason: old.Reason, NextAt: old.NextAt, EndedAt: old.EndedAt,
		Now: now, UID: old.UID, Version: old.Version,
	}
	if !old.State.Final() {
		r.Reason = t.Change(old.CancelRequested).Reason
	}
	if t.Job != nil && old.UID != t.Job.UID { // a successor took its place
		c := t.Change(false)
		r.To, r.Reason, r.NextAt, r.EndedAt, r.Now = c.To, c.Reason, 0, old.CreatedAt, old.CreatedAt
		r.UID, r.Version = t.Job.UID, t.Job.Version+1
		return r, nil
	}
	for _, n := range t.Successors(t.Change(old.CancelRequested), 0) {
		next, err := s.load(ctx, sh, n.Key)
		if err == nil {
			r.Now = next.CreatedAt
		} else if !errors.Is(err, store.ErrNotFound) {
			return r, err
		}
	}
	return r, nil
}

// apartAtOnce bounds the settlements of one call that Go decides on.
const apartAtOnce = 128
