package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/postgres"
	"github.com/duehook/duehook/store"
)

// callWait bounds a call, with all its tries. A connection whose call has reached its deadline is closed: the deadline also
// bounds the wait for a server that does not answer.
const callWait = 10 * time.Second

// timeouts bounds the statements of a transaction, and the waits between them, by the time that its call has left, $1: a server that
// stood still undoes what it was sent for a caller that has given up since. They are in each transaction, because connections
// through PgBouncer are not of one client. It also reads the database's time: it begins each transaction.
//
// A connection plans a statement once: to plan the writes of a take for their values took longer than to run them. Statements
// look rows up one by one, by indexes and in their order, whatever the statistics say, which are old while tables fill. Where
// there is no index, the high cost would have PostgreSQL compile the statement, for half a second.
const timeouts = `SELECT ` + clock + `, ARRAY[set_config('statement_timeout', $1, true),
	set_config('lock_timeout', '3s', true), set_config('idle_in_transaction_session_timeout', $1, true),
	set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
	set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true),
	set_config('plan_cache_mode', 'force_generic_plan', true)]`

// queueTimeouts begins a transaction in the time that a call has left, and reads the database's time. A statement ends before the call
// does, which would close the connection.
func queueTimeouts(ctx context.Context, b *pgx.Batch, now *job.Instant) {
	end, _ := ctx.Deadline()
	left := end.Sub(job.SystemClock().Now()) * 4 / 5
	b.Queue(timeouts, strconv.FormatInt(max(1, left.Milliseconds()), 10)).QueryRow(func(row pgx.Row) error { return row.Scan(now, nil) })
}

// CheckURL returns what is wrong with the URL of a database, or nil.
func CheckURL(raw string) error {
	_, err := parseURL(raw)
	return err
}

func parseURL(raw string) (*pgxpool.Config, error) {
	if strings.Contains(raw, "pool_max_conns") {
		return nil, errors.New("the URL has pool_max_conns: leave it out, and set --postgres-connections")
	}
	return postgres.ParseURL(raw, pgxpool.ParseConfig)
}

// directConfig is the configuration of the connection for notifications.
func directConfig(o *Options) (*pgx.ConnConfig, error) {
	config, err := parseURL(cmp.Or(o.DirectURL, o.URL))
	if err != nil {
		return nil, err
	}
	postgres.Bound(config.ConnConfig, "duehook")
	return config.ConnConfig, nil
}

func poolConfig(o *Options) (*pgxpool.Config, error) {
	config, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	postgres.Bound(config.ConnConfig, "duehook")
	config.MaxConns = int32(cmp.Or(o.MaxConns, DefaultConnections))
	config.MaxConnLifetimeJitter = config.MaxConnLifetime / 4
	return config, nil
}

// errAgain is the error of a transaction that may be tried again at once.
var errAgain = errors.New("the transaction met another one")

// explain turns an error of the database into one of the store, by its SQLSTATE.
func (s *Store) explain(err error) error {
	var refused *pgconn.PgError
	switch {
	case err == nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, errAgain):
		return err
	case s.done.Err() != nil:
		return errClosed
	case !errors.As(err, &refused):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err) // the connection, or a deadline
	}
	switch code := refused.Code; {
	case code == "40001", code == "40P01", code == "55P03", code == "23505": // the last: it inserted the row of a key
		return fmt.Errorf("%w: %w", errAgain, err)
	case code == "53100": // disk full
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case code == "25006", code == "57P01", code == "57P02", code == "57P03", strings.HasPrefix(code, "08"):
		s.replacePool() // a failover or a restart: the other connections are as useless
	case code == "42P01", code == "3F000":
		return fmt.Errorf("%w: the tables of the schema %s are missing: restart duehook, which creates them: %w", store.ErrUnavailable, s.schema, err)
	case code == "42501":
		return fmt.Errorf("%w: %w", store.ErrUnavailable, s.rights(err))
	case strings.HasPrefix(code, "53"), strings.HasPrefix(code, "57"), strings.HasPrefix(code, "58"), strings.HasPrefix(code, "XX"):
	default:
		return fmt.Errorf("sqlstore: %w", err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// replacePool closes the connections, at most once a second.
func (s *Store) replacePool() {
	now := job.InstantOf(job.SystemClock().Now())
	last := s.replaced.Load()
	if now.Sub(job.Instant(last)).Abs() >= time.Second && s.replaced.CompareAndSwap(last, int64(now)) {
		s.pool.Reset()
	}
}

// bounded is a context for a call. It ends at the deadline of ctx, but not when ctx is cancelled: that would break the connection, and leave the
// outcome unknown. Close ends it.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc, error) {
	switch {
	case s.done.Err() != nil:
		return nil, nil, errClosed
	case ctx.Err() != nil:
		return nil, nil, gone(ctx)
	}
	lasting, end := context.WithTimeout(context.WithoutCancel(ctx), callWait)
	cancel := end
	if at, ok := ctx.Deadline(); ok {
		var also context.CancelFunc
		lasting, also = context.WithDeadline(lasting, at)
		cancel = func() { also(); end() }
	}
	stop := context.AfterFunc(s.done, cancel)
	return lasting, func() { stop(); cancel() }, nil
}

// gone is the error of a call whose caller has given up; nil: it waits.
func gone(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return nil
}

// again runs a transaction until it meets no other one that makes it fail.
func (s *Store) again(ctx context.Context, run func() error) (err error) {
	for range store.Tries(ctx) {
		if err = run(); !errors.Is(err, errAgain) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}
