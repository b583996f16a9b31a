package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// unreadable is a job of the journal, or an attempt of it, that cannot be read:
// somebody wrote to the tables, or the server lost something. It is named, and
// the others are not kept waiting for it.
type unreadable struct {
	seq   int64
	key   job.Key
	uid   string
	state job.State
	err   error
}

// unreadables collects what could not be read, each job once.
type unreadables struct {
	mu    sync.Mutex
	found map[int64]unreadable
}

func (u *unreadables) add(list ...unreadable) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range list {
		if u.found == nil {
			u.found = map[int64]unreadable{}
		}
		u.found[r.seq] = r
	}
}

func (u *unreadables) has(seq int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, is := u.found[seq]
	return is
}

// all are sorted as they came to the journal.
func (u *unreadables) all() []unreadable {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := make([]unreadable, 0, len(u.found))
	for _, r := range u.found {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b unreadable) int { return int(a.seq - b.seq) })
	return list
}

// reportUnreadable tells the operator. Only the first are named.
func (s *Store) reportUnreadable(list []unreadable) {
	if len(list) == 0 {
		return
	}
	named := list[:min(len(list), store.MaxUnreadableNamed)]
	names := make([]string, len(named))
	for i := range named {
		names[i] = fmt.Sprintf("%s (seq %d: %v)", named[i].key, named[i].seq, named[i].err)
	}
	s.o.Logger.Error("jobs of the journal cannot be read, and are passed over", "jobs", len(list), "first", names)
}

var (
	errState   = errors.New("there is no such state")
	errCount   = errors.New("a negative count")
	errPayload = errors.New("its payload is missing")
)

// checkRow tells what is wrong with the figures of a message.
func checkRow(state int64, counts ...int64) error {
	switch {
	case state < 0 || state > int64(job.Expired):
		return fmt.Errorf("%w as %d", errState, state)
	case slices.Min(counts) < 0:
		return errCount
	}
	return nil
}

// readable reads all that may be restored, and gives what cannot be read.
func (s *Store) readable(ctx context.Context) ([]unreadable, error) {
	var all []unreadable
	for after := (*entryRow)(nil); ; {
		page, err := s.compare.openPage(ctx, "", after)
		if err != nil {
			return nil, err
		}
		var seqs []int64
		for _, e := range page {
			if e.bad != nil {
				all = append(all, e.unreadable())
			} else {
				seqs = append(seqs, e.seq)
			}
		}
		err = s.eachMessages(ctx, seqs, func(_ []whole, bad []unreadable) error {
			all = append(all, bad...)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(page) < comparePage {
			return all, nil
		}
		after = page[len(page)-1]
	}
}
