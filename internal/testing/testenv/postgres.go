package testenv

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// StartPostgres starts a PostgreSQL server with an empty database, postgres.
// Unless durable is set it does not wait for the disk. The caller closes it;
// tests share one, for it takes a second to start. options go onto its command
// line.
func StartPostgres(durable bool, options ...string) (*SQLServer, error) {
	bin, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	s := &SQLServer{name: "postgres"}
	if s.credential, err = unprivileged("postgres", "nobody"); err != nil {
		return nil, err
	}
	data := func() string { return filepath.Join(s.dir, "data") }
	s.program = func() (string, []string) {
		args := []string{
			"-D", data(), "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=", "-c", "max_connections=400", "-c", "shared_buffers=64MB",
		}
		if !durable {
			args = append(args, "-F", "-c", "full_page_writes=off")
		}
		return filepath.Join(bin, "postgres"), append(args, options...)
	}
	s.ready = func(ctx context.Context) error {
		return exec.CommandContext(ctx, filepath.Join(bin, "pg_isready"), "-q", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port)).Run()
	}
	s.url = func(database string) string {
		return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", s.Addr(), database)
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
