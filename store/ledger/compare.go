package ledger

import (
	"context"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
)

// Difference is a disagreement of a journal and a store.
type Difference string

// The differences.
const (
	// DifferentNot: no difference is visible.
	DifferentNot Difference = ""
	// MissingInStore: unfinished in the journal, or a dead letter, and the store
	// has no such job.
	MissingInStore Difference = "missing_in_store"
	// FinishedInJournal: unfinished in the store, ended in the journal.
	FinishedInJournal Difference = "finished_in_journal"
	// BehindInStore: the journal has a later version, or a later registration.
	BehindInStore Difference = "behind_in_store"
	// BehindInJournal: the store has a later version, or a later registration.
	BehindInJournal Difference = "behind_in_journal"
	// UnreadableInJournal: the journal's job, or an attempt of it, cannot be read and so
	// not restored.
	UnreadableInJournal Difference = "unreadable_in_journal"
	// MissingInJournal: unfinished in the store, and the journal has no such job.
	MissingInJournal Difference = "missing_in_journal"
)

// laterThan reports whether e was registered later than the store's job. The time of an
// unconfirmed message is its node's.
func laterThan(e *journal.Entry, s *store.Standing) bool {
	switch {
	case e.Confirmed == journal.Unconfirmed:
		return s.State.Final()
	case e.Created != s.CreatedAt:
		return e.Created > s.CreatedAt
	}
	return e.UID > s.UID
}

// against compares a message that may be restored with the store's job of its key. If
// equal versions differ, the ended one is right.
func against(e *journal.Entry, s *store.Standing) Difference {
	switch {
	case !s.Exists():
		return MissingInStore
	case s.UID == e.UID && s.Version <= e.Version && e.State.Final() && !s.State.Final():
		return FinishedInJournal
	case s.UID != e.UID && laterThan(e, s), s.UID == e.UID && s.Version < e.Version:
		return BehindInStore
	case s.UID != e.UID, s.Version > e.Version:
		return BehindInJournal
	case s.State.Final() && !e.State.Final():
		return BehindInJournal
	}
	return DifferentNot
}

// judged compares an unfinished job of the store with two messages of its key: the job's
// own and the one that may be restored. Either may be nil. If the store is wrong, judged
// returns the right message.
func judged(s *store.Standing, own, open *journal.Entry) (Difference, *journal.Entry) {
	switch {
	case own != nil && own.Open:
		return against(own, s), own
	case open != nil && laterThan(open, s):
		return BehindInStore, open
	case own == nil && open != nil:
		return BehindInJournal, nil
	case own == nil:
		return MissingInJournal, nil
	case ended(own, s):
		return FinishedInJournal, own
	}
	return BehindInJournal, nil // it was replayed, or marked as replaced by mistake
}

// ended reports whether a message that may not be restored has the end of the store's
// job. A message is also superseded if its registration reached the store after another
// one of the key.
func ended(e *journal.Entry, s *store.Standing) bool {
	switch {
	case e.Confirmed == journal.Unconfirmed: // it was withdrawn
		return false
	case e.Confirmed == journal.Superseded && (e.Followed || e.State == job.Cancelled):
		return e.Followed
	}
	return e.Version >= s.Version
}

// comparer compares a journal with a store.
type comparer struct {
	*journal.Reader
	inner store.Restorable
}

// finding is a difference seen once.
type finding struct {
	difference Difference
	key        job.Key
	entry      *journal.Entry // nil: the journal has no relevant message
	standing   store.Standing
}

// same reports whether two looks at a job found the same difference. If so, no change is
// in progress.
func (f *finding) same(o *finding) bool {
	if f.difference != o.difference || f.standing != o.standing || (f.entry == nil) != (o.entry == nil) {
		return false
	}
	return f.entry == nil || f.entry.Seq == o.entry.Seq && f.entry.Version == o.entry.Version
}

// fromJournal compares a page of the journal with the store.
func (s comparer) fromJournal(ctx context.Context, page []*journal.Entry) ([]finding, error) {
	if len(page) == 0 {
		return nil, nil
	}
	keys := make([]job.Key, len(page))
	for i, e := range page {
		keys[i] = e.Key
	}
	standings, err := s.inner.Standings(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("look jobs up in the store: %w", err)
	}
	var found []finding
	for i, e := range page {
		if d := against(e, &standings[i]); d != DifferentNot {
			found = append(found, finding{d, e.Key, e, standings[i]})
		}
	}
	return found, nil
}

// fromStore compares the store's unfinished jobs with the journal. fromJournal compares
// messages that may be restored.
func (s comparer) fromStore(ctx context.Context, keys []job.Key, standings []store.Standing) ([]finding, error) {
	own, open, err := s.Entries(ctx, keys, standings)
	if err != nil {
		return nil, err
	}
	var found []finding
	for i := range keys {
		if open[i] != nil {
			continue
		}
		if d, e := judged(&standings[i], own[i], nil); d != DifferentNot {
			found = append(found, finding{d, keys[i], e, standings[i]})
		}
	}
	return found, nil
}

// again looks a second time at findings. moving counts the jobs that the store should get
// from the journal and that changed there between the looks.
func (s comparer) again(ctx context.Context, found []finding) (still []finding, moving int, err error) {
	keys, before := make([]job.Key, len(found)), make([]store.Standing, len(found))
	for i := range found {
		keys[i], before[i] = found[i].key, found[i].standing
	}
	own, open, err := s.Entries(ctx, keys, before)
	if err != nil {
		return nil, 0, err
	}
	// Read after the journal, so the store's state is at least as recent.
	standings, err := s.inner.Standings(ctx, keys)
	if err != nil {
		return nil, 0, fmt.Errorf("look jobs up in the store: %w", err)
	}
	for i := range found {
		now := finding{key: keys[i], standing: standings[i]}
		switch {
		case standings[i].UID != before[i].UID: // it changed
		case open[i] != nil:
			now.difference, now.entry = against(open[i], &standings[i]), open[i]
		case standings[i].Exists() && (!standings[i].State.Final() || standings[i].State == job.Dead):
			now.difference, now.entry = judged(&standings[i], own[i], nil)
		}
		switch {
		case now.difference == DifferentNot:
		case now.same(&found[i]):
			still = append(still, now)
		case now.putsForward():
			moving++
		}
	}
	return still, moving, nil
}
