package sqlstore

import (
	"sync"
	"time"
)

// floor is a lower bound for reading rows that are deleted in the order of an index. Below it, there are only deleted rows. PostgreSQL
// cannot remove them while somebody holds a transaction open, and would walk over all of them.
//
// A transaction may commit after others that began later. So the bound follows what was read when all transactions have ended that ran then. A
// program may hold one for hours: the bound follows after a lag, too, and sometimes a call reads without it.
type floor struct {
	every time.Duration // between two calls that read without the bound

	mu     sync.Mutex
	bound  int64
	next   int64     // the bound after it
	unborn int64     // no transaction from this one on ran when next was read; 0: unknown
	since  time.Time // when next was read
	seen   int64     // the highest value that was read
	swept  time.Time
}

const (
	floorLag   = 5 * time.Second  // transactions of duehook take less time
	foldSweep  = 10 * time.Second // those that took more are found after this time
	purgeSweep = time.Minute
)

// from is the bound for a call: it reads higher values.
func (f *floor) from(now time.Time) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.swept) >= f.every {
		f.swept = now
		return 0
	}
	return f.bound
}

// peek is the bound, and whether the next call reads without it.
func (f *floor) peek(now time.Time) (bound int64, sweeps bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bound, now.Sub(f.swept) >= f.every
}

// saw notes what a call has read and deleted.
func (f *floor) saw(r reach, now time.Time) {
	if r.highest == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.least <= f.bound { // of a late transaction, or of an older copy of the database
		f.bound, f.next, f.seen, f.unborn, f.since = 0, 0, 0, 0, now
	}
	f.seen = max(f.seen, r.highest)
	if f.unborn != 0 && r.running >= f.unborn || now.Sub(f.since) >= floorLag {
		f.bound, f.next, f.unborn, f.since = f.next, f.seen, r.unborn, now
	}
}

// reach is what a transaction has read.
type reach struct {
	least, highest int64 // the values; 0: none
	// running is the first transaction that still ran, and no transaction from unborn on did; 0: unknown.
	running, unborn int64
}

func (r *reach) add(of reach) {
	if of.highest == 0 {
		return
	}
	if r.highest == 0 {
		*r = of
		return
	}
	r.least, r.highest, r.unborn = min(r.least, of.least), max(r.highest, of.highest), max(r.unborn, of.unborn)
}
