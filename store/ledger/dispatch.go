package ledger

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/successors"
)

// Carry carries in the store, and writes it to the ledger later.
func (s *Store) Carry(ctx context.Context, shard int, o store.CarryOptions) (store.CarryResult, error) {
	c, err := s.begin(ctx, false, o.Cap)
	if err != nil {
		return store.CarryResult{}, err
	}
	defer c.end()
	// A claim may follow before this call returns. The flow must show it after the
	// carrying.
	now := job.InstantOf(s.o.Clock.Now())
	o.AwaitWhole = true
	r, err := s.inner.Carry(ctx, shard, o)
	if err == nil && len(r.Carried) > 0 {
		fact := rand.Text()
		c.owe(write{rows: len(r.Carried), owed: true, add: func(g *group) {
			for i := range r.Carried {
				g.carried(&r.Carried[i], fact, o.By, now)
			}
		}})
	}
	return r, err
}

// Claim claims in the store, and writes it to the ledger soon after: a restored job must
// show that it was claimed.
func (s *Store) Claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	c, err := s.begin(ctx, false, rowsPerSettlement*len(hints), keysOfHints(hints)...)
	if err != nil {
		return nil, err
	}
	defer c.end()
	o.AwaitWhole = true
	claims, err := s.inner.Claim(ctx, shard, hints, o)
	if err != nil {
		return claims, err
	}
	if claims = s.checked(ctx, claims); len(claims) == 0 {
		return claims, nil
	}
	w := write{rows: rowsPerSettlement * len(claims), owed: true, add: func(g *group) {
		for i := range claims {
			g.claimed(&claims[i], o.By)
		}
	}}
	for i := range claims {
		w.bytes += int64(len(claims[i].Job.Spec.Body))
	}
	c.owe(w)
	return claims, nil
}

// keysOfHints are the keys of hints.
func keysOfHints(hints []store.Hint) []job.Key {
	keys := make([]job.Key, len(hints))
	for i, h := range hints {
		keys[i] = h.Key()
	}
	return keys
}

// rowsPerSettlement is how many rows a claim or a settlement writes: progress and
// flow.
const rowsPerSettlement = 2

// paceLimit is how long a settlement waits for its commit.
const paceLimit = 500 * time.Millisecond

// Settle settles in the store. It waits for the commit to the ledger so that outcomes arrive no
// faster than the ledger takes them, but not for long: the store has the outcome, and the leases
// of others expire while they wait for their turn.
func (s *Store) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	if !slices.ContainsFunc(settlements, func(t job.Settlement) bool { return !t.Extends() }) {
		return s.inner.Settle(ctx, settlements) // the attempts go on
	}
	keys, following := keysOfSettlements(settlements)
	c, err := s.begin(ctx, false, rowsPerSettlement*len(settlements)+rowsPerRegistration*following, keys...)
	if err != nil {
		return nil, err
	}
	defer c.end()
	settled, err := s.inner.Settle(ctx, settlements)
	if err != nil {
		return nil, err
	}
	w := settledBy(settlements, settled)
	switch {
	case w.rows == 0:
	case s.owing() != nil: // commits fail, so waiting is useless
		c.owe(w)
	default:
		e := c.entry(w)
		if c.charge(e) { // otherwise too much is queued already
			limited, cancel := context.WithTimeout(ctx, paceLimit)
			defer cancel()
			ctx = limited
		}
		done := s.committer.submit(e)
		c.free()
		_ = within(ctx, done) // the settlements stand; the reconciler writes what a failed commit did not
	}
	return settled, nil
}

// keysOfSettlements are the keys of settlements and of the jobs that may follow from them, and
// the number of the latter.
func keysOfSettlements(settlements []job.Settlement) (keys []job.Key, following int) {
	keys = make([]job.Key, len(settlements))
	for i := range settlements {
		t := &settlements[i]
		keys[i] = t.Key
		if t.Job == nil {
			continue
		}
		for _, cancelRequested := range []bool{false, true} {
			for _, n := range t.Successors(t.Change(cancelRequested), 0, job.ShedNothing) {
				keys = append(keys, n.Key)
			}
		}
	}
	return keys, len(keys) - len(settlements)
}

// settledBy writes the settlements that the store applied, with the jobs that follow from
// them; without any, its rows are zero.
func settledBy(settlements []job.Settlement, settled []store.Settled) write {
	logs, next := make([][]byte, len(settled)), make([][]message, len(settled))
	var w write
	for i := range settled {
		t, r := &settlements[i], &settled[i]
		if r.Status != store.Applied {
			continue
		}
		w.rows += rowsPerSettlement
		if t.Attempt != nil {
			a := *t.Attempt
			a.NextAt = r.NextAt
			logs[i] = encodeAttempt(&a)
			w.bytes += int64(len(logs[i]))
		}
		for _, j := range successors.Settled(t, r) {
			m := newMessage(j, r.Now)
			next[i] = append(next[i], m)
			w.rows, w.bytes = w.rows+rowsPerRegistration, w.bytes+m.size()
		}
	}
	w.owed, w.add = true, func(g *group) {
		for i := range settled {
			if settled[i].Status != store.Applied {
				continue
			}
			g.settle(&settlements[i], &settled[i], logs[i])
			for n := range next[i] {
				m := &next[i][n]
				var old *job.Job
				if m.job.Key == settlements[i].Key {
					old = settlements[i].Job
				}
				g.taken(m, old)
			}
		}
	}
	return w
}
