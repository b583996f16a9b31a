package ledger

import (
	"context"
	"slices"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/successors"
)

// outcomePauses are how long a claim waits for the node that settled to commit the outcome
// that a claimed job follows from. After that, this node writes it: the other one may be dead.
var outcomePauses = []time.Duration{
	0, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond,
	80 * time.Millisecond, 160 * time.Millisecond,
}

// awaited is an outcome that the ledger must have before a claimed job is sent.
type awaited struct {
	claim int // its index
	key   job.Key
	uid   string
	end   bool     // the end of that job; otherwise the job, which is a claimed callback
	job   *job.Job // the claimed job
}

// isIn reports whether the ledger has the outcome, given its messages of the key. A job that the
// ledger does not have as open would not be restored.
func (a *awaited) isIn(rows []*entry) bool {
	e := readable(pickOwn(rows, a.uid))
	if a.end {
		return e == nil || !e.open || e.state.Final()
	}
	return e != nil
}

// awaitedBy returns the outcomes that claims follow from. A claim that ends before the job is sent,
// such as that of a fetched job whose lease expired, waits for none: its release would forget why.
func awaitedBy(claims []store.Claimed) (all []awaited) {
	for i := range claims {
		c := &claims[i]
		switch {
		case c.Job.Spec.Reports != "":
			all = append(all, awaited{i, c.Job.Key, c.Job.UID, false, &c.Job})
		case c.AfterUID != "" && c.Job.Before(c.From, c.Earlier, c.Now) == nil:
			all = append(all, awaited{i, c.After, c.AfterUID, true, &c.Job})
		}
	}
	return all
}

// firstFollowing is awaitedBy for claims of jobs that may not have been sent before.
func firstFollowing(claims []store.Claimed) []awaited {
	return slices.DeleteFunc(awaitedBy(claims), func(a awaited) bool { return a.job.Attempts > 0 })
}

// writeFollowed waits until the ledger has the outcomes that claims follow from, and the
// callbacks. It returns the jobs that it still lacks.
func (s *Store) writeFollowed(ctx context.Context, early []awaited) ([]awaited, error) {
	err := s.begin(ctx, true)
	if err != nil {
		return early, err
	}
	defer s.leave()
	if err = s.flush(ctx); err != nil {
		return early, err
	}
	for _, pause := range outcomePauses {
		if err = job.Sleep(ctx, s.o.Clock, pause); err != nil {
			return early, err
		}
		if early, err = s.lacking(ctx, early); err != nil || len(early) == 0 {
			return early, err
		}
	}
	if early, err = s.writeOutcomes(ctx, early); err != nil {
		return early, err
	}
	return s.lacking(ctx, early)
}

// lacking returns the outcomes that the ledger still lacks.
func (s *Store) lacking(ctx context.Context, early []awaited) ([]awaited, error) {
	keys, standings := make([]job.Key, len(early)), make([]store.Standing, len(early))
	for n := range early {
		keys[n], standings[n].UID = early[n].key, early[n].uid
	}
	rows, err := s.entries(ctx, keys, standings)
	if err != nil {
		return early, err
	}
	var left []awaited
	for n := range early {
		if !early[n].isIn(rows[n]) {
			left = append(left, early[n])
		}
	}
	return left, nil
}

// writeOutcomes writes the jobs that claims follow from, with all their callbacks, as the store
// has them. It returns the jobs that must not be sent yet.
func (s *Store) writeOutcomes(ctx context.Context, early []awaited) ([]awaited, error) {
	var keys []job.Key // of each awaited job, and of the job that it reports
	var uids []string
	for i := range early {
		a := &early[i]
		reported := job.Job{Key: a.key, UID: a.uid}
		if !a.end {
			if r, err := successors.Report(a.job); err == nil { // otherwise it is written alone
				reported = r.Job
			}
		}
		keys, uids = append(keys, a.key, reported.Key), append(uids, a.uid, reported.UID)
	}
	standings, err := s.inner.Standings(ctx, keys)
	if err != nil {
		return early, err
	}
	rows, err := s.entries(ctx, keys, standings)
	if err != nil {
		return early, err
	}
	var found []finding
	var left []awaited
	for i := range early {
		which, reported := 2*i, 2*i+1
		standing := &standings[which]
		switch {
		case early[i].end && standing.UID == uids[which] && !standing.State.Final():
			continue // a client replayed it
		case early[i].end && standing.Exists(): // it, or its next round, which ends it
		case standing.UID != uids[which]:
			left = append(left, early[i])
			continue // the store has lost it
		}
		left = append(left, early[i])
		// A job that the store has no more is in the ledger: the store forgets nothing else.
		if standings[reported].UID == uids[reported] {
			f := compare(keys[reported], standings[reported], rows[reported])
			if f.difference == BehindInLedger || f.difference == MissingInLedger {
				which = reported
			}
		}
		found = append(found, finding{key: keys[which], standing: standings[which]})
	}
	_, err = s.catchUp(ctx, found)
	return left, err
}
