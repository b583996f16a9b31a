package ledger

import (
	"errors"
	"fmt"
	"slices"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// reportUnreadable logs jobs of the ledger that cannot be read, or attempts of them: somebody wrote to the
// tables, or the server lost something. The first are named, and the others are not kept waiting for them.
func (s *Store) reportUnreadable(list []*entry) {
	if len(list) == 0 {
		return
	}
	named := list[:min(len(list), store.MaxUnreadableNamed)]
	names := make([]string, len(named))
	for i, e := range named {
		names[i] = fmt.Sprintf("%s (seq %d: %v)", e.key, e.seq, e.bad)
	}
	s.o.Logger.Error("jobs of the ledger cannot be read and are skipped", "jobs", len(list), "first", names)
}

// cannotRead is the error of a job that the ledger has and cannot decode.
func (s *Store) cannotRead(e *entry) error {
	s.reportUnreadable([]*entry{e})
	return fmt.Errorf("%w: %s: %w", store.ErrUnreadable, e.key, e.bad)
}

var (
	errState   = errors.New("there is no such state")
	errCount   = errors.New("a negative count")
	errPayload = errors.New("its payload is missing")
)

// checkRow returns an error if a figure of a message is invalid.
func checkRow(state int64, counts ...int64) error {
	switch {
	case state < 0 || state > int64(job.Expired):
		return fmt.Errorf("%w as %d", errState, state)
	case slices.Min(counts) < 0:
		return errCount
	}
	return nil
}
