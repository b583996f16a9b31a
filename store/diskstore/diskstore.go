// Package diskstore keeps the jobs of one node in an ordered key-value engine, Pebble: on
// disk, or on a file system in memory. The rows of the engine are the only truth. They are
// in keys.go.
//
// The whole record of an unfinished job lies under the time at which it needs attention, so
// that jobs which are due together lie together. A narrow entry puts it into the bucket of
// its lane. There is no ready list: Take plans and claims at once. A claim is written without waiting for the disk,
// so that the lease of a job that crashes its node is seen to expire. Registrations and
// outcomes wait for the disk; the engine gathers the calls that wait.
//
// One mutex guards all decisions. Reading and decoding jobs goes on without it, on
// snapshots.
package diskstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/tidwall/btree"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// Options configure a Store.
type Options struct {
	// Dir is the data directory, in which the engine's files are in jobs; empty on a file
	// system of its own in memory.
	Dir string
	// FS is the file system; nil is the machine's, or a new one in memory if Dir is empty.
	FS vfs.FS
	// Cache bounds the engine's cache of blocks, in bytes; zero: 128 MB.
	Cache int64
	// Clock is the store's clock; nil is the machine's.
	Clock job.Clock
	// Retention is how long a delivered, cancelled or expired job can be looked
	// up; zero forgets it at once. Dead letters stay until they are replayed.
	Retention time.Duration
	// Logger gets the messages of the engine; nil drops them.
	Logger *slog.Logger
}

// Store is a store.Store on an engine of its own. It has one shard.
type Store struct {
	db        *pebble.DB
	files     *witnessFS   // nil in memory
	dirLock   *pebble.Lock // nil in memory
	readOnly  bool         // see OpenReader
	clock     job.Clock
	logger    *slog.Logger
	retention time.Duration
	done      chan struct{} // closed by Close
	failed    chan struct{} // closed when the engine failed
	failure   atomic.Pointer[error]
	active    sync.WaitGroup // calls that use the engine
	room      room

	mu        sync.Mutex
	closed    bool
	stuck     bool // the engine cannot even be closed
	topics    btree.Map[string, *topic]
	lanes     btree.Map[string, *lane]
	dead      btree.Map[string, int64] // dead letters by listing.DeadName
	endpoints btree.Map[string, *endpoint]
	flights   map[job.Key]*flight
	held      int                     // bytes of the records that flights hold
	notClosed map[*endpoint]struct{}  // their circuits may be open, half-open or ramping up
	limits    map[string]*rules.Topic // of topics
	waiting   lines                   // for fewer jobs in flight
	shared    lines                   // for workers of the caller
	ranked    map[string]*ranked      // of topics
	counts    counts
	meta      meta
	line      *btree.BTreeG[*lane]   // lanes by the time of their next visit
	seq       uint64                 // the last place given in the line
	woken     chan struct{}          // closed when takers should look again; nil while nobody waits
	inboxes   map[*inbox]struct{}    // one for each caller of Listen
	pulls     map[string]job.Instant // of topics: when consumers of pull queues may find jobs, since the lock was taken
	earlier   bool                   // the line got an earlier head since the lock was taken
	latest    job.Instant            // the latest time before the clock went back
	wentBack  bool                   // the clock; the next call of Take corrects the store
	syncing   *syncing               // the last durable call; earlier ones reach the disk before it
	synced    atomic.Int64           // an instant of the store: what was changed durably before it is on the disk
}

// syncing is a durable call whose rows may not be on the disk yet.
type syncing struct{ done chan struct{} }

// Embedded is an open Store.
type Embedded interface {
	store.Store
	// Backup copies the store as it is into a data directory, which must hold no jobs. A store
	// opens on the copy. Acknowledged changes are in it, and calls go on meanwhile.
	Backup(ctx context.Context, dir string) error
	// Takes returns why a registration would not be stored, or nil. Ping only asks whether the store is open.
	Takes(ctx context.Context) error
	// Failed is closed when the store cannot serve any more and must be opened anew.
	Failed() <-chan struct{}
	// Failure is why, or nil.
	Failure() error
	// InFlight counts the jobs in flight, without those that consumers have.
	InFlight() int
}

// Open opens the store in a directory, and makes it if necessary.
//
// It returns an interface: the compiler makes a copy of the generic code of Pebble and of btree in each
// package that sees *Store.
func Open(o Options) (Embedded, error) {
	s, err := open(o, false)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func open(o Options, readOnly bool) (*Store, error) {
	if o.Clock == nil {
		o.Clock = job.SystemClock()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.FS == nil {
		if o.FS = vfs.Default; o.Dir == "" {
			o.FS = Memory()
		}
	}
	disk := &patientFS{FS: o.FS}
	o.FS = disk
	s := &Store{
		readOnly:  readOnly,
		clock:     o.Clock,
		logger:    o.Logger,
		retention: o.Retention,
		done:      make(chan struct{}),
		failed:    make(chan struct{}),
		room:      room{fs: disk, dir: engineDir(&o)},
		flights:   map[job.Key]*flight{},
		notClosed: map[*endpoint]struct{}{},
		limits:    map[string]*rules.Topic{},
		waiting:   lines{},
		shared:    lines{},
		ranked:    map[string]*ranked{},
		line:      btree.NewBTreeGOptions(byLook, btree.Options{NoLocks: true}),
		pulls:     map[string]job.Instant{},
		inboxes:   map[*inbox]struct{}{},
	}
	if o.Dir != "" {
		s.files = &witnessFS{patientFS: disk, data: o.Dir, dir: engineDir(&o), gone: map[string]bool{}, perms: permsOf(disk, o.Dir), synced: syncedLog{clock: o.Clock}}
		o.FS = s.files
	}
	err := s.openEngine(&o)
	if err == nil {
		err = s.recover()
	}
	if err == nil && s.files != nil && !readOnly {
		err = s.files.opened()
	}
	if err != nil {
		return nil, errors.Join(explain(engineDir(&o), err), s.closeEngine())
	}
	return s, nil
}

// closeEngine closes what is open of the engine.
func (s *Store) closeEngine() error {
	var errs []error
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.files != nil {
		errs = append(errs, s.files.end())
	}
	if s.dirLock != nil {
		errs = append(errs, s.dirLock.Close())
	}
	return errors.Join(errs...)
}

// errClosed is the error of calls after Close.
var errClosed = fmt.Errorf("%w: the store is closed", store.ErrUnavailable)

// engineFailed is fail after an error of the engine's disk.
func (s *Store) engineFailed(err error) {
	if s.fail(err) {
		s.logger.Error("the storage engine stopped: free space on the disk or repair it, then restart", "error", err)
	}
}

// damaged fails the store when the engine has read a damaged file.
func (s *Store) damaged(info pebble.DataCorruptionInfo) {
	err := fmt.Errorf("%w: %w", &DamageError{info.Path, "is damaged"}, info.Details)
	if s.fail(err) {
		s.logger.Error("a file of the jobs is damaged: restore a backup, or see docs/storage.md", "file", info.Path, "error", info.Details)
	}
}

// fail ends all later calls: the engine cannot write, or what is in memory may differ from
// it.
func (s *Store) fail(err error) (first bool) {
	if first = s.failure.CompareAndSwap(nil, &err); first {
		close(s.failed)
	}
	return first
}

// Failed is closed when the store cannot serve any more and must be opened anew.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Failure is why, or nil.
func (s *Store) Failure() error {
	if err := s.failure.Load(); err != nil {
		return unavailable(*err)
	}
	return nil
}

// enter locks the store for a call and returns the time. Without an error, the caller must
// call leave, and then s.active.Done when it no longer uses the engine.
func (s *Store) enter(ctx context.Context) (job.Instant, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	err := s.Failure()
	if s.closed {
		err = errClosed
	}
	if err != nil {
		s.mu.Unlock()
		return 0, err
	}
	s.active.Add(1)
	s.earlier = false
	now := job.InstantOf(s.clock.Now())
	if s.latest.Sub(now) > clockSlack {
		s.wentBack = true
		s.latest = now
	}
	s.latest = max(s.latest, now)
	return now, nil
}

// leave wakes takers if the call made a lane the earliest, and consumers of pull queues, and unlocks the store.
func (s *Store) leave() {
	for topic, at := range s.pulls {
		s.publish(store.PullChannel, []byte(store.PullMessage(topic, at)))
	}
	if s.earlier || len(s.pulls) > 0 {
		s.wakeTakers()
	}
	clear(s.pulls)
	s.mu.Unlock()
}

// locked runs a call that needs only what is in memory.
func (s *Store) locked(ctx context.Context, call func(now job.Instant)) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.active.Done()
	defer s.leave()
	call(now)
	return nil
}

// Ping fails once the store is closed or its engine failed.
func (s *Store) Ping(ctx context.Context) error {
	err := s.locked(ctx, func(job.Instant) {})
	return err
}

// Takes returns why a registration would not be stored, or nil.
func (s *Store) Takes(ctx context.Context) error {
	if err := s.Ping(ctx); err != nil {
		return err
	}
	if s.full() {
		return fmt.Errorf("%w: the disk has no room for new jobs: free space", store.ErrUnavailable)
	}
	return nil
}

// Close ends all calls. A second call does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.done)
	s.mu.Unlock()
	s.active.Wait()
	if s.stuck {
		return s.Failure()
	}
	if err := s.closeEngine(); err != nil {
		return fmt.Errorf("close the storage engine: %w", err)
	}
	return nil
}

// Shards is 1.
func (s *Store) Shards() int { return 1 }
