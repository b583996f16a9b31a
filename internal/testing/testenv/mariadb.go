package testenv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// StartMariaDB starts a MariaDB server with the empty database shop, whose user root has all rights and no password.
// Unless durable is set it does not wait for the disk. args are more of the command line. The caller closes it;
// tests share one, for it takes a second to start.
func StartMariaDB(durable bool, args ...string) (*SQLServer, error) {
	program, err := mariadbProgram()
	if err != nil {
		return nil, err
	}
	tables, err := mariadbTables()
	if err != nil {
		return nil, err
	}
	s := &SQLServer{name: "mariadb"}
	common := func(durable bool) []string {
		// At its start, a server deletes temporary tables in its tmpdir, also those of another server there.
		all := []string{
			"--no-defaults", "--datadir=" + filepath.Join(s.dir, "data"), "--tmpdir=" + filepath.Join(s.dir, "tmp"),
			"--innodb-buffer-pool-size=64M", "--innodb-log-file-size=48M",
		}
		if !durable {
			all = append(all, "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--innodb-flush-method=nosync")
		}
		if os.Getuid() == 0 {
			all = append(all, "--user=root")
		}
		return all
	}
	s.program = func() (string, []string) {
		return program, append(append(
			common(durable), "--bind-address=127.0.0.1", "--port="+strconv.Itoa(s.port), "--socket="+filepath.Join(s.dir, "s"),
			"--pid-file="+filepath.Join(s.dir, "pid"), "--skip-name-resolve", "--max-connections=400", "--skip-log-bin",
		), args...)
	}
	s.ready = func(ctx context.Context) error { return greets(ctx, s.Addr()) }
	s.url = func(database string) string { return fmt.Sprintf("mysql://root@%s/%s", s.Addr(), database) }
	return s.startNew(func() error {
		for _, name := range []string{"data", "tmp"} {
			if err := os.Mkdir(filepath.Join(s.dir, name), 0o700); err != nil {
				return err
			}
		}
		cmd := exec.Command(program, append(common(false), "--bootstrap")...)
		cmd.Dir, cmd.Stdin = s.dir, strings.NewReader(tables)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("make the tables of MariaDB: %w: %s", err, out)
		}
		return nil
	})
}

// mariadbProgram is the server, which Debian keeps out of the PATH of users.
func mariadbProgram() (string, error) {
	if path, err := exec.LookPath("mariadbd"); err == nil {
		return path, nil
	}
	const path = "/usr/sbin/mariadbd"
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("MariaDB is missing (package mariadb-server-core on Debian): %w", err)
	}
	return path, nil
}

// mariadbTables makes what mariadb-install-db does, for which Debian has programs in more packages: the tables of the
// server, and root without a password.
func mariadbTables() (string, error) {
	tables := "CREATE DATABASE mysql;\nCREATE DATABASE shop;\nUSE mysql;\nSET @skip_auth_anonymous = 1, @auth_root_socket = NULL;\n"
	for _, name := range []string{"system_tables", "performance_tables", "system_tables_data"} {
		found, err := filepath.Glob("/usr/share/*/m*_" + name + ".sql") // mysql/mysql_…, later mariadb/mariadb_…
		if err != nil || len(found) == 0 {
			return "", errors.Join(err, fmt.Errorf("MariaDB's %s.sql is missing in /usr/share (package mariadb-server-core on Debian)", name))
		}
		file, err := os.ReadFile(found[0])
		if err != nil {
			return "", err
		}
		tables += string(file) + "\n"
	}
	return tables, nil
}

// greets returns when the server says hello, so not while it recovers.
func greets(ctx context.Context, addr string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	const header, version = 4, 10
	greeting := make([]byte, header+1)
	if _, err := bufio.NewReader(conn).Read(greeting); err != nil {
		return err
	}
	if greeting[header] != version {
		return errors.New("the server refuses connections")
	}
	return nil
}
