package ledger

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// unreadable is a job of the ledger, or an attempt of it, that cannot be read:
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

// add adds jobs.
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

// has reports whether a message was added.
func (u *unreadables) has(seq int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, is := u.found[seq]
	return is
}

// all returns the jobs in the order of their registration.
func (u *unreadables) all() []unreadable {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := make([]unreadable, 0, len(u.found))
	for _, r := range u.found {
		list = append(list, r)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].seq < list[j].seq })
	return list
}

// reportUnreadable logs the jobs, naming the first of them.
func (s *Store) reportUnreadable(list []unreadable) {
	if len(list) == 0 {
		return
	}
	named := list[:min(len(list), store.MaxUnreadableNamed)]
	names := make([]string, len(named))
	for i := range named {
		names[i] = fmt.Sprintf("%s (seq %d: %v)", named[i].key, named[i].seq, named[i].err)
	}
	s.o.Logger.Error("jobs of the ledger cannot be read and are skipped", "jobs", len(list), "first", names)
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
