package contender

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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
