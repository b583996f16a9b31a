package journal

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// dialect has the differences between SQL servers.
type dialect interface {
	// dir of migrations, and what goose calls the dialect.
	dir() (string, goose.Dialect)
	// open opens the journal, after which migrations may run.
	open(ctx context.Context) (*pools, error)
	// migrating runs up while no other process does. Another process may have migrated
	// before.
	migrating(ctx context.Context, p *pools, up func() error) error
	// claim takes the journal for this process alone, or among nodes that share a store;
	// its tables are up to date. ErrInUse means that another process holds it.
	claim(ctx context.Context, p *pools, shared bool) error

	// setDurable sets whether the next commits of the connection survive a failure of
	// the server.
	setDurable(ctx context.Context, write execer, durable bool) error
	// begin waits, in a transaction, until no other node writes. It returns the seq of
	// the next message; zero if no other process writes the journal.
	begin(ctx context.Context, tx *sql.Tx, durable bool) (nextSeq int64, err error)
	// words of the server.
	words() *words
}

// pools are the connections to the journal, one for writing and some for reading, and
// what is released after them.
type pools struct {
	write, read *sql.DB
	silence     *silence // of a server; nil: a file
	release     func() error
}

func (p *pools) close() error {
	var errs []error
	if p.release != nil {
		errs = append(errs, p.release())
	}
	// The one for writing closes last: SQLite then writes the log into the file.
	for _, db := range []*sql.DB{p.read, p.write} {
		// The server may have closed the connection already.
		if err := db.Close(); !errors.Is(err, driver.ErrBadConn) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// kind is the type of a column.
type kind uint8

const (
	number   kind = iota // int64
	nullable             // int64, or nil
	text
	binary // or nil
)

type column struct {
	name string
	kind kind
}

// columns makes columns of names; number is the kind of those without a suffix:
// ":t" is text, ":b" bytes, ":n" nullable.
func columns(names string) []column {
	var list []column
	for _, n := range strings.Fields(names) {
		name, suffix, _ := strings.Cut(n, ":")
		list = append(list, column{name, map[string]kind{"": number, "t": text, "b": binary, "n": nullable}[suffix]})
	}
	return list
}

func names(columns []column) []string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = c.name
	}
	return list
}

// in is the condition that a column is one of seqs.
func in(seqs []int64) string {
	list := []byte(" IN (")
	for i, seq := range seqs {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, seq, 10)
	}
	return string(append(list, ')'))
}

// CheckURL returns an error if the URL of a journal is wrong. The error does not contain
// the password.
func CheckURL(url string) error {
	_, err := dialectFor(url)
	return err
}

// dialectFor picks the dialect of a journal's URL.
func dialectFor(url string) (dialect, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	switch scheme {
	case "sqlite":
		path := strings.TrimPrefix(rest, "//")
		if path == "" {
			return nil, errors.New("the file's path is missing: write sqlite:path")
		}
		return &sqlite{path: path}, nil
	case "postgres", "postgresql":
		return newPostgres(url)
	case "mysql", "mariadb":
		return newMariaDB(url)
	default:
		return nil, errors.New("write sqlite:path, " + postgresForm + " or " + mysqlForm)
	}
}

// execer is a connection, or a pool of one.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// querier is a pool, or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// each runs a query and calls scan for each row of the answer.
func each(ctx context.Context, from querier, query string, args []any, scan func(*sql.Rows) error) error {
	rows, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports it
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
