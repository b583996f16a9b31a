package ledger

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

const (
	// checkLimit is how long claims wait for the journal. It counts towards their leases.
	checkLimit = 500 * time.Millisecond
	// checkPause is how long claims go unchecked after the journal did not answer.
	checkPause = time.Second
)

// claimCheck prevents a store that went back in time from sending outdated jobs.
type claimCheck struct {
	notBefore atomic.Int64 // the instant until which claims go unchecked; zero: the journal answers
}

// Checked leaves out claims of jobs whose version in the journal is newer, and updates
// the store with it. If the journal does not answer, all claims stay: delivery does not
// depend on the journal.
func (s *Store) Checked(ctx context.Context, claims []store.Claimed) []store.Claimed {
	now := job.InstantOf(s.o.Clock.Now())
	if len(claims) == 0 || int64(now) < s.check.notBefore.Load() {
		return claims
	}
	limited, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	stale, err := s.staleClaims(limited, claims)
	if err != nil {
		if ctx.Err() == nil && s.check.notBefore.Swap(int64(now.Add(checkPause))) == 0 {
			s.o.Logger.Warn("the journal cannot check claimed jobs; they are delivered unchecked", "error", err)
		}
		return claims
	}
	if s.check.notBefore.Load() != 0 {
		s.check.notBefore.Store(0)
	}
	if len(stale) == 0 {
		return claims
	}
	s.correct(ctx, stale)
	left := make([]store.Claimed, 0, len(claims)-len(stale))
	for i := range claims {
		if _, is := stale[i]; !is {
			left = append(left, claims[i])
		}
	}
	return left
}

// staleClaims returns the claims, by index, of jobs whose version in the journal is newer
// than the store's before the claim.
func (s *Store) staleClaims(ctx context.Context, claims []store.Claimed) (map[int]finding, error) {
	keys, before := make([]job.Key, len(claims)), make([]store.Standing, len(claims))
	for i := range claims {
		j := &claims[i].Job
		keys[i], before[i] = j.Key, store.StandingOf(j)
		before[i].State, before[i].Version = j.Pending(), j.Version-1
	}
	own, open, err := s.Entries(ctx, keys, before)
	if err != nil {
		return nil, err
	}
	var stale map[int]finding
	for i := range claims {
		j := &claims[i].Job
		if own[i] != nil && own[i].Token == j.Token && own[i].Version == j.Version {
			continue // the same claim, repeated
		}
		d, e := judged(&before[i], own[i], open[i])
		if d != FinishedInJournal && d != BehindInStore {
			continue
		}
		if stale == nil {
			stale = map[int]finding{}
		}
		stale[i] = finding{d, j.Key, e, store.StandingOf(j)}
	}
	return stale, nil
}

// correct updates the store with the journal's versions. If that fails, the leases of
// these claims expire, and the next claim is checked again.
func (s *Store) correct(ctx context.Context, stale map[int]finding) {
	found := make([]finding, 0, len(stale))
	for _, f := range stale {
		found = append(found, f)
	}
	done, err := s.putForward(context.WithoutCancel(ctx), found)
	s.ReportUnreadable(done.bad)
	s.metrics.conflicts.Add(float64(len(found)))
	s.metrics.repaired.Add(float64(done.repaired))
	if err != nil {
		s.o.Logger.Error("outdated jobs of the store could not be corrected from the journal", "jobs", len(found), "error", err)
		return
	}
	s.o.Logger.Warn("the store had outdated jobs; they were corrected from the journal and not sent",
		"jobs", done.repaired, "example", found[0].key.String())
}
