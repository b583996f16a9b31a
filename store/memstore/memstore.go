// Package memstore keeps jobs in the memory of the process. It serves tests, and one node
// beneath a journal.
//
// Like the store on Redis, it has a bucket for each lane, a line of lanes by the time of
// their next visit, and a bounded ready list of hints. One mutex guards it all; jobs are
// encoded and decoded outside of it.
package memstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// Options configure a Store. The zero value is usable.
type Options struct {
	// Clock is the store's clock; nil is the machine's.
	Clock job.Clock
	// Retention is how long a delivered, cancelled or expired job can be looked
	// up; zero forgets it at once. Dead letters stay until they are replayed.
	Retention time.Duration
}

// Store is a store.Store in memory. It has one shard and starts no goroutine.
type Store struct {
	clock     job.Clock
	retention time.Duration
	done      chan struct{} // closed by Close

	mu        sync.Mutex
	closed    bool
	topics    btree.Map[string, *topic]
	lanes     btree.Map[string, *lane]
	dead      btree.Map[string, *deadGroup] // by listing.DeadName
	endpoints btree.Map[string, *endpoint]
	notClosed map[*endpoint]struct{} // their circuits may be open, half-open or ramping up
	endings   *btree.BTreeG[*topic]  // those with ended jobs except dead letters, by when the first may have ended
	documents map[documentKey]store.Document
	limits    map[string]*rules.Topic         // of topics
	orders    map[string]*turns               // by topic/key
	lasts     map[string]last                 // by topic/key
	behind    int64                           // jobs that wait for another one of their order key
	waiting   map[string]*btree.BTreeG[*lane] // lanes by topic and ticket
	ranked    map[string]*ranked              // of topics
	bizKeys   *btree.BTreeG[*record]
	groupIDs  *btree.BTreeG[*record]
	uids      *btree.BTreeG[*record]
	counts    counts
	line      *btree.BTreeG[*lane] // lanes by the time of their next visit
	seq       uint64               // the last place given in the line
	ready     []store.Hint
	pushed    chan struct{}              // closed when hints arrive; nil while nobody waits
	wakers    map[chan struct{}]struct{} // one for each caller of Wakeups
	inboxes   map[*inbox]struct{}        // one for each caller of Listen
	earlier   bool                       // the line got an earlier head since the lock was taken
	lock      lock
	mark      string      // of SwapEpoch
	whole     bool        // see SwapEpoch
	latest    job.Instant // the latest time before the clock went back
	wentBack  bool        // the clock; the next call of Carry corrects the store
}

var _ store.Store = (*Store)(nil)

// New returns an empty store.
func New(o Options) *Store {
	if o.Clock == nil {
		o.Clock = job.SystemClock()
	}
	return &Store{
		clock:     o.Clock,
		retention: o.Retention,
		done:      make(chan struct{}),
		notClosed: map[*endpoint]struct{}{},
		endings:   btree.NewBTreeGOptions(byEnding, btree.Options{NoLocks: true}),
		documents: map[documentKey]store.Document{},
		limits:    map[string]*rules.Topic{},
		orders:    map[string]*turns{},
		lasts:     map[string]last{},
		waiting:   map[string]*btree.BTreeG[*lane]{},
		ranked:    map[string]*ranked{},
		bizKeys:   btree.NewBTreeGOptions(byBizKey, btree.Options{NoLocks: true}),
		groupIDs:  btree.NewBTreeGOptions(byGroupID, btree.Options{NoLocks: true}),
		uids:      btree.NewBTreeGOptions(byUID, btree.Options{NoLocks: true}),
		line:      btree.NewBTreeGOptions(byLook, btree.Options{NoLocks: true}),
		wakers:    map[chan struct{}]struct{}{},
		inboxes:   map[*inbox]struct{}{},
	}
}

// errClosed is the error of calls after Close.
var errClosed = fmt.Errorf("%w: the store is closed", store.ErrUnavailable)

// enter locks the store for a call and returns the time. Without an error, the caller must
// call leave.
func (s *Store) enter(ctx context.Context) (job.Instant, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return 0, errClosed
	}
	s.earlier = false
	now := job.InstantOf(s.clock.Now())
	if s.latest.Sub(now) > clockSlack {
		s.wentBack = true
		s.latest = now
	}
	s.latest = max(s.latest, now)
	return now, nil
}

// leave wakes the carriers if the call made a lane the earliest, and unlocks the store.
func (s *Store) leave() {
	if s.earlier {
		for w := range s.wakers {
			select {
			case w <- struct{}{}:
			default: // already told
			}
		}
	}
	s.mu.Unlock()
}

// Ping fails once the store is closed.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.Now(ctx)
	return err
}

// Close ends all calls. A second call does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	return nil
}

// Shards is 1.
func (s *Store) Shards() int { return 1 }
