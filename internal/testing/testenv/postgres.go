package testenv

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// PostgresOptions are how a PostgreSQL server is started.
type PostgresOptions struct {
	Durable bool     // it waits for the disk
	Args    []string // more of the command line
	Env     []string // more of the environment
	// ReplicaOf, unless nil, is the running server of which this one is a replica by streaming.
	ReplicaOf *SQLServer
}

// StartPostgres is StartPostgresWith for a server with an empty database.
func StartPostgres(durable bool, args ...string) (*SQLServer, error) {
	return StartPostgresWith(PostgresOptions{Durable: durable, Args: args})
}

// Postgres is StartPostgres for one test, which ends the server.
func Postgres(t testing.TB, durable bool) *SQLServer {
	t.Helper()
	s, err := StartPostgres(durable)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// StartPostgresWith starts a PostgreSQL server with the database postgres. The caller closes it;
// tests share one, for it takes a second to start.
func StartPostgresWith(o PostgresOptions) (*SQLServer, error) {
	bin, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	s := &SQLServer{name: "postgres", env: o.Env}
	if s.credential, err = unprivileged("postgres", "nobody"); err != nil {
		return nil, err
	}
	data := func() string { return filepath.Join(s.dir, "data") }
	s.program = func() (string, []string) {
		args := []string{
			"-D", data(), "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=", "-c", "max_connections=400", "-c", "shared_buffers=64MB",
		}
		if !o.Durable {
			args = append(args, "-F", "-c", "full_page_writes=off")
		}
		return filepath.Join(bin, "postgres"), append(args, o.Args...)
	}
	s.ready = func(ctx context.Context) error {
		return exec.CommandContext(ctx, filepath.Join(bin, "pg_isready"), "-q", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port)).Run()
	}
	s.url = func(database string) string {
		return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", s.Addr(), database)
	}
	if of := o.ReplicaOf; of != nil {
		return s.startNew(func() error {
			return s.run(filepath.Join(bin, "pg_basebackup"), "-D", data(), "-h", "127.0.0.1", "-p", strconv.Itoa(of.port), "-U", "postgres", "-R", "-c", "fast", "-X", "stream", "--no-sync")
		})
	}
	return s.startNew(func() error {
		return s.run(filepath.Join(bin, "initdb"), "-D", data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	})
}

// postgresPrograms is the directory of the programs, which Debian keeps out of
// the PATH.
func postgresPrograms() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		path, err = filepath.EvalSymlinks(path) // one program may stand there without the others
		return filepath.Dir(path), err
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", errors.New("PostgreSQL is missing (package postgresql on Debian)")
	}
	return filepath.Dir(slices.Max(found)), nil
}
