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
	if err := s.begin(ctx, false); err != nil {
		return store.CarryResult{}, err
	}
	defer s.leave()
	// A claim may follow before this call returns. The flow must show it after the
	// carrying.
	now := job.InstantOf(s.o.Clock.Now())
	o.AwaitWhole = true
	r, err := s.inner.Carry(ctx, shard, o)
	if err == nil && len(r.Carried) > 0 {
		fact := rand.Text()
		s.owe(write{rows: len(r.Carried), owed: true, add: func(g *group) {
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
	if err := s.begin(ctx, false); err != nil {
		return nil, err
	}
	defer s.leave()
	claims, err := s.claim(ctx, shard, hints, o)
	if err != nil || len(claims) == 0 {
		return nil, err
	}
	w := write{rows: rowsPerSettlement * len(claims), owed: true, add: func(g *group) {
		for i := range claims {
			g.claimed(&claims[i], o.By)
		}
	}}
	for i := range claims {
		w.bytes += int64(len(claims[i].Job.Spec.Body))
	}
	s.owe(w)
	return claims, nil
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
	if err := s.begin(ctx, false); err != nil {
		return nil, err
	}
	defer s.leave()
	settled, err := s.inner.Settle(ctx, settlements)
	if err != nil {
		return nil, err
	}
	w := settledBy(settlements, settled)
	switch {
	case w.rows == 0:
	case s.owing() != nil: // commits fail, so waiting is useless
		s.owe(w)
	default:
		done := s.submit(w)
		if s.committer.full() == nil {
			limited, cancel := context.WithTimeout(ctx, paceLimit)
			defer cancel()
			ctx = limited
		}
		_ = within(ctx, done) // the settlements stand; the reconciler writes what a failed commit did not
	}
	return settled, nil
}

// settledBy writes the settlements that the store applied, with the jobs that follow from
// them; without any, its rows are zero.
func settledBy(settlements []job.Settlement, settled []store.Settled) write {
	w := write{owed: true}
	var adds []func(g *group)
	for i := range settled {
		t, r := &settlements[i], &settled[i]
		if r.Status != store.Applied || t.Extends() {
			continue
		}
		w.rows += rowsPerSettlement
		var log []byte
		if t.Attempt != nil {
			a := *t.Attempt
			a.NextAt = r.NextAt
			log = encodeAttempt(&a)
			w.bytes += int64(len(log))
		}
		var next []message
		for _, j := range successors.Settled(t, r) {
			next = append(next, newMessage(j, r.Now))
			w.rows, w.bytes = w.rows+rowsPerRegistration, w.bytes+next[len(next)-1].size()
		}
		adds = append(adds, func(g *group) {
			g.settle(t, r, log)
			for n := range next {
				g.taken(&next[n], []string{t.Job.UID}) // it may be in the place of that job
			}
		})
	}
	w.add = func(g *group) {
		for _, add := range adds {
			add(g)
		}
	}
	return w
}
