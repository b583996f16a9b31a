package ledger

import (
	"context"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
)

// Carry carries in the store. Nobody waits until that is journaled.
func (s *Store) Carry(ctx context.Context, shard int, o store.CarryOptions) (store.CarryResult, error) {
	c, err := s.beginDelivering(ctx, o.Cap)
	if err != nil {
		return store.CarryResult{}, err
	}
	defer c.End()
	// A claim may follow before this call returns. It must not seem to have come before.
	now := job.InstantOf(s.o.Clock.Now())
	r, err := s.Inner.Carry(ctx, shard, o)
	if err == nil && len(r.Carried) > 0 {
		s.owe(c, journal.Carried(r.Carried, o.By, now))
	}
	return r, err
}

// Claim claims in the store, and checks the claims against the journal. Nobody waits
// until they are journaled.
func (s *Store) Claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	c, err := s.beginDelivering(ctx, journal.RowsPerSettlement*len(hints), journal.KeysOfHints(hints)...)
	if err != nil {
		return nil, err
	}
	defer c.End()
	claims, err := s.Inner.Claim(ctx, shard, hints, o)
	if err != nil {
		return claims, err
	}
	if claims = s.checked(ctx, claims); len(claims) > 0 {
		s.owe(c, journal.Claimed(claims, o.By))
	}
	return claims, nil
}

// Settle settles in the store, and answers once that is committed to the journal, or
// cannot be: the store has the settlements already.
func (s *Store) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	c, err := s.beginDelivering(ctx, journal.RowsPerSettlement*len(settlements), journal.KeysOfSettlements(settlements)...)
	if err != nil {
		return nil, err
	}
	defer c.End()
	settled, err := s.Inner.Settle(ctx, settlements)
	if err != nil {
		return nil, err
	}
	switch w := journal.Settled(settlements, settled); {
	case w.Rows == 0:
	case s.Owing() != nil:
		s.owe(c, w) // there is nothing to wait for
	default:
		done := c.Submit(w)
		c.Free()
		<-done //nolint:errcheck // the store has them, whatever the journal answers
	}
	return settled, nil
}
