package journal

import (
	"context"
	"slices"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Carry carries in the store. Nobody waits until that is journaled.
func (s *Store) Carry(ctx context.Context, shard int, o store.CarryOptions) (store.CarryResult, error) {
	c, err := s.Begin(ctx, o.Cap)
	if err != nil {
		return store.CarryResult{}, err
	}
	defer c.End()
	// A claim may follow before this call returns. It must not seem to have come before.
	now := job.InstantOf(s.o.Clock.Now())
	r, err := s.Inner.Carry(ctx, shard, o)
	if err == nil && len(r.Carried) > 0 {
		c.Enqueue(Carried(r.Carried, o.By, now))
	}
	return r, err
}

// Carried journals what a call carried.
func Carried(carried []store.Carried, by string, now job.Instant) Write {
	carried = slices.Clone(carried) // the caller may change its own
	return Write{Rows: len(carried), Owed: true, Add: func(g *Group) {
		for i := range carried {
			g.Carried(&carried[i], by, now)
		}
	}}
}

// Claim claims in the store. Nobody waits until that is journaled, but it is journaled
// soon: a job that kills its process must be known.
func (s *Store) Claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	c, err := s.Begin(ctx, RowsPerSettlement*len(hints), KeysOfHints(hints)...)
	if err != nil {
		return nil, err
	}
	defer c.End()
	claims, err := s.Inner.Claim(ctx, shard, hints, o)
	if err == nil && len(claims) > 0 {
		c.Enqueue(Claimed(claims, o.By))
	}
	return claims, err
}

// KeysOfHints are the keys of hints.
func KeysOfHints(hints []store.Hint) []job.Key {
	keys := make([]job.Key, len(hints))
	for i, h := range hints {
		keys[i] = h.Key()
	}
	return keys
}

// RowsPerSettlement is how many rows a claim or a settlement writes: progress and
// flow.
const RowsPerSettlement = 2

// Claimed journals claims.
func Claimed(claims []store.Claimed, by string) Write {
	claimed := slices.Clone(claims) // the caller may change its own
	var bytes int64
	for i := range claimed {
		bytes += int64(len(claimed[i].Job.Spec.Body))
	}
	return Write{Rows: RowsPerSettlement * len(claimed), Bytes: bytes, Owed: true, Add: func(g *Group) {
		for i := range claimed {
			g.Claimed(&claimed[i], by)
		}
	}}
}

// Settle settles in the store and answers once that is committed to the journal: a
// settlement lost in a crash repeats a delivery. After an error, settlements may be
// repeated as any others.
func (s *Store) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	keys := KeysOfSettlements(settlements)
	c, err := s.Begin(ctx, RowsPerSettlement*len(settlements), keys...)
	if err != nil {
		return nil, err
	}
	defer c.End()
	settled, err := s.Inner.Settle(ctx, settlements)
	if err != nil {
		return nil, err
	}
	e := Settled(settlements, settled)
	if e.Rows == 0 {
		return settled, nil
	}
	defer s.keys.unwritten(keys)()
	done := c.Submit(e)
	c.Free()
	if err := <-done; err != nil {
		return nil, err
	}
	return settled, nil
}

// KeysOfSettlements are the keys of settlements.
func KeysOfSettlements(settlements []job.Settlement) []job.Key {
	keys := make([]job.Key, len(settlements))
	for i := range settlements {
		keys[i] = settlements[i].Key
	}
	return keys
}

// Settled journals the settlements that the store applied; without any, its Rows is
// zero.
func Settled(settlements []job.Settlement, settled []store.Settled) Write {
	settlements = slices.Clone(settlements) // still needed after an error
	logs, applied := encodeLogs(settlements, settled)
	var bytes int64
	for _, log := range logs {
		bytes += int64(len(log))
	}
	return Write{Rows: RowsPerSettlement * applied, Bytes: bytes, Owed: true, Add: func(g *Group) {
		for i := range settled {
			if settled[i].Status == store.Applied {
				g.Settle(&settlements[i], &settled[i], logs[i])
			}
		}
	}}
}

// encodeLogs returns the log entries of the applied settlements, and how many were
// applied.
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
