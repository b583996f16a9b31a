package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/duehook/duehook/job"
)

// pools are the connections to the ledger, one for writing and some for reading, and the words
// of its server.
type pools struct {
	*words
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
	name  string
	kind  kind
	grows bool // an update keeps the higher value
}

// columns makes columns of names; number is the kind of those without a suffix:
// ":t" is text, ":b" bytes, ":n" nullable, ":g" a number that only grows.
func columns(names string) []column {
	var list []column
	for _, n := range strings.Fields(names) {
		name, suffix, _ := strings.Cut(n, ":")
		list = append(list, column{name, map[string]kind{"t": text, "b": binary, "n": nullable}[suffix], suffix == "g"})
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
	_, err := opener(url)
	return err
}

// openPools opens the ledger of a URL.
func openPools(ctx context.Context, url string) (*pools, error) {
	open, err := opener(url)
	if err != nil {
		return nil, err
	}
	return open(ctx)
}

// opener returns what opens the ledger of a URL. Then migrations may run.
func opener(url string) (open func(ctx context.Context) (*pools, error), err error) {
	scheme, _, _ := strings.Cut(url, ":")
	switch scheme {
	case "postgres", "postgresql":
		return openPostgres(url)
	case "mysql", "mariadb":
		return openMariaDB(url)
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

const (
	// idleLimit is how long an unused connection is kept: less than servers and their
	// proxies allow.
	idleLimit = 5 * time.Minute
	// readers is the number of connections for reading.
	readers = 4
	// commitLimit is how long a transaction may take before the server counts as dead,
	// beside the time for its bodies and rows at slowest. Clients wait as long for a
	// refusal.
	commitLimit = 4 * time.Second
	slowest     = 1 << 20 // bytes/s
	slowestRows = 1000    // per second
	// migrationPause is how long a process waits before it asks again whether another one
	// has migrated the tables.
	migrationPause = 100 * time.Millisecond
)

// limitOf is how long a transaction may take.
func limitOf(rows, bytes int64) time.Duration {
	return commitLimit + time.Duration(rows)*time.Second/slowestRows + time.Duration(bytes)*time.Second/slowest
}

// servers is a pair of pools.
func servers(w *words, write, read *sql.DB, s *silence) *pools {
	for db, conns := range map[*sql.DB]int{write: 1, read: readers} {
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(conns)
		db.SetConnMaxIdleTime(idleLimit)
	}
	return &pools{words: w, write: write, read: read, silence: s}
}

// begin locks the row of the writer until the commit. So the transactions of all nodes run one
// after the other. It returns the seq of the next message. durable: the commit must survive a
// failure of the server.
func (w *words) begin(ctx context.Context, tx *sql.Tx, durable bool) (nextSeq int64, err error) {
	columns := "next_seq, 0"
	if !durable && w.relaxed != "" {
		columns = "next_seq, " + w.relaxed
	}
	if err := tx.QueryRowContext(ctx, "SELECT "+columns+" FROM writer FOR UPDATE").Scan(&nextSeq, new(any)); err != nil {
		return 0, fmt.Errorf("lock the ledger for writing: %w", err)
	}
	return nextSeq, nil
}

// exclusively runs up while no other process migrates. Another process may have migrated before.
func (p *pools) exclusively(ctx context.Context, up func() error) error {
	conn, err := p.read.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it only goes back to the pool
	for got := false; !got; {
		if err := conn.QueryRowContext(ctx, "SELECT "+p.tryLock).Scan(&got); err != nil {
			return err
		}
		if !got { // another process may need long for a migration
			if err := job.Sleep(ctx, job.SystemClock(), migrationPause); err != nil {
				return err
			}
		}
	}
	err = up()
	_, unlockErr := conn.ExecContext(context.WithoutCancel(ctx), p.unlock)
	return errors.Join(err, unlockErr)
}
