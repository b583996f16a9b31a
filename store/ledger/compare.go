package ledger

import (
	"context"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Difference is a disagreement of a ledger and a store.
type Difference string

// The differences.
const (
	// DifferentNot: no difference is visible.
	DifferentNot Difference = ""
	// MissingInStore: unfinished in the ledger, or a dead letter, and the store
	// has no such job.
	MissingInStore Difference = "missing_in_store"
	// FinishedInLedger: unfinished in the store, ended in the ledger.
	FinishedInLedger Difference = "finished_in_ledger"
	// BehindInStore: the ledger has a later version, or a later registration.
	BehindInStore Difference = "behind_in_store"
	// BehindInLedger: the store has a later version, or a later registration.
	BehindInLedger Difference = "behind_in_ledger"
	// UnreadableInLedger: the ledger's job, or an attempt of it, cannot be read and so
	// not restored.
	UnreadableInLedger Difference = "unreadable_in_ledger"
	// MissingInLedger: unfinished in the store, and the ledger has no such job.
	MissingInLedger Difference = "missing_in_ledger"
)

// laterThan reports whether e was registered later than a job of the store that the ledger lacks.
func laterThan(e *entry, s *store.Standing) bool { return e.compare(place{s.CreatedAt, s.UID}) > 0 }

// against compares a message that may be restored with the store's job of its key. If
// equal versions differ, the ended one is right.
func against(e *entry, s *store.Standing) Difference {
	switch {
	case !s.Exists():
		return MissingInStore
	case s.UID == e.uid && s.Version <= e.version && e.state.Final() && !s.State.Final():
		return FinishedInLedger
	case s.UID != e.uid && laterThan(e, s), s.UID == e.uid && s.Version < e.version:
		return BehindInStore
	case s.UID != e.uid, s.Version > e.version:
		return BehindInLedger
	case s.State.Final() && !e.state.Final():
		return BehindInLedger
	}
	return DifferentNot
}

// judged compares an unfinished job of the store with two messages of its key: the job's
// own and the one that may be restored. Either may be nil. If the store is wrong, judged
// returns the right message.
func judged(s *store.Standing, own, open *entry) (Difference, *entry) {
	switch {
	case own != nil && own.open:
		return against(own, s), own
	case open != nil && (own != nil || laterThan(open, s)):
		return BehindInStore, open
	case own == nil && open != nil:
		return BehindInLedger, nil
	case own == nil:
		return MissingInLedger, nil
	case own.replaced, own.version >= s.Version:
		return FinishedInLedger, own
	}
	return BehindInLedger, nil // it was replayed
}

// comparer compares a ledger with a store.
type comparer struct {
	*reader
	inner store.Restorable
}

// finding is a difference seen once.
type finding struct {
	difference Difference
	key        job.Key
	entry      *entry // nil: the ledger has no relevant message
	standing   store.Standing
}

// differing compares what the store and the ledger have of a key: the message of the store's job,
// and the one that may be restored. The store's ended jobs need no message.
func differing(key job.Key, s *store.Standing, own, open *entry) finding {
	f := finding{key: key, standing: *s}
	switch {
	case open != nil:
		f.difference, f.entry = against(open, s), open
	case s.Exists() && (!s.State.Final() || s.State == job.Dead):
		f.difference, f.entry = judged(s, own, nil)
	}
	return f
}

// same reports whether two looks at a job found the same difference. If so, no change is
// in progress.
func (f *finding) same(o *finding) bool {
	if f.difference != o.difference || f.standing != o.standing || (f.entry == nil) != (o.entry == nil) {
		return false
	}
	return f.entry == nil || f.entry.seq == o.entry.seq && f.entry.version == o.entry.version
}

// fromLedger compares a page of the ledger with the store.
func (s comparer) fromLedger(ctx context.Context, page []*entry) ([]finding, error) {
	if len(page) == 0 {
		return nil, nil
	}
	keys := make([]job.Key, len(page))
	for i, e := range page {
		keys[i] = e.key
	}
	standings, err := s.inner.Standings(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("look jobs up in the store: %w", err)
	}
	var found []finding
	for i, e := range page {
		if f := differing(keys[i], &standings[i], nil, e); f.difference != DifferentNot {
			found = append(found, f)
		}
	}
	return found, nil
}

// fromStore compares the store's unfinished jobs with the ledger. fromLedger compares
// messages that may be restored.
func (s comparer) fromStore(ctx context.Context, jobs []job.Job) ([]finding, error) {
	keys, standings := make([]job.Key, len(jobs)), make([]store.Standing, len(jobs))
	for i := range jobs {
		keys[i], standings[i] = jobs[i].Key, store.StandingOf(&jobs[i])
	}
	own, open, err := s.entries(ctx, keys, standings)
	if err != nil {
		return nil, err
	}
	var found []finding
	for i := range keys {
		if f := differing(keys[i], &standings[i], own[i], open[i]); open[i] == nil && f.difference != DifferentNot {
			found = append(found, f)
		}
	}
	return found, nil
}

// again looks a second time at findings. moving counts the jobs that the store should get
// from the ledger and that changed there between the looks.
func (s comparer) again(ctx context.Context, found []finding) (still []finding, moving int, err error) {
	keys, before := make([]job.Key, len(found)), make([]store.Standing, len(found))
	for i := range found {
		keys[i], before[i] = found[i].key, found[i].standing
	}
	own, open, err := s.entries(ctx, keys, before)
	if err != nil {
		return nil, 0, err
	}
	// Read after the ledger, so the store's state is at least as recent.
	standings, err := s.inner.Standings(ctx, keys)
	if err != nil {
		return nil, 0, fmt.Errorf("look jobs up in the store: %w", err)
	}
	for i := range found {
		now := differing(keys[i], &standings[i], own[i], open[i])
		switch {
		case now.difference == DifferentNot || standings[i].UID != before[i].UID: // it changed
		case now.same(&found[i]):
			still = append(still, now)
		case now.putsForward():
			moving++
		}
	}
	return still, moving, nil
}
