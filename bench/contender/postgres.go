package contender

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/duehook/duehook/bench/system"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// Postgres is a server on which contenders get a database each.
type Postgres struct {
	server *testenv.SQLServer
	last   atomic.Int64
}

// StartPostgres starts a server. A commit does not wait for the disk
// (synchronous_commit=off), as with Redis's appendfsync everysec.
func StartPostgres() (*Postgres, error) {
	server, err := testenv.StartPostgres(true, "-c", "synchronous_commit=off", "-c", "shared_buffers=512MB")
	if err != nil {
		return nil, err
	}
	return &Postgres{server: server}, nil
}

// Close ends the server.
func (p *Postgres) Close() error { return p.server.Close() }

// newDatabase makes an empty database, and gives its URL.
func (p *Postgres) newDatabase(ctx context.Context) (url string, err error) {
	conn, err := pgx.Connect(ctx, p.server.URL("postgres"))
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	name := fmt.Sprintf("bench%d", p.last.Add(1))
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	return p.server.URL(name), nil
}

// cost is that of processes and of the server.
func (p *Postgres) cost(processes []*system.Process) (Cost, error) {
	own, err := costOf(processes)
	if err != nil {
		return Cost{}, err
	}
	store, err := testenv.CPUTime(p.server.PID())
	return Cost{own, store}, err
}

// transactions are those that the server has ended in a database, this call's among them.
func (p *Postgres) transactions(ctx context.Context, url string) (n float64, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(ctx) }()
	err = conn.QueryRow(ctx, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()").Scan(&n)
	return n, err
}

// postgresConnections is how many connections each process may have.
const postgresConnections = 20

func openPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = postgresConnections
	return pgxpool.NewWithConfig(ctx, config)
}
