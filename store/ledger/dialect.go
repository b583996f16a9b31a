package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
)

// dialect has the differences between SQL servers.
type dialect interface {
	// dir of migrations, and what goose calls the dialect.
	dir() (string, goose.Dialect)
	// open opens the ledger, after which migrations may run.
	open(ctx context.Context) (*pools, error)
	// migrating runs up while no other process does. Another process may have migrated
	// before.
	migrating(ctx context.Context, p *pools, up func() error) error
	// begin waits, in a transaction, until no other node writes. It returns the seq of
	// the next message. durable: the commit must survive a failure of the server.
	begin(ctx context.Context, tx *sql.Tx, durable bool) (nextSeq int64, err error)
	// words of the server.
	words() *words
}

// pools are the connections to the ledger, one for writing and some for reading.
type pools struct {
	write, read *sql.DB
	silence     *silence
}

func (p *pools) close() error {
	var errs []error
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

// CheckURL returns an error if the URL of a ledger is wrong. The error does not contain
// the password.
func CheckURL(url string) error {
	_, err := dialectFor(url)
	return err
}

// dialectFor picks the dialect of a ledger's URL.
func dialectFor(url string) (dialect, error) {
	scheme, _, _ := strings.Cut(url, ":")
	switch scheme {
	case "postgres", "postgresql":
		return newPostgres(url)
	case "mysql", "mariadb":
		return newMariaDB(url)
	default:
		return nil, errors.New("write " + postgresForm + " or " + mysqlForm)
	}
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
