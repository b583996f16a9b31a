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
	// checkPause is how long claims of a whole shard go unchecked after the ledger did not answer, and
	// how long claims that wait for it rest.
	checkPause = time.Second
	// reasonWaits is why they do.
	reasonWaits = "waits_for_ledger"
)

// checked leaves out claims of jobs whose version in the ledger is newer, and updates
// the store with it. If the ledger does not answer, other claims of a whole shard stay: delivery does
// not depend on the ledger. Those of any other shard wait, because the shard may have gone back in time
// to jobs that have ended, and the ledger alone knows.
//
// A callback stays only if the ledger has it, with the outcome that it reports. Otherwise
// that outcome could be lost after the callback was sent, and another one would be reported
// under the same id. A job that follows another one of its order key stays only if the ledger
// has the end of that one. Otherwise that end could be lost, and the job that went before would
// be sent again after this one. While commits fail, all of them stay as other jobs do.
//
// A claim that waits is released for checkPause.
func (s *Store) checked(ctx context.Context, shard int, claims []store.Claimed) []store.Claimed {
	if len(claims) == 0 {
		return claims
	}
	stale, waiting := s.examine(ctx, shard, claims)
	if len(stale) == 0 && len(waiting) == 0 {
		return claims
	}
	s.release(ctx, claims, waiting)
	left := make([]store.Claimed, 0, len(claims))
	for i := range claims {
		if _, outdated := stale[i]; !outdated && !slices.Contains(waiting, i) {
			left = append(left, claims[i])
		}
	}
	return left
}

// examine returns the claims, by index, of jobs whose version in the ledger is newer, and
// those that wait for the ledger. It corrects the former, and writes the outcomes that the latter
// follow from, if it can.
func (s *Store) examine(ctx context.Context, shard int, claims []store.Claimed) (stale map[int]finding, waiting []int) {
	now := job.InstantOf(s.o.Clock.Now())
	if int64(now) < s.checkFrom.Load() && s.isWhole(ctx, shard) {
		return nil, s.following(firstFollowing(claims))
	}
	limited, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	stale, early, err := s.compareClaims(limited, claims)
	unchecked := err != nil
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
		s.o.Logger.Warn("the ledger cannot check claimed jobs; they are delivered unchecked, or wait if Redis was restarted or lost data", "error", err)
	}
	if unchecked && !s.isWhole(ctx, shard) {
		<-limited.Done() // a server that refuses at once must not cause a claim after the other
		all := make([]int, len(claims))
		for i := range all {
			all[i] = i
		}
		return nil, all
	}
	return stale, s.following(early)
}

// isWhole reports whether a shard certainly lacks no job, and has none of an old copy.
func (s *Store) isWhole(ctx context.Context, shard int) bool {
	whole, err := s.inner.Whole(ctx, shard)
	return err == nil && whole
}

// following returns the claims that wait for outcomes, by index. While commits fail, none does.
func (s *Store) following(early []awaited) (claims []int) {
	if s.broken() != nil {
		return nil
	}
	for i := range early {
		claims = append(claims, early[i].claim)
	}
	return claims
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
// job: a cancel takes effect with the next claim. Nor must it raise the version: an old copy
// would overtake what the ledger has.
func (s *Store) release(ctx context.Context, claims []store.Claimed, waiting []int) {
	if len(waiting) == 0 {
		return
	}
	settlements := make([]job.Settlement, len(waiting))
	for i, n := range waiting {
		o := job.Outcome{Kind: job.OutcomeReleased, Reason: reasonWaits, After: checkPause}
		settlements[i] = job.Settle(&claims[n].Job, o, nil)
		settlements[i].IfCancelled, settlements[i].Unclaims = settlements[i].To, true
	}
	if _, err := s.inner.Settle(context.WithoutCancel(ctx), settlements); err != nil {
		s.o.Logger.Warn("claimed jobs that wait for the ledger could not be released", "jobs", len(waiting), "error", err)
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
