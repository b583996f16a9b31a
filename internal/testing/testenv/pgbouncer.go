package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// StartPgBouncer starts a pooler before a PostgreSQL server, in transaction mode. The URLs that it returns are for pgx:
// versions before 1.21 know no prepared statements. The caller closes it, before the server.
func StartPgBouncer(before *SQLServer) (*SQLServer, error) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program = "/usr/sbin/pgbouncer"; !isFile(program) {
			return nil, errors.New("PgBouncer is missing (package pgbouncer on Debian)")
		}
	}
	prepares, err := poolerPrepares(program)
	if err != nil {
		return nil, err
	}
	s := &SQLServer{name: "pgbouncer"}
	if s.credential, err = unprivileged("postgres", "nobody"); err != nil {
		return nil, err
	}
	var written error
	s.program = func() (string, []string) {
		settings := filepath.Join(s.dir, "pgbouncer.ini")
		text := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\n"+
			"auth_type = any\npool_mode = transaction\nmax_client_conn = 1000\ndefault_pool_size = 20\nlog_connections = 0\nlog_disconnections = 0\n", before.port, s.port)
		if prepares {
			text += "max_prepared_statements = 200\n"
		}
		written = os.WriteFile(settings, []byte(text), 0o644)
		return program, []string{settings}
	}
	s.ready = func(ctx context.Context) error {
		if written != nil {
			return written
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
		if err != nil {
			return err
		}
		return conn.Close()
	}
	s.url = func(database string) string {
		url := fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", s.Addr(), database)
		if !prepares {
			url += "&default_query_exec_mode=cache_describe"
		}
		return url
	}
	return s.startNew(func() error { return nil })
}

var poolerVersion = regexp.MustCompile(`PgBouncer (\d+)\.(\d+)`)

// poolerPrepares reports whether a PgBouncer knows prepared statements of clients in transaction mode.
func poolerPrepares(program string) (bool, error) {
	out, err := exec.Command(program, "--version").Output()
	version := poolerVersion.FindSubmatch(out)
	if err != nil || version == nil {
		return false, fmt.Errorf("ask %s for its version: %w: %q", program, err, out)
	}
	major, _ := strconv.Atoi(string(version[1]))
	minor, _ := strconv.Atoi(string(version[2]))
	return major > 1 || minor >= 21, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
