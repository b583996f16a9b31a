package inbox

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	pg "github.com/duehook/duehook/internal/kit/postgres"
)

// Bounds of waits for a database, which the clients apply to the connection, too.
const (
	callWait = 10 * time.Second
	// lockWait bounds the wait for a row that somebody else has locked, where the server does that.
	lockWait = 5 * time.Second
)

const (
	maxConnections = 3 // the reader has one; the others are for calls of the API
	connectionLife = 30 * time.Minute
)

// CheckURL returns what is wrong with the URL of a database, or nil.
func CheckURL(raw string) error {
	t, err := open(raw, 0)
	if err == nil {
		err = t.db.Close()
	}
	return err
}

// open prepares connections. It makes none.
func open(raw string, maxRequest int64) (*table, error) {
	t := &table{maxRequest: maxRequest}
	scheme, _, _ := strings.Cut(raw, "://")
	switch scheme {
	case "postgres", "postgresql":
		config, err := postgresConfig(raw)
		if err != nil {
			return nil, err
		}
		t.dialect, t.direct, t.db = postgres, config, stdlib.OpenDB(*config)
	case "mysql":
		config, err := mysqlConfig(raw)
		if err != nil {
			return nil, err
		}
		made, err := mysql.NewConnector(config)
		if err != nil {
			return nil, err
		}
		t.dialect, t.db = mySQL, sql.OpenDB(readCommitted{made})
	default:
		return nil, errors.New("write postgres://user:password@host:port/database or mysql://user:password@host:port/database")
	}
	t.db.SetMaxOpenConns(maxConnections)
	t.db.SetMaxIdleConns(1)
	t.db.SetConnMaxLifetime(connectionLife)
	return t, nil
}

func postgresConfig(raw string) (*pgx.ConnConfig, error) {
	config, err := pg.ParseURL(raw, pgx.ParseConfig)
	if err != nil {
		return nil, err
	}
	pg.Bound(config, "duehook-inbox")
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // nothing stays in the session, which a pooler may share
	return config, nil
}

func mysqlConfig(raw string) (*mysql.Config, error) {
	if err := pg.CheckURL(raw); err != nil {
		return nil, err
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Path == "" || u.Path == "/" { // err has the password
		return nil, errors.New("write mysql://user:password@host:port/database")
	}
	config := mysql.NewConfig()
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.Net, config.Addr = "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "3306"))
	config.DBName = strings.TrimPrefix(u.Path, "/")
	config.Timeout, config.ReadTimeout, config.WriteTimeout = pg.ConnectWait, callWait, callWait
	config.InterpolateParams = true
	config.Logger = silent{}
	config.Params = map[string]string{
		"time_zone":                "'+00:00'",
		"innodb_lock_wait_timeout": fmt.Sprint(int(lockWait.Seconds())),
	}
	for name, values := range u.Query() {
		if name != "tls" || len(values) != 1 {
			return nil, fmt.Errorf("the URL has the parameter %q; it may have tls=true, tls=skip-verify or tls=preferred", name)
		}
		config.TLSConfig = values[0]
	}
	return config, nil
}

// silent leaves out what the driver logs beside the errors that it returns.
type silent struct{}

func (silent) Print(...any) {}

// readCommitted makes connections that read what is committed at each statement, and lock no gaps.
type readCommitted struct{ driver.Connector }

func (c readCommitted) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	execer, ok := conn.(driver.ExecerContext)
	if !ok {
		return nil, errors.Join(errors.New("inbox: the driver executes nothing"), conn.Close())
	}
	if _, err := execer.ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", nil); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}
