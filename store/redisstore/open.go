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
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/store"
)

// Options of a Store.
type Options struct {
	// URL says where Redis is: redis://[user:password@]host:port/db,
	// rediss:// for TLS, redis-sentinel://[user:password@]master@host:port,host:port/db,
	// redis-cluster://[user:password@]host:port,host:port.
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
	// ReplicaWait is how long they are waited for. Default DefaultReplicaWait.
	ReplicaWait time.Duration
	Logger      *slog.Logger
	// Dialer opens the connections; nil: the network's.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)
}

// Store is a store.Store on Redis.
type Store struct {
	db        redis.UniversalClient
	pops      redis.UniversalClient // blocking pops: own pool, never retried
	confirm   *confirming           // nil: replicas are not waited for
	shards    []*shard
	retention time.Duration
	locks     *redsync.Redsync
	log       *slog.Logger

	closed    atomic.Bool
	closeOnce sync.Once
	closeErr  error
}

// shard is one part of the store, with what this process knows of it.
type shard struct {
	shardKeys
	clock serverClock
	pop   popper
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Documents = (*Store)(nil)
)

// Open prepares a Store. It does not wait for Redis: until Redis answers,
// calls fail with store.ErrUnavailable. With a Redis that is too old they do so
// for good, wrapping a VersionError.
func Open(_ context.Context, o Options) (*Store, error) {
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
	opts, err := ParseURL(o.URL)
	if err != nil {
		return nil, err
	}
	opts.Dialer = o.Dialer
	opts.OnConnect = (&inspector{log: o.Logger, replicas: o.MinReplicas, seen: map[string]bool{}}).onConnect
	s := &Store{
		db:        connect(opts),
		pops:      connect(popOptions(opts, o.Shards)),
		retention: o.Retention,
		log:       o.Logger,
	}
	if o.MinReplicas > 0 {
		s.confirm = newConfirming(opts, o.MinReplicas, o.ReplicaWait)
	}
	s.locks = redsync.New(goredis.NewPool(s.db))
	for i := range o.Shards {
		sh := &shard{shardKeys: newShardKeys(shardTag(o.Namespace, i, o.Shards))}
		sh.pop.client, sh.pop.key = s.pops, sh.ready
		s.shards = append(s.shards, sh)
	}
	return s, nil
}

var quietOnce sync.Once

// quiet keeps the client library from writing to standard error while Redis is
// down. Its logger is one for the whole process and must not be set while a
// client runs, so the first store's serves all.
func quiet(log *slog.Logger) { quietOnce.Do(func() { redis.SetLogger(libraryLog{log}) }) }

type libraryLog struct{ log *slog.Logger }

func (l libraryLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, v...))
}

// ParseURL reads the forms of Options.URL.
func ParseURL(raw string) (*redis.UniversalOptions, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return nil, errors.New("redis URL: write redis://host:port, rediss://, redis-sentinel:// or redis-cluster://")
	}
	var o *redis.UniversalOptions
	var err error
	switch scheme {
	case "redis", "rediss":
		o, err = parseSingle(raw)
	case "redis-sentinel":
		o, err = parseSentinel(rest)
	case "redis-cluster":
		o, err = parseCluster(rest)
	default:
		return nil, fmt.Errorf("redis URL: unknown scheme %q; use redis, rediss, redis-sentinel or redis-cluster", scheme)
	}
	if err != nil {
		return nil, err
	}
	o.ContextTimeoutEnabled = true
	o.DialTimeout = 2 * time.Second
	// A failed command is tried again, which dials again: retries of its own
	// would multiply the time that it takes to say that Redis is away.
	o.DialerRetries = 1
	o.ReadTimeout, o.WriteTimeout = callTimeout, callTimeout
	if o.IsClusterMode {
		o.ReadTimeout = clusterCallTimeout
	}
	// RESP3 pushes and client tracking are of no use to us.
	o.Protocol = 2
	o.DisableIdentity = true
	return o, nil
}

func parseSingle(raw string) (*redis.UniversalOptions, error) {
	p, err := redis.ParseURL(raw)
	if err != nil {
		// The cause may quote a part of the URL, and that of the password.
		return nil, errors.New("redis URL: write redis://[user:password@]host:port/db, with special characters of the user and the password percent-encoded")
	}
	return &redis.UniversalOptions{
		Addrs: []string{p.Addr}, DB: p.DB, Username: p.Username, Password: p.Password, TLSConfig: p.TLSConfig,
		PoolSize: p.PoolSize,
	}, nil
}

// parseSentinel reads [user:password@]master@host:port,host:port[/db]. The
// credentials are for the master and its replicas, not for the sentinels.
func parseSentinel(rest string) (*redis.UniversalOptions, error) {
	rest, db, err := cutDB(rest)
	if err != nil {
		return nil, err
	}
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return nil, errors.New("redis URL: write redis-sentinel://master@host:port,host:port: the master's name is missing")
	}
	hosts, err := splitHosts(rest[at+1:], "26379")
	if err != nil {
		return nil, err
	}
	o := &redis.UniversalOptions{Addrs: hosts, DB: db}
	master := rest[:at]
	if i := strings.LastIndexByte(master, '@'); i >= 0 {
		if o.Username, o.Password, err = credentials(master[:i]); err != nil {
			return nil, err
		}
		master = master[i+1:]
	}
	if master == "" {
		return nil, errors.New("redis URL: write redis-sentinel://master@host:port,host:port: the master's name is empty")
	}
	o.MasterName = master
	return o, nil
}

func parseCluster(rest string) (*redis.UniversalOptions, error) {
	rest, db, err := cutDB(rest)
	if err != nil {
		return nil, err
	}
	if db != 0 {
		return nil, errors.New("redis URL: a Redis Cluster has no database numbers; leave /db out")
	}
	o := &redis.UniversalOptions{IsClusterMode: true}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		if o.Username, o.Password, err = credentials(rest[:i]); err != nil {
			return nil, err
		}
		rest = rest[i+1:]
	}
	o.Addrs, err = splitHosts(rest, "6379")
	return o, err
}

func cutDB(rest string) (string, int, error) {
	rest, path, found := strings.Cut(rest, "/")
	if !found || path == "" {
		return rest, 0, nil
	}
	db := 0
	for _, c := range path {
		if c < '0' || c > '9' || db > 1000 {
			return "", 0, errors.New("redis URL: what follows the slash must be a database number")
		}
		db = db*10 + int(c-'0')
	}
	return rest, db, nil
}

func splitHosts(list, port string) ([]string, error) {
	hosts := strings.Split(list, ",")
	for i, h := range hosts {
		if h == "" {
			return nil, errors.New("redis URL: a host is missing in the list")
		}
		host, p, err := net.SplitHostPort(h)
		if err != nil {
			host, p, err = net.SplitHostPort(h + ":" + port)
		}
		if _, bad := strconv.ParseUint(p, 10, 16); err != nil || bad != nil || host == "" {
			return nil, errors.New("redis URL: write each host as host or host:port, an IPv6 address as [address] or [address]:port")
		}
		hosts[i] = net.JoinHostPort(host, p)
	}
	return hosts, nil
}

func credentials(s string) (user, password string, err error) {
	user, password, _ = strings.Cut(s, ":")
	if user, err = url.PathUnescape(user); err != nil {
		return "", "", errors.New("redis URL: the user name is not percent-encoded properly")
	}
	if password, err = url.PathUnescape(password); err != nil {
		return "", "", errors.New("redis URL: the password is not percent-encoded properly")
	}
	return user, password, nil
}

// Ping reports whether Redis answers, in a Cluster for all shards.
func (s *Store) Ping(ctx context.Context) error {
	if _, ok := s.db.(*redis.ClusterClient); !ok {
		return s.wrap(s.db.Ping(ctx).Err())
	}
	pipe := s.db.Pipeline()
	for _, sh := range s.shards {
		pipe.Exists(ctx, sh.lanes)
	}
	_, err := pipe.Exec(ctx)
	return s.wrap(err)
}

// Close ends all calls under way and closes the connections.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.closed.Store(true)
		s.closeErr = errors.Join(s.pops.Close(), s.db.Close())
		if s.confirm != nil {
			s.closeErr = errors.Join(s.closeErr, s.confirm.client.Close())
		}
	})
	return s.closeErr
}

// wrap marks an error of Redis as one that may pass. Everything that Redis or
// the network can say here is of that kind: down, full, failing over, loading.
func (s *Store) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// Shards is the number of shards.
func (s *Store) Shards() int { return len(s.shards) }
