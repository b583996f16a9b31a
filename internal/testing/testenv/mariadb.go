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
)

// StartMariaDB starts a MariaDB server without passwords.
// Unless durable is set it does not wait for the disk. The caller closes it;
// tests share one, for it takes seconds to start.
func StartMariaDB(durable bool) (*SQLServer, error) {
	program, err := mariadbProgram()
	if err != nil {
		return nil, fmt.Errorf("MariaDB is missing (package mariadb-server-core on Debian): %w", err)
	}
	s := &SQLServer{name: "mariadb"}
	data := func() string { return filepath.Join(s.dir, "data") }
	s.program = func() (string, []string) {
		args := []string{
			"--no-defaults", "--datadir=" + data(), "--bind-address=127.0.0.1", "--port=" + strconv.Itoa(s.port),
			"--socket=" + filepath.Join(s.dir, "s"), "--pid-file=" + filepath.Join(s.dir, "pid"), "--skip-name-resolve",
			"--max-connections=400", "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=48M", "--skip-log-bin", "--skip-grant-tables",
		}
		if !durable {
			args = append(args, "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--innodb-flush-method=nosync")
		}
		return program, append(args, asRoot()...)
	}
	s.ready = func(ctx context.Context) error { return greets(ctx, s.Addr()) }
	s.url = func(database string) string { return fmt.Sprintf("mysql://root@%s/%s", s.Addr(), database) }
	return s.startNew(func() error {
		if err := os.Mkdir(data(), 0o700); err != nil {
			return err
		}
		// It makes its files and ends in good order: after a kill it recovers only
		// what a checkpoint has seen. There are no tables of users.
		return s.run(program, append([]string{
			"--no-defaults", "--datadir=" + data(), "--bootstrap", "--skip-grant-tables", "--innodb-log-file-size=48M",
		}, asRoot()...)...)
	})
}

// asRoot runs the server as root if the tests do.
func asRoot() []string {
	if os.Getuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

// mariadbProgram is the server, which Debian keeps out of the PATH of users.
func mariadbProgram() (string, error) {
	if path, err := exec.LookPath("mariadbd"); err == nil {
		return path, nil
	}
	const path = "/usr/sbin/mariadbd"
	_, err := os.Stat(path)
	return path, err
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
