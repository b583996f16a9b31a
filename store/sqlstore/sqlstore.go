// Package sqlstore keeps jobs in PostgreSQL. Any number of nodes share a database, and nothing else.
//
// No rule is in SQL. A call reads its rows with locks, always in one order, decides in Go, and writes its changes
// and COMMIT in one round trip. What most probably is as expected is written without reading: the transaction fails if
// it is not, and is run again with locks. Statements are set-based. The database's clock decides.
//
// Locks are taken in this order: the take lock, rows of limits by topic, order_head by key, job by topic and id.
// Take never waits for rows.
package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/store"
)

// Options configure a Store.
type Options struct {
	// URL is the address of the database, postgres://user:password@host:port/database?option=value.
	URL string
	// DirectURL is the address of the same database past a pooler such as PgBouncer, for notifications. Empty: URL.
	DirectURL string
	// Schema has the tables. Empty: duehook.
	Schema string
	// Retention is how long a delivered, cancelled or expired job can be looked up; zero forgets
	// it at once. Dead letters stay until they are replayed or discarded.
	Retention time.Duration
	// MaxConns bounds the connections to the database, beside one for notifications. Zero: DefaultConnections.
	MaxConns int
	// Logger gets messages about the database; nil drops them.
	Logger *slog.Logger
}

// DefaultConnections is the most connections unless the settings say otherwise.
const DefaultConnections = 10

// DefaultSchema is the name of the schema unless the settings name another.
const DefaultSchema = "duehook"

// Store is a store of jobs in a PostgreSQL database. It has one shard.
type Store struct {
	pool      *pgxpool.Pool
	schema    string
	retention time.Duration
	log       *slog.Logger
	texts     sync.Map        // statements with the schema's name
	replaced  atomic.Int64    // when the pool was last replaced
	direct    *pgx.ConnConfig // for notifications
	hub       hub
	tables    preparation
	work      sync.WaitGroup // goroutines
	doubts    atomic.Int32   // see doubtful
	intake    *batch.Batcher[*arrival]
	done      context.Context
	close     context.CancelFunc
	taking    chan struct{} // has a place for one take: others of the process wait without a connection
	alarm     alarm
	folds     floor    // of seq of deltas
	purges    [2]floor // of ended_at, of jobs that do not keep their ends and those that do
	hints     hints
}

// errClosed is the error of calls after Close.
var errClosed = fmt.Errorf("%w: the store is closed", store.ErrUnavailable)

// schemaName is what a schema may be called: names that need no quotes.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`)

// CheckSchema returns what is wrong with the name of a schema, or nil.
func CheckSchema(name string) error {
	if !schemaName.MatchString(name) || strings.HasPrefix(name, "pg_") {
		return fmt.Errorf("the schema %q must begin with a-z or _, contain only a-z, 0-9 and _, not begin with pg_, and have up to 48 characters", name)
	}
	return nil
}

// Open connects to the database, and creates or migrates the tables. While the server is away, the first call that it
// answers does that. The errors say what to do.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := newStore(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil && !IsAway(err) {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// newStore connects to nothing yet.
func newStore(ctx context.Context, o Options) (*Store, error) {
	if o.Schema == "" {
		o.Schema = DefaultSchema
	}
	if err := CheckSchema(o.Schema); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	config, err := poolConfig(&o)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	direct, err := directConfig(&o)
	if err != nil {
		return nil, err
	}
	s := &Store{pool: pool, direct: direct, schema: o.Schema, retention: o.Retention, log: o.Logger, taking: make(chan struct{}, 1)}
	s.intake = newIntake(s)
	s.folds.every = foldSweep
	s.purges[0].every, s.purges[1].every = purgeSweep, purgeSweep
	s.done, s.close = context.WithCancel(context.WithoutCancel(ctx))
	return s, nil
}

// Shards returns 1.
func (*Store) Shards() int { return 1 }

// Ping reports whether the database can serve.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.ask(ctx, nil)
	return err
}

// Close ends the calls in progress and closes the connections.
func (s *Store) Close() error {
	s.close()
	s.intake.Close()
	s.pool.Close()
	s.work.Wait()
	return nil
}

// sql is a statement with the schema of the settings in the place of duehook.
func (s *Store) sql(text string) string {
	if s.schema == DefaultSchema {
		return text
	}
	if known, ok := s.texts.Load(text); ok {
		return known.(string)
	}
	own := inSchema(text, s.schema)
	s.texts.Store(text, own)
	return own
}

func inSchema(text, schema string) string {
	return strings.ReplaceAll(text, DefaultSchema+".", schema+".")
}
