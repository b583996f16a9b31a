package ledger

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
	"github.com/duehook/duehook/store/successors"
)

// outcomePauses are how long a claim waits for the node that settled to commit the outcome
// that a callback reports. After that, this node writes it: the other one may be dead.
var outcomePauses = []time.Duration{
	0, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond,
	80 * time.Millisecond, 160 * time.Millisecond,
}

// unjournaled are claimed callbacks that the journal lacks, by the index of their claim.
type unjournaled map[int]*job.Job

func (e unjournaled) add(i int, j *job.Job) unjournaled {
	if j.Spec.Reports == "" {
		return e
	}
	if e == nil {
		e = unjournaled{}
	}
	e[i] = j
	return e
}

// firstCallbacks are the callbacks that may not have been sent before.
func firstCallbacks(claims []store.Claimed) (all unjournaled) {
	for i := range claims {
		if j := &claims[i].Job; j.Attempts == 0 {
			all = all.add(i, j)
		}
	}
	return all
}

// journalOutcomes waits until the journal has callbacks, which it gets together with the
// outcomes that they report. It leaves those that the store has lost meanwhile.
func (s *Store) journalOutcomes(ctx context.Context, claims []store.Claimed, callbacks unjournaled) error {
	c, err := s.Begin(ctx, rowsPerRepair*len(callbacks))
	if err != nil {
		return err
	}
	defer c.End()
	// Claim holds their keys, so outcomes of this process are queued.
	if err := c.Flush(ctx); err != nil {
		return err
	}
	for _, pause := range outcomePauses {
		if err := job.Sleep(ctx, s.o.Clock, pause); err != nil {
			return err
		}
		if err := s.forgetJournaled(ctx, callbacks); err != nil || len(callbacks) == 0 {
			return err
		}
	}
	if err := s.writeOutcomes(ctx, c, claims, callbacks); err != nil {
		return err
	}
	return s.forgetJournaled(ctx, callbacks)
}

// forgetJournaled removes the callbacks that the journal has.
func (s *Store) forgetJournaled(ctx context.Context, callbacks unjournaled) error {
	at := slices.Collect(maps.Keys(callbacks))
	keys, standings := make([]job.Key, len(at)), make([]store.Standing, len(at))
	for n, i := range at {
		keys[n], standings[n] = callbacks[i].Key, store.StandingOf(callbacks[i])
	}
	own, _, err := s.Entries(ctx, keys, standings)
	for n, e := range own {
		if e != nil {
			delete(callbacks, at[n])
		}
	}
	return err
}

// writeOutcomes writes the jobs that callbacks report, with all their callbacks, as the store
// has them.
func (s *Store) writeOutcomes(ctx context.Context, c *journal.Call, claims []store.Claimed, callbacks unjournaled) error {
	var keys []job.Key // of each callback, and of the job that it reports
	var uids []string
	for _, callback := range callbacks {
		r, err := successors.Report(callback)
		if err != nil { // it is written alone
			r.Job = *callback
		}
		keys, uids = append(keys, callback.Key, r.Job.Key), append(uids, callback.UID, r.Job.UID)
	}
	held := func(key job.Key) bool {
		return slices.ContainsFunc(claims, func(c store.Claimed) bool { return c.Job.Key == key })
	}
	if err := c.Hold(ctx, slices.DeleteFunc(slices.Clone(keys), held)...); err != nil {
		return err
	}
	if err := c.Flush(ctx); err != nil {
		return err
	}
	standings, err := s.Inner.Standings(ctx, keys)
	if err != nil {
		return err
	}
	own, open, err := s.Entries(ctx, keys, standings)
	if err != nil {
		return err
	}
	var found []finding
	for n := 0; n < len(keys); n += 2 {
		callback, reported := n, n+1
		if standings[callback].UID != uids[callback] {
			continue // the store has lost it
		}
		// A job that the store has no more is in the journal: the store forgets nothing else.
		which := callback
		if standings[reported].UID == uids[reported] {
			d, _ := judged(&standings[reported], own[reported], open[reported])
			if d == BehindInJournal || d == MissingInJournal {
				which = reported
			}
		}
		found = append(found, finding{key: keys[which], standing: standings[which]})
	}
	_, err = s.catchUp(ctx, c, found)
	return err
}
