package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

const (
	// checkLimit is how long claims wait for the ledger. It counts towards their leases.
	checkLimit = 500 * time.Millisecond
	// checkPause is how long claims of a whole shard go unchecked after the ledger did not answer, and
	// how long claims that wait for an outcome rest.
	checkPause = time.Second
	// reasonWaits is why they do.
	reasonWaits = "waits_for_ledger"
)

// errSilent is the error of a claim of a shard that is not whole.
var errSilent = fmt.Errorf("%w: it does not answer which of the due jobs have ended or changed", store.ErrLedgerDown)

// claim claims in the store what is as in the ledger. A shard that is not whole may have gone back in
// time to jobs that have ended, and the ledger alone knows. So the ledger is asked before, as for a call
// of a client: a claim of an old copy would raise its version. Without an answer nothing is claimed.
func (s *Store) claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	o.AwaitWhole, o.OnlyWhole = true, true
	claims, err := s.inner.Claim(ctx, shard, hints, o)
	whole := !errors.Is(err, store.ErrNotWhole)
	if !whole {
		if err := s.lookAt(ctx, hints); err != nil {
			return nil, err
		}
		o.OnlyWhole = false
		claims, err = s.inner.Claim(ctx, shard, hints, o)
	}
	if err != nil || len(claims) == 0 {
		return nil, err
	}
	return s.checked(ctx, claims, whole)
}

// lookAt looks at hinted jobs before they are claimed.
func (s *Store) lookAt(ctx context.Context, hints []store.Hint) error {
	limited, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	looks := make([]*look, len(hints))
	for i := range hints {
		looks[i] = &look{key: hints[i].Key()}
	}
	if s.broken() == nil {
		_ = s.flush(limited) // the store may have lost an outcome that only the queue of this node has
	}
	err := s.lookFirst(limited, looks...)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return errSilent
	}
	return err
}

// checked leaves out claims of jobs whose version in the ledger is newer, and updates
// the store with it. If the ledger does not answer, other claims of a whole shard stay: delivery does
// not depend on the ledger. Those of any other shard are repeated.
//
// A callback stays only if the ledger has it, with the outcome that it reports. Otherwise
// that outcome could be lost after the callback was sent, and another one would be reported
// under the same id. A job that follows another one of its order key stays only if the ledger
// has the end of that one. Otherwise that end could be lost, and the job that went before would
// be sent again after this one. While commits fail, all of them stay as other jobs do.
//
// A claim that waits for an outcome is released for checkPause.
func (s *Store) checked(ctx context.Context, claims []store.Claimed, whole bool) ([]store.Claimed, error) {
	stale, waiting, err := s.examine(ctx, claims, whole)
	if err != nil || len(stale) == 0 && len(waiting) == 0 {
		return claims, err
	}
	s.release(ctx, claims, waiting)
	left := make([]store.Claimed, 0, len(claims))
	for i := range claims {
		if _, outdated := stale[i]; !outdated && !slices.Contains(waiting, i) {
			left = append(left, claims[i])
		}
	}
	return left, nil
}

// examine returns the claims, by index, of jobs whose version in the ledger is newer, and
// those that wait for an outcome. It corrects the former, and writes the outcomes that the latter
// follow from, if it can.
func (s *Store) examine(ctx context.Context, claims []store.Claimed, whole bool) (stale map[int]finding, waiting []int, err error) {
	now := job.InstantOf(s.o.Clock.Now())
	if whole && int64(now) < s.checkFrom.Load() {
		return nil, s.following(firstFollowing(claims)), nil
	}
	limited, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	stale, early, err := s.compareClaims(limited, claims)
	if err != nil && !whole {
		return nil, nil, errSilent
	}
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
	return stale, s.following(early), nil
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

// release releases claims that wait for an outcome. If it fails, the jobs return when
// their leases have expired. The ledger does not record the release, so it must end no
// job: a cancel takes effect with the next claim.
func (s *Store) release(ctx context.Context, claims []store.Claimed, waiting []int) {
	if len(waiting) == 0 {
		return
	}
	settlements := make([]job.Settlement, len(waiting))
	for i, n := range waiting {
		o := job.Outcome{Kind: job.OutcomeReleased, Reason: reasonWaits, After: checkPause}
		settlements[i] = job.Settle(&claims[n].Job, o, nil)
		settlements[i].IfCancelled = settlements[i].To
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
