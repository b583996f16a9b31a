package importer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// pageSize is how many jobs are read at once.
const pageSize = 200

// reader reads the Redis of an original.
type reader struct {
	Options
	redis   redis.UniversalClient
	address string // without the password
}

// onRedis opens a source whose jobs are in Redis.
func onRedis(read func(*reader, context.Context) iter.Seq2[Job, error]) func(context.Context, Options) (*Source, error) {
	return func(ctx context.Context, o Options) (*Source, error) {
		r, err := connect(ctx, o)
		if err != nil {
			return nil, err
		}
		return &Source{Jobs: read(r, ctx), Close: r.redis.Close}, nil
	}
}

func connect(ctx context.Context, o Options) (*reader, error) {
	to, err := redis.ParseURL(o.Address)
	if err != nil {
		return nil, failf(ErrUsage, "--source must be the address of a Redis, such as redis://:PASSWORD@127.0.0.1:6379/0, or rediss:// for TLS")
	}
	to.ContextTimeoutEnabled = true
	redis.SetLogger(silence{}) // the command prints the error of a call
	r := &reader{Options: o, redis: redis.NewClient(to), address: fmt.Sprintf("%s, database %d", to.Addr, to.DB)}
	info, err := r.redis.Info(ctx, "cluster").Result()
	if err != nil {
		_ = r.redis.Close()
		return nil, r.explain(err)
	}
	if strings.Contains(info, "cluster_enabled:1") {
		_ = r.redis.Close()
		r.redis = redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{to.Addr}, Username: to.Username, Password: to.Password, TLSConfig: to.TLSConfig, ContextTimeoutEnabled: true,
		})
	}
	return r, nil
}

// silence drops what the library logs.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// explain says what to do about an error of Redis.
func (r *reader) explain(err error) error {
	text := err.Error()
	switch {
	case errors.As(err, new(*net.OpError)), errors.As(err, new(*net.DNSError)):
		return failf(ErrUnreachable, "the Redis of the source cannot be reached: %v; name another one with --source", err)
	case strings.Contains(text, "NOAUTH"), strings.Contains(text, "WRONGPASS"), strings.Contains(text, "without any password"):
		return fmt.Errorf("the Redis of the source, %s, refuses the password: %w; write --source redis://USER:PASSWORD@HOST:PORT/DB", r.address, err)
	case strings.Contains(text, "NOPERM"):
		return fmt.Errorf("the user may not read the Redis of the source, %s: %w; use one with the rule +@read", r.address, err)
	case strings.Contains(text, "DB index"):
		return failf(ErrUsage, "the Redis of the source, %s, has no such database", r.address)
	}
	return fmt.Errorf("read the Redis of the source, %s: %w", r.address, err)
}

// nothing is the error if the source has none of the original's keys.
func (r *reader) nothing(ctx context.Context, what string) error {
	info, err := r.redis.Info(ctx, "keyspace").Result()
	if err != nil {
		return r.explain(err)
	}
	var has []string
	for line := range strings.Lines(info) {
		if db, _, ok := strings.Cut(line, ":"); ok && strings.HasPrefix(db, "db") {
			has = append(has, strings.TrimPrefix(db, "db"))
		}
	}
	if len(has) == 0 {
		return failf(ErrNothing, "%s has no %s, and no other database of this Redis has keys: name another Redis with --source", r.address, what)
	}
	return failf(ErrNothing, "%s has no %s; databases with keys: %s. Name one at the end of --source, as in redis://127.0.0.1:6379/1", r.address, what, strings.Join(has, ", "))
}

// entry is an id in a set or list of the original.
type entry struct {
	id    string
	score int64
}

// scored are the members of a sorted set with their scores. A member that stays is read, whatever
// changes meanwhile; it may be read twice.
func (r *reader) scored(ctx context.Context, key string) iter.Seq2[[]entry, error] {
	return func(yield func([]entry, error) bool) {
		for cursor := uint64(0); ; {
			flat, next, err := r.redis.ZScan(ctx, key, cursor, "", pageSize).Result()
			if err != nil {
				yield(nil, r.explain(err))
				return
			}
			page := make([]entry, 0, len(flat)/2)
			for i := 0; i+1 < len(flat); i += 2 {
				score, _ := strconv.ParseFloat(flat[i+1], 64) // Redis wrote it
				page = append(page, entry{flat[i], int64(score)})
			}
			if cursor = next; !eachPage(page, yield) || cursor == 0 {
				return
			}
		}
	}
}

// found looks the ids of pages up with get, and passes on those that exist, until one of both functions
// returns false.
func (r *reader) found(
	ctx context.Context, pages iter.Seq2[[]entry, error], get func(p redis.Pipeliner, id string) *redis.StringCmd,
	each func(e entry, data []byte) bool, yield func(Job, error) bool,
) bool {
	for page, err := range pages {
		if err != nil {
			yield(Job{}, err)
			return false
		}
		values := make([]*redis.StringCmd, len(page))
		_, _ = r.redis.Pipelined(ctx, func(p redis.Pipeliner) error { // each value has its error
			for i, e := range page {
				values[i] = get(p, e.id)
			}
			return nil
		})
		for i, e := range page {
			data, err := values[i].Bytes()
			switch {
			case errors.Is(err, redis.Nil): // the job ended
			case err != nil:
				yield(Job{}, r.explain(err))
				return false
			case !each(e, data):
				return false
			}
		}
	}
	return true
}

// eachPage divides a page: small sets come as a whole.
func eachPage(page []entry, yield func([]entry, error) bool) bool {
	for len(page) > 0 {
		n := min(len(page), pageSize)
		if !yield(page[:n], nil) {
			return false
		}
		page = page[n:]
	}
	return true
}

// listed are the entries of a list from its end where the original adds: what it takes away or adds
// meanwhile leaves no gap.
func (r *reader) listed(ctx context.Context, key string, addedRight bool) iter.Seq2[[]entry, error] {
	return func(yield func([]entry, error) bool) {
		for n := int64(0); ; n += pageSize {
			from, to := n, n+pageSize-1
			if addedRight {
				from, to = -n-pageSize, -n-1
			}
			ids, err := r.redis.LRange(ctx, key, from, to).Result()
			if err != nil {
				yield(nil, r.explain(err))
				return
			}
			page := make([]entry, len(ids))
			for i, id := range ids {
				page[i].id = id
			}
			if len(page) == 0 || !yield(page, nil) {
				return
			}
		}
	}
}
