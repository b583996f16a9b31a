// Package redisstore keeps jobs in Redis: standalone, behind Sentinel, or in a
// Cluster. Each change of a job is one Lua script, which compares before it
// moves, so it may be sent again when its reply was lost.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	batches "github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/readylist"
)

// Options of a Store.
type Options struct {
	// URL is the address of Redis: redis://[user:password@]host:port/db, rediss:// for TLS,
	// redis-sentinel://[user:password@]master@host:port,host:port/db,
	// redis-cluster://[user:password@]host:port,host:port. CheckURL documents the options
	// behind a question mark.
	URL string
	// Namespace keeps several duehooks on one Redis apart. Default "default".
	Namespace string
	// Shards is the number of parts that jobs are spread over; all nodes must
	// agree on it. Default 1.
	Shards int
	// Retention is how long a finished job can be looked up; 0 forgets it at
	// once. Dead letters stay.
	Retention time.Duration
	// MinReplicas is how many replicas must have a registration, a change by
	// Update or a document before the call returns; with fewer it fails with
	// store.ErrUnavailable, although the change may be there. 0 waits for none.
	MinReplicas int
	// ReplicaWait is how long to wait for them. Default DefaultReplicaWait.
	ReplicaWait time.Duration
	Logger      *slog.Logger
	// Dialer opens the connections; nil: the network's.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)
}

// Store is a store.Store on Redis.
type Store struct {
	db        redis.UniversalClient
	pops      redis.UniversalClient // blocking pops: own pool, never retried
	confirm   *confirming           // nil: no waiting for replicas
	guard     *guard                // nil: the layout is not checked
	shards    []*shard
	common    *shard // keys of what belongs to no shard: documents
	retention time.Duration
	locks     *redsync.Redsync
	log       *slog.Logger

	countables countables
	callers    callers

	closed    atomic.Bool
	closeOnce sync.Once
	closeErr  error
}

// shard is one part of the store, with the state that this process keeps of it.
type shard struct {
	shardKeys
	clock  serverClock
	line   atomic.Pointer[[]inLine] // the earliest lanes after the last plan, until they are used
	pop    popper
	taker  *readylist.Taker
	intake *batches.Batcher[*arrival]
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Documents = (*Store)(nil)
)

// Open prepares a Store. It does not wait for Redis: until Redis answers, calls fail with
// store.ErrUnavailable. With a Redis that is too old, all calls fail with a VersionError.
// While the stored layout is not that of o, they fail with a LayoutError.
//
// It returns an interface and is not inlined: the compiler makes a copy of the methods of go-redis's clients
// in each package that sees *Store.
//
//go:noinline
func Open(_ context.Context, o Options) (Opened, error) {
	s, err := prepare(o, true)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Opened is a store that also says whether it takes jobs.
type Opened interface {
	store.Store
	store.ReadyList
	// Pop takes up to limit hints off the shard's ready list, waiting up to wait (at most 2 s) for the first.
	// Hints lost are safe: their jobs are due again after their visibility deadlines.
	Pop(ctx context.Context, shard, limit int, wait time.Duration) ([]store.Hint, error)
	// Takes returns why a registration would not be stored, or nil. Ping only asks whether Redis answers.
	// The error wraps store.ErrUnavailable.
	Takes(ctx context.Context) error
}

// Inspected is a store for tools.
type Inspected interface {
	Opened
	// ServerVersion is the version of Redis. The error wraps store.ErrUnavailable.
	ServerVersion(ctx context.Context) (string, error)
}

// OpenReader opens a store for tools that only read: unlike Open, it connects, and writes no layout.
// The error wraps store.ErrUnavailable, or is a *VersionError or *LayoutError.
func OpenReader(ctx context.Context, o Options) (Inspected, error) {
	s, err := prepare(o, false)
	if err != nil {
		return nil, err
	}
	err = s.Ping(ctx)
	if err == nil {
		err = s.checkLayout(ctx, o)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// prepare makes a Store, without the guard of the layout if asked so.
func prepare(o Options, guard bool) (*Store, error) {
	if o.Namespace == "" {
		o.Namespace = "default"
	}
	if o.Shards == 0 {
		o.Shards = 1
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.ReplicaWait == 0 {
		o.ReplicaWait = DefaultReplicaWait
	}
	quiet(o.Logger)
	opts, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	opts.Dialer = o.Dialer
	inspect := &inspector{log: o.Logger, replicas: o.MinReplicas, seen: map[string]bool{}}
	opts.OnConnect = inspect.onConnect
	s := &Store{
		db:        connect(opts),
		pops:      connect(popOptions(opts, o.Shards)),
		retention: o.Retention,
		log:       o.Logger,
	}
	if o.MinReplicas > 0 {
		s.confirm = newConfirming(opts, o.MinReplicas, o.ReplicaWait)
	}
	if guard {
		s.guard = newGuard(s.db, o)
		s.db.AddHook(guarded{s.guard})
		inspect.met = func() { s.guard.met.Add(1) }
		s.guard.again = func(ctx context.Context) { inspect.lookAgain(ctx, s.db) }
	}
	s.common = &shard{shardKeys: newShardKeys(o.Namespace)}
	s.locks = redsync.New(goredis.NewPool(s.db))
	for i := range o.Shards {
		sh := &shard{shardKeys: newShardKeys(shardTag(o.Namespace, i, o.Shards))}
		sh.pop.client, sh.pop.key = s.pops, sh.ready
		sh.taker = readylist.New(s, i, job.SystemClock(), o.Logger)
		sh.intake = newIntake(func(ctx context.Context, arrivals []*arrival) { s.sendAll(ctx, sh, arrivals) })
		s.shards = append(s.shards, sh)
	}
	return s, nil
}

var quietOnce sync.Once

// quiet keeps the client library from writing to standard error while Redis is down. The
// library has one logger for the process, which must not change while a client runs, so the
// first store sets it.
func quiet(log *slog.Logger) { quietOnce.Do(func() { redis.SetLogger(libraryLog{log}) }) }

type libraryLog struct{ log *slog.Logger }

func (l libraryLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, v...))
}

// Ping reports whether Redis answers, in a Cluster for all shards.
func (s *Store) Ping(ctx context.Context) error {
	if _, ok := s.db.(*redis.ClusterClient); !ok {
		err := s.db.Ping(ctx).Err()
		if refuses(err) { // a server that cannot save refuses even this
			return fmt.Errorf("%w: %w", store.ErrFull, err)
		}
		return s.wrap(err)
	}
	pipe := s.db.Pipeline()
	for _, sh := range s.shards {
		pipe.Exists(ctx, sh.lanes)
	}
	_, err := pipe.Exec(ctx)
	return s.wrap(err)
}

// Close ends all calls in progress and closes the connections.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.closed.Store(true)
		s.closeErr = errors.Join(s.pops.Close(), s.db.Close())
		if s.confirm != nil {
			s.closeErr = errors.Join(s.closeErr, s.confirm.client.Close())
		}
		if s.guard != nil {
			s.guard.close()
		}
		for _, sh := range s.shards {
			sh.intake.Close()
		}
	})
	return s.closeErr
}

// wrap wraps an error of Redis in store.ErrUnavailable. All errors of Redis and the network
// are temporary here: down, full, failing over, loading.
func (s *Store) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// Shards is the number of shards.
func (s *Store) Shards() int { return len(s.shards) }
