package contender

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/duehook/duehook/internal/inbox"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// The databases of inboxes.
const (
	InboxPostgres = "PostgreSQL"
	InboxMariaDB  = "MariaDB"
)

// Inbox is a database of an application, on a server of its own whose commits wait for the disk.
type Inbox struct {
	URL    string
	server *testenv.SQLServer
	db     *sql.DB
	arg    func(n int) string
}

// NewInbox starts a server with an inbox.
func NewInbox(ctx context.Context, kind string) (in *Inbox, err error) {
	in = &Inbox{arg: func(int) string { return "?" }}
	start, database, table := testenv.StartMariaDB, "shop", inbox.MySQLTable
	if kind == InboxPostgres {
		start, database, table = testenv.StartPostgres, "postgres", inbox.PostgresTable
		in.arg = func(n int) string { return fmt.Sprint("$", n) }
	}
	if in.server, err = start(true); err != nil {
		return nil, err
	}
	in.URL = in.server.URL(database)
	if err = in.open(kind, database); err == nil {
		_, err = in.db.ExecContext(ctx, table)
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

func (in *Inbox) open(kind, database string) error {
	if kind == InboxPostgres {
		config, err := pgx.ParseConfig(in.URL)
		if err != nil {
			return err
		}
		in.db = stdlib.OpenDB(*config)
		return nil
	}
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr, config.DBName, config.MultiStatements, config.InterpolateParams = "root", "tcp", in.server.Addr(), database, true, true
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	in.db = sql.OpenDB(connector)
	return nil
}

// Insert writes a transaction with jobs. Of PostgreSQL, it may wake duehook.
func (in *Inbox) Insert(ctx context.Context, notify bool, jobs ...Job) error {
	values, args := make([]string, len(jobs)), make([]any, len(jobs))
	for i := range jobs {
		values[i], args[i] = "("+in.arg(i+1)+")", string(jobs[i].JSON())
	}
	tx, err := in.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()                                                                                              // after the commit it does nothing
	if _, err := tx.ExecContext(ctx, "INSERT INTO duehook_inbox (request) VALUES "+strings.Join(values, ", "), args...); err != nil { //nolint:gosec // places of parameters
		return err
	}
	if notify {
		if _, err := tx.ExecContext(ctx, "NOTIFY duehook_inbox"); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// Rows is how many rows wait to be jobs.
func (in *Inbox) Rows(ctx context.Context) (n int, err error) {
	err = in.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM duehook_inbox").Scan(&n)
	return n, err
}

// Close ends the server.
func (in *Inbox) Close() error {
	var err error
	if in.db != nil {
		err = in.db.Close()
	}
	return errors.Join(err, in.server.Close())
}
