package journal

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Unreadable is a job of the journal, or an attempt of it, that cannot be read:
// somebody wrote to the tables, or the server lost something. It is named, and
// the others are not kept waiting for it.
type Unreadable struct {
	Seq   int64
	Key   job.Key
	UID   string
	State job.State
	Err   error
}

// Unreadables collects what could not be read, each job once.
type Unreadables struct {
	mu    sync.Mutex
	found map[int64]Unreadable
}

// Add adds jobs.
func (u *Unreadables) Add(list ...Unreadable) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range list {
		if u.found == nil {
			u.found = map[int64]Unreadable{}
		}
		u.found[r.Seq] = r
	}
}

// Has reports whether a message was added.
func (u *Unreadables) Has(seq int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, is := u.found[seq]
	return is
}

// All returns the jobs in the order of their registration.
func (u *Unreadables) All() []Unreadable {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := make([]Unreadable, 0, len(u.found))
	for _, r := range u.found {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b Unreadable) int { return int(a.Seq - b.Seq) })
	return list
}

// ReportUnreadable logs the jobs, naming the first of them.
func (j *Journal) ReportUnreadable(list []Unreadable) {
	if len(list) == 0 {
		return
	}
	named := list[:min(len(list), store.MaxUnreadableNamed)]
	names := make([]string, len(named))
	for i := range named {
		names[i] = fmt.Sprintf("%s (seq %d: %v)", named[i].Key, named[i].Seq, named[i].Err)
	}
	j.o.Logger.Error("jobs of the journal cannot be read and are skipped", "jobs", len(list), "first", names)
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
