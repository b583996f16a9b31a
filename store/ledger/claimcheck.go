package ledger

import (
	"context"
	"slices"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

const (
	// checkLimit is how long claims wait for the ledger. It counts towards their leases.
	checkLimit = 500 * time.Millisecond
	// checkPause is how long claims go unchecked after the ledger did not answer, and how long
	// claims that wait for it rest.
	checkPause = time.Second
	// reasonUnwritten is why they do.
	reasonUnwritten = "not_in_ledger_yet"
)

// checked leaves out claims of jobs whose version in the ledger is newer, and updates
// the store with it. If the ledger does not answer, other claims stay: delivery does not
// depend on the ledger.
//
// A callback stays only if the ledger has it, with the outcome that it reports. Otherwise
// that outcome could be lost after the callback was sent, and another one would be reported
// under the same id. A job that follows another one of its order key stays only if the ledger
// has the end of that one. Otherwise that end could be lost, and the job that went before would
// be sent again after this one. What is left out comes again after checkPause. While commits
// fail, all of them stay as other jobs do.
func (s *Store) checked(ctx context.Context, claims []store.Claimed) []store.Claimed {
	if len(claims) == 0 {
		return claims
	}
	stale, early := s.examine(ctx, claims)
	if len(early) > 0 && s.broken() != nil {
		early = nil
	}
	if len(stale) == 0 && len(early) == 0 {
		return claims
	}
	s.release(ctx, claims, early)
	left := make([]store.Claimed, 0, len(claims))
	for i := range claims {
		_, outdated := stale[i]
		if !outdated && !slices.ContainsFunc(early, func(a awaited) bool { return a.claim == i }) {
			left = append(left, claims[i])
		}
	}
	return left
}

// examine returns the claims, by index, of jobs whose version in the ledger is newer, and
// those that follow from an outcome that the ledger lacks. It corrects the former and writes
// the outcomes, if it can.
func (s *Store) examine(ctx context.Context, claims []store.Claimed) (stale map[int]finding, early []awaited) {
	now := job.InstantOf(s.o.Clock.Now())
	if int64(now) < s.checkFrom.Load() {
		return nil, firstFollowing(claims)
	}
	limited, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	stale, early, err := s.compareClaims(limited, claims)
	if err == nil && len(early) > 0 && s.broken() == nil {
		early, err = s.writeFollowed(limited, early)
	}
	if len(stale) > 0 {
		s.correct(ctx, stale)
	}
	switch {
	case err == nil && s.checkFrom.Load() != 0:
		s.checkFrom.Store(0)
	case err != nil && ctx.Err() == nil && s.checkFrom.Swap(int64(now.Add(checkPause))) == 0:
		s.o.Logger.Warn("the ledger cannot check claimed jobs; they are delivered unchecked", "error", err)
	}
	return stale, early
}

// compareClaims returns the claims, by index, of jobs whose version in the ledger is newer
// than the store's before the claim, and those that follow from an outcome that the ledger
// lacks. After an error, these are all that may be sent for the first time.
func (s *Store) compareClaims(ctx context.Context, claims []store.Claimed) (stale map[int]finding, early []awaited, err error) {
	stale = map[int]finding{}
	keys, before := make([]job.Key, len(claims)), make([]store.Standing, len(claims))
	for i := range claims {
		j := &claims[i].Job
		keys[i], before[i] = j.Key, store.StandingOf(j)
		before[i].State, before[i].Version = j.Pending(), j.Version-1
	}
	following := awaitedBy(claims)
	for i := range following {
		keys, before = append(keys, following[i].key), append(before, store.Standing{UID: following[i].uid})
	}
	rows, err := s.entries(ctx, keys, before)
	if err != nil {
		return nil, firstFollowing(claims), err
	}
	for n := range following {
		if !following[n].isIn(rows[len(claims)+n]) {
			early = append(early, following[n])
		}
	}
	for i := range claims {
		j := &claims[i].Job
		if own := pickOwn(rows[i], j.UID); own != nil && own.token == j.Token && own.version == j.Version {
			continue // the same claim, repeated
		}
		if f := compare(j.Key, before[i], rows[i]); f.difference == FinishedInLedger || f.difference == BehindInStore {
			f.standing = store.StandingOf(j)
			stale[i] = f
		}
	}
	return stale, early, nil
}

// release releases claims that wait for the ledger. If it fails, the jobs return when
// their leases have expired. The ledger does not record the release, so it must end no
// job: a cancel takes effect with the next claim.
func (s *Store) release(ctx context.Context, claims []store.Claimed, early []awaited) {
	settlements := make([]job.Settlement, len(early))
	for i, a := range early {
		o := job.Outcome{Kind: job.OutcomeReleased, Reason: reasonUnwritten, After: checkPause}
		settlements[i] = job.Settle(&claims[a.claim].Job, o, nil)
		settlements[i].IfCancelled = settlements[i].To
	}
	if len(early) == 0 {
		return
	}
	if _, err := s.inner.Settle(context.WithoutCancel(ctx), settlements); err != nil {
		s.o.Logger.Warn("claimed jobs that wait for the ledger could not be released", "jobs", len(early), "error", err)
	}
}

// correct updates the store with the ledger's versions. If that fails, the leases of
// these claims expire, and the next claim is checked again.
func (s *Store) correct(ctx context.Context, stale map[int]finding) {
	found := make([]finding, 0, len(stale))
	for _, f := range stale {
		found = append(found, f)
	}
	done, bad, err := s.putForward(context.WithoutCancel(ctx), found)
	s.reportUnreadable(bad)
	done.Conflicts = int64(len(found))
	s.metrics.add(done)
	if err != nil {
		s.o.Logger.Error("outdated jobs of the store could not be corrected from the ledger", "jobs", len(found), "error", err)
		return
	}
	s.o.Logger.Warn("the store had outdated jobs; they were corrected from the ledger and not sent",
		"jobs", done.Repaired, "example", found[0].key.String())
}
