package ledger

import (
	"context"
	"slices"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Carry lets the store carry, and journals that when it suits.
func (s *Store) Carry(ctx context.Context, shard int, o store.CarryOptions) (store.CarryResult, error) {
	c, err := s.beginDelivering(ctx, o.Cap)
	if err != nil {
		return store.CarryResult{}, err
	}
	defer c.end()
	// A claim may follow before this call is back. It must not seem to have come
	// before.
	now := job.InstantOf(s.o.Clock.Now())
	r, err := s.inner.Carry(ctx, shard, o)
	if err != nil || len(r.Carried) == 0 {
		return r, err
	}
	carried := slices.Clone(r.Carried) // the caller may change its own
	c.journal(len(carried), 0, func(g *group) {
		for i := range carried {
			g.carried(&carried[i], o.By, now)
		}
	})
	return r, nil
}

// Claim lets the store claim, and journals that when it suits: soon, because a
// job that kills its process must be known for it.
func (s *Store) Claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	keys := make([]job.Key, len(hints))
	for i, h := range hints {
		keys[i] = h.Key()
	}
	c, err := s.beginDelivering(ctx, 2*len(hints), keys...) // progress, flow
	if err != nil {
		return nil, err
	}
	defer c.end()
	claims, err := s.inner.Claim(ctx, shard, hints, o)
	if err != nil {
		return claims, err
	}
	if claims = s.checked(ctx, claims); len(claims) == 0 {
		return claims, nil
	}
	claimed := slices.Clone(claims)
	bytes := 0
	for i := range claimed {
		bytes += len(claimed[i].Job.Spec.Body)
	}
	c.journal(2*len(claimed), bytes, func(g *group) {
		for i := range claimed {
			g.claimed(&claimed[i], o.By)
		}
	})
	return claims, nil
}

// Settle lets the store settle, and answers once that is committed to the
// journal: a settlement lost in a crash would be a delivery repeated. After an
// error the settlements may be repeated, as any. A shared store has them
// already, so they are answered even if the journal cannot be written.
func (s *Store) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	keys := make([]job.Key, len(settlements))
	for i := range settlements {
		keys[i] = settlements[i].Key
	}
	c, err := s.beginDelivering(ctx, 2*len(settlements), keys...) // progress, flow
	if err != nil {
		return nil, err
	}
	defer c.end()
	settled, err := s.inner.Settle(ctx, settlements)
	if err != nil {
		return nil, err
	}
	logs, applied := encodeLogs(settlements, settled)
	if applied == 0 {
		return settled, nil
	}
	settlements = slices.Clone(settlements) // still wanted after an error
	add := func(g *group) {
		for i := range settled {
			if settled[i].Status == store.Applied {
				g.settle(&settlements[i], &settled[i], logs[i])
			}
		}
	}
	bytes := 0
	for _, log := range logs {
		bytes += len(log)
	}
	if s.o.Shared && s.committer.owing() != nil {
		c.journal(2*applied, bytes, add) // there is nothing to wait for
		return settled, nil
	}
	if !s.o.Shared {
		defer s.keys.unwritten(keys)()
	}
	done := s.committer.submit(&entry{rows: c.take(2 * applied), bytes: int64(bytes), owed: true, add: add})
	c.free()
	if err := <-done; err != nil && !s.o.Shared {
		return nil, err
	}
	return settled, nil
}

// encodeLogs gives the log entries of the applied settlements, and the number
// of these.
func encodeLogs(settlements []job.Settlement, settled []store.Settled) (logs [][]byte, applied int) {
	logs = make([][]byte, len(settled))
	for i := range settled {
		if settled[i].Status != store.Applied {
			continue
		}
		applied++
		if settlements[i].Attempt == nil {
			continue
		}
		a := *settlements[i].Attempt
		a.NextAt = settled[i].NextAt
		logs[i] = encodeAttempt(&a)
	}
	return logs, applied
}
