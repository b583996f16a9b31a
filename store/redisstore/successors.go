package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
	"github.com/duehook/duehook/store/successors"
)

// A settlement with successors, or of a job that was changed since it was claimed, is a change by
// lua/change.lua: the job's progress is read, decided on in Go, and replaced together with the
// registrations of the successors, if it is still the same. So the script of all other settlements
// knows nothing of successors, cancel requests and repetitions. The registration is read only if
// the settlement lacks the claimed job, and never written.

// follow adds the registrations of the successors of the job with a uid, at an instant. The script
// makes them only together with the last change.
func (s *Store) follow(sh *shard, changes []change, uid string, all []job.Successor, at job.Instant) ([]change, error) {
	after := len(changes)
	next := successors.Of(uid, all)
	for i := range next {
		c, err := s.changeOf(nil, newRecord(next[i].Job(at), nil))
		if err != nil {
			return nil, err
		}
		if s.shards[s.shardFor(c.key, next[i].Spec.OrderKey)] != sh {
			return nil, fmt.Errorf("redisstore: %s is in another shard than its predecessor", c.key)
		}
		c.after, c.passing = after, all[i].Passing
		changes = append(changes, c)
	}
	return changes, nil
}

// settling is a settlement with successors in progress.
type settling struct {
	item     int // of the call
	from, to int // its changes; none are needed if these are equal
	result   store.Settled
}

// settled returns the result of a settlement, or false if its job was modified concurrently.
func (one *settling) settled(done []written) (store.Settled, bool) {
	if one.from == one.to {
		return one.result, true
	}
	if slices.Contains(done[one.from:one.to], full) {
		one.result.Shed = max(one.result.Shed, job.ShedPassing)
	}
	return one.result, done[one.from] == stored || done[one.from] == already
}

// settleApart settles the first jobs of a batch that are apart, as many as one call does. It
// returns the others, and jobs modified concurrently. A full Redis gets no content that may be
// large.
func (s *Store) settleApart(ctx context.Context, sh *shard, all []job.Settlement, items []int, apart []bool, out []store.Settled) (left []int, err error) {
	left, err = s.settleShedding(ctx, sh, all, items, apart, out, job.ShedNothing)
	if refuses(err) {
		return s.settleShedding(ctx, sh, all, items, apart, out, job.ShedContent)
	}
	return left, err
}

// settleShedding is settleApart. It leaves something out of successors.
func (s *Store) settleShedding(ctx context.Context, sh *shard, all []job.Settlement, items []int, apart []bool, out []store.Settled, shed job.Shed) (left []int, err error) {
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
		one := settling{item: batch[n], from: len(changes)}
		if changes, one.result, err = s.settleOne(ctx, sh, changes, &all[batch[n]], w, now, shed); err != nil {
			return nil, err
		}
		one.to = len(changes)
		for _, c := range changes[one.from:] {
			bytes += len(c.now.registration)
		}
		begun = append(begun, one)
	}
	left = append(left, batch[len(raws):]...)
	var done []written
	if len(changes) > 0 {
		script := takeScript
		if shed == job.ShedContent {
			script = changeScript
		}
		if done, err = s.change(ctx, s.run, script, sh, false, changes); err != nil {
			return nil, err
		}
	}
	for i := range begun {
		result, ok := begun[i].settled(done)
		if out[begun[i].item] = result; !ok {
			left = append(left, begun[i].item)
		}
	}
	return left, nil
}

// settleOne adds the changes of a settlement to others, none if it changes nothing. w has the
// progress of the job.
func (s *Store) settleOne(ctx context.Context, sh *shard, changes []change, t *job.Settlement, w raw, now job.Instant, shed job.Shed) ([]change, store.Settled, error) {
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
	r.UID, r.Version, r.Shed = old.UID, old.Version+1, min(shed, t.Sheds(c))
	fresh := s.settledRecord(old, t, &r, rules.LogBytes(shed == job.ShedContent))
	following := s.successorsOf(old, t, c, shed)
	next := change{key: t.Key, was: old.stored, now: raw{progress: fresh.encodeProgress(old.uid)}, from: old.position(), to: fresh.position()}
	if s.forgets(fresh) {
		next = next.forgetting()
	}
	changes, err = s.follow(sh, append(changes, next), old.UID, following, now)
	return changes, r, err
}

// settledNonce replaces the nonce of a settled claim; SETTLED in lua/settle.lua.
const settledNonce = "+"

// settledRecord is the record of a job after a settlement with the result r. Its log takes up to most bytes.
func (s *Store) settledRecord(old *record, t *job.Settlement, r *store.Settled, most int) *record {
	log, err := old.attempts()
	if err != nil {
		s.log.Error("a job's log cannot be read", "error", err)
	}
	if t.Attempt != nil {
		a := *t.Attempt
		a.NextAt = r.NextAt
		log = append(log, a)
	}
	fresh := newRecord(old.Job, store.KeptLog(log, most))
	fresh.State, fresh.Reason, fresh.NextAt, fresh.EndedAt = r.To, r.Reason, r.NextAt, r.EndedAt
	fresh.Attempts, fresh.Snoozes, fresh.ExpiredLeases = t.Attempts, t.Snoozes, t.ExpiredLeases
	fresh.UpdatedAt = max(r.Now, fresh.CreatedAt)
	fresh.Version, fresh.nonce, fresh.mark = r.Version, settledNonce, old.mark
	return fresh
}

// successorsOf returns the successors of a change of a job.
func (s *Store) successorsOf(old *record, t *job.Settlement, c job.Change, shed job.Shed) []job.Successor {
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
	return of.Successors(c, old.Version+1, shed)
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
	for _, n := range t.Successors(t.Change(old.CancelRequested), 0, job.ShedNothing) {
		next, err := s.load(ctx, sh, n.Key)
		switch missing := errors.Is(err, store.ErrNotFound); {
		case missing && n.Passing:
			r.Shed = job.ShedPassing
		case err != nil && !missing:
			return r, err
		case err == nil:
			r.Now = next.CreatedAt
		}
	}
	return r, nil
}

// apartAtOnce bounds the settlements of one call that Go decides on.
const apartAtOnce = 128
