// Package postgres has what all connections to PostgreSQL servers need: the store's, and those to the databases of applications.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// ConnectWait bounds how long a connection takes.
	ConnectWait = 5 * time.Second
	// ping is after how long a silent connection is checked.
	ping = 15 * time.Second
)

// Bound bounds how long a connection takes, and names the program. Of several hosts, it is the writable one: a standby that
// has been promoted elsewhere takes no writes.
func Bound(config *pgx.ConnConfig, program string) {
	if config.ConnectTimeout == 0 || config.ConnectTimeout > ConnectWait {
		config.ConnectTimeout = ConnectWait
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = program
	}
	if config.ValidateConnect == nil {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
}

// CheckURL refuses the URL of a database whose password would be shown: drivers name hosts, databases and parameters in their errors.
func CheckURL(raw string) error {
	_, rest, _ := strings.Cut(raw, "://")
	server, more := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		server, more = rest[:end], rest[end:]
	}
	if _, err := url.PathUnescape(rest); err != nil || strings.Count(server, "@") > 1 || strings.Contains(more, "@") {
		return errors.New("a character of the user or the password has a meaning in URLs: write %40 for @, %2F for /, %3F for ?, %23 for #, %25 for %")
	}
	_, query, _ := strings.Cut(more, "?")
	parameters, _ := url.ParseQuery(query) // the driver judges the others
	for name := range parameters {
		if strings.HasSuffix(strings.ToLower(name), "password") {
			return errors.New("the URL has a password as a parameter: write it before the host, //user:password@host")
		}
	}
	return nil
}

// ParseURL has pgx parse a URL that passes CheckURL. The error has no password.
func ParseURL[C any](raw string, parse func(string) (C, error)) (config C, err error) {
	const form = "write postgres://user:password@host:port/database"
	if !strings.HasPrefix(raw, "postgres://") && !strings.HasPrefix(raw, "postgresql://") {
		return config, errors.New(form)
	}
	if err := CheckURL(raw); err != nil {
		return config, err
	}
	config, err = parse(raw)
	if refused := (*pgconn.ParseConfigError)(nil); errors.As(err, &refused) {
		err = fmt.Errorf("%s: %w", form, refused) // what wraps it may have the password
	}
	return config, err
}

// Listener receives the notifications of a channel.
type Listener struct {
	Config  *pgx.ConnConfig
	Channel string
	Began   func() // is called once: later notifications are heard
	Heard   func(payload string)
	While   func() bool // asked after each notification or silence; nil: until ctx ends
}

// Listen receives until ctx ends, the connection breaks, or While reports false.
func (l *Listener) Listen(ctx context.Context) error {
	connect, cancel := context.WithTimeout(ctx, ConnectWait)
	defer cancel()
	conn, err := pgx.ConnectConfig(connect, l.Config.Copy())
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(end) // nothing is left to be done about it
	}()
	if _, err := conn.Exec(connect, "LISTEN "+l.Channel); err != nil {
		return err
	}
	l.Began()
	for l.While == nil || l.While() {
		if err := l.next(ctx, conn); err != nil {
			return err
		}
	}
	return nil
}

// next waits for a notification. When none comes, it checks the connection.
func (l *Listener) next(ctx context.Context, conn *pgx.Conn) error {
	wait, cancel := context.WithTimeout(ctx, ping)
	n, err := conn.WaitForNotification(wait)
	silent := wait.Err() != nil && ctx.Err() == nil
	cancel()
	switch {
	case err == nil:
		l.Heard(n.Payload)
		return nil
	case !silent:
		return err
	}
	check, cancel := context.WithTimeout(ctx, ConnectWait)
	defer cancel()
	return conn.Ping(check)
}
