package journal

import (
	"context"
	"slices"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/successors"
)

// Carry carries in the store, and journals it later.
func (s *Store) Carry(ctx context.Context, shard int, o store.CarryOptions) (store.CarryResult, error) {
	c, err := s.begin(ctx, false, o.Cap)
	if err != nil {
		return store.CarryResult{}, err
	}
	defer c.End()
	// A claim may follow before this call returns. The flow must show it after the
	// carrying.
	now := job.InstantOf(s.o.Clock.Now())
	o.AwaitWhole = s.shared()
	r, err := s.Inner.Carry(ctx, shard, o)
	if err == nil && len(r.Carried) > 0 {
		s.sharing.Owe(c, carried(r.Carried, o.By, now))
	}
	return r, err
}

// carried journals the carried jobs of a call.
func carried(jobs []store.Carried, by string, now job.Instant) Write {
	return Write{Rows: len(jobs), Owed: true, Add: func(g *Group) {
		for i := range jobs {
			g.Carried(&jobs[i], by, now)
		}
	}}
}

// Claim claims in the store, and journals it soon after: a restart must know the job that
// crashed its process.
func (s *Store) Claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	c, err := s.begin(ctx, false, rowsPerSettlement*len(hints), keysOfHints(hints)...)
	if err != nil {
		return nil, err
	}
	defer c.End()
	o.AwaitWhole = s.shared()
	claims, err := s.Inner.Claim(ctx, shard, hints, o)
	if err != nil {
		return claims, err
	}
	if claims = s.sharing.Checked(ctx, claims); len(claims) > 0 {
		s.sharing.Owe(c, claimed(claims, o.By))
		// A shared store outlives this process, and Checked waits for the outcomes that claims follow from.
		if !s.shared() && slices.ContainsFunc(claims, follows) {
			_ = s.writeApplied(ctx) // deliveries continue while commits fail
		}
	}
	return claims, nil
}

// follows reports whether the claimed job may be due because another one ended.
func follows(c store.Claimed) bool { return c.Job.Spec.OrderKey != "" || c.Job.Spec.Reports != "" }

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

// claimed journals claims.
func claimed(claims []store.Claimed, by string) Write {
	var bytes int64
	for i := range claims {
		bytes += int64(len(claims[i].Job.Spec.Body))
	}
	return Write{Rows: rowsPerSettlement * len(claims), Bytes: bytes, Owed: true, Add: func(g *Group) {
		for i := range claims {
			g.Claimed(&claims[i], by)
		}
	}}
}

// Settle settles in the store, and answers after the commit to the journal: a settlement
// lost in a crash repeats a delivery. After an error, the caller may repeat the call.
func (s *Store) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	keys, following := keysOfSettlements(settlements)
	c, err := s.begin(ctx, false, rowsPerSettlement*len(settlements)+rowsPerRegistration*following, keys...)
	if err != nil {
		return nil, err
	}
	defer c.End()
	if err := c.Apply(ctx); err != nil {
		return nil, err
	}
	settled, err := s.Inner.Settle(ctx, settlements)
	if err != nil {
		return nil, err
	}
	w := s.settledBy(settlements, settled)
	switch {
	case w.Rows == 0:
		return settled, nil
	case s.shared() && s.Owing() != nil: // commits fail, so waiting is useless
		s.sharing.Owe(c, w)
		return settled, nil
	}
	defer s.keys.unwritten(keys)()
	done := c.Submit(w)
	c.Free()
	if err := <-done; err != nil && !s.shared() { // a shared store outlives this process
		return nil, err
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

// settledBy journals the settlements that the store applied, with the jobs that follow from
// them; without any, its Rows is zero.
func (s *Store) settledBy(settlements []job.Settlement, settled []store.Settled) Write {
	logs, applied := encodeLogs(settlements, settled)
	next, following := followedBy(settlements, settled)
	w := Write{Rows: rowsPerSettlement*applied + rowsPerRegistration*following, Owed: true, Add: func(g *Group) {
		for i := range settled {
			if settled[i].Status != store.Applied {
				continue
			}
			g.Settle(&settlements[i], &settled[i], logs[i])
			for n := range next[i] {
				m := &next[i][n]
				var old *job.Job
				if m.Job.Key == settlements[i].Key {
					old = settlements[i].Job
				}
				s.sharing.Followed(g, m, old)
			}
		}
	}}
	for i := range logs {
		w.Bytes += int64(len(logs[i]))
		for n := range next[i] {
			w.Bytes += next[i][n].Size()
		}
	}
	return w
}

// followedBy returns the messages of the jobs that follow from settlements, by their index,
// and how many there are.
func followedBy(settlements []job.Settlement, settled []store.Settled) (messages map[int][]Message, n int) {
	for i := range settled {
		for _, j := range successors.Settled(&settlements[i], &settled[i]) {
			if messages == nil {
				messages = map[int][]Message{}
			}
			messages[i] = append(messages[i], NewMessage(j, settled[i].Now))
			n++
		}
	}
	return messages, n
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
