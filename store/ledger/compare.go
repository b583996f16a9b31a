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

// comparer compares a ledger with a store.
type comparer struct {
	*reader
	inner store.Restorable
}

// finding is a difference seen once.
type finding struct {
	difference Difference
	key        job.Key
	entry      *entry // the message that differs; nil: there is none
	standing   store.Standing
}

// compare compares what the store and the ledger have of a key. rows are the message of the store's job,
// and the last of the key.
func compare(key job.Key, s store.Standing, rows []*entry) finding {
	own, last := readable(pickOwn(rows, s.UID)), readable(pickOwn(rows, ""))
	f := finding{key: key, entry: own, standing: s}
	switch {
	case last != nil && last.open:
		f.entry, f.difference = last, against(last, own, &s)
	case !s.Exists() || s.State.Final() && s.State != job.Dead: // only what is unfinished needs a message
	case own == nil:
		f.difference = MissingInLedger
	case own.replaced, own.version >= s.Version:
		f.difference = FinishedInLedger
		if last != nil { // another job may have taken its place, and ended as well
			f.entry = last
		}
	default:
		f.difference = BehindInLedger // it was replayed
	}
	return f
}

// against compares a message that may be restored with the store's job, whose message is own. If equal
// versions differ, the ended one is right.
func against(last, own *entry, s *store.Standing) Difference {
	at := place{s.CreatedAt, s.UID}
	if own != nil {
		at = own.place
	}
	same, final := s.UID == last.uid, last.state.Final()
	switch {
	case !s.Exists():
		return MissingInStore
	case same && s.Version <= last.version && final && !s.State.Final():
		return FinishedInLedger
	case !same && last.compare(at) > 0, same && s.Version < last.version:
		return BehindInStore
	case !same, s.Version > last.version, s.State.Final() && !final:
		return BehindInLedger
	}
	return DifferentNot
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
func (s comparer) fromLedger(ctx context.Context, page []*entry) (found []finding, err error) {
	keys := make([]job.Key, len(page))
	for i, e := range page {
		keys[i] = e.key
	}
	standings, err := s.standings(ctx, keys)
	if err != nil {
		return nil, err
	}
	for i, e := range page {
		f := compare(e.key, standings[i], page[i:i+1])
		if e.bad != nil {
			f.difference, f.entry = UnreadableInLedger, e
		}
		if f.difference != DifferentNot {
			found = append(found, f)
		}
	}
	return found, nil
}

// fromStore compares the store's unfinished jobs with the ledger. fromLedger compares
// messages that may be restored.
func (s comparer) fromStore(ctx context.Context, jobs []job.Job) (found []finding, err error) {
	keys, standings := make([]job.Key, len(jobs)), make([]store.Standing, len(jobs))
	for i := range jobs {
		keys[i], standings[i] = jobs[i].Key, store.StandingOf(&jobs[i])
	}
	rows, err := s.entries(ctx, keys, standings)
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		f := compare(key, standings[i], rows[i])
		if f.difference != DifferentNot && (f.entry == nil || !f.entry.open) {
			found = append(found, f)
		}
	}
	return found, nil
}

// again looks a second time at findings. moving counts the jobs that the store has in an older version, or
// lacks, and that changed there between the looks.
func (s comparer) again(ctx context.Context, found []finding) (still []finding, moving int, err error) {
	keys, before := make([]job.Key, len(found)), make([]store.Standing, len(found))
	for i := range found {
		keys[i], before[i] = found[i].key, found[i].standing
	}
	rows, err := s.entries(ctx, keys, before)
	if err != nil {
		return nil, 0, err
	}
	// Read after the ledger, so the store's state is at least as recent.
	standings, err := s.standings(ctx, keys)
	if err != nil {
		return nil, 0, err
	}
	for i := range found {
		now := compare(keys[i], standings[i], rows[i])
		switch {
		case now.difference == DifferentNot || standings[i].UID != before[i].UID: // it changed
		case now.same(&found[i]):
			still = append(still, now)
		case now.putsForward(), now.difference == BehindInStore: // or it was claimed meanwhile
			moving++
		}
	}
	return still, moving, nil
}

// standings looks jobs up in the store.
func (s comparer) standings(ctx context.Context, keys []job.Key) ([]store.Standing, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	standings, err := s.inner.Standings(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("look jobs up in the store: %w", err)
	}
	return standings, nil
}
