package journal

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// dialect is what SQL servers say or do differently.
type dialect interface {
	// dir of migrations, and what goose calls the dialect.
	dir() (string, goose.Dialect)
	// open opens the journal, after which migrations may run.
	open(ctx context.Context) (*pools, error)
	// migrating runs up while no other process does, which may have done it then.
	migrating(ctx context.Context, p *pools, up func() error) error
	// claim takes the journal for this process alone, or among nodes that share
	// a store; its tables are up to date. ErrInUse means that somebody else has
	// it otherwise.
	claim(ctx context.Context, p *pools, shared bool) error

	// setDurable says whether the next commit of the connection must survive a
	// failure of the server.
	setDurable(ctx context.Context, write execer, durable bool) error
	// turn begins a transaction: it waits until no other is under way and gives
	// the seq of the next message; zero if nobody else writes the journal.
	turn(ctx context.Context, tx *sql.Tx, durable bool) (nextSeq int64, err error)
	// probe writes something of no meaning, to see whether writing works.
	probe(ctx context.Context, tx *sql.Tx) error

	// insert adds rows; with upsert it overwrites those whose seq is taken.
	insert(table string, columns []column, upsert bool) shape
	// update changes the messages whose seq is the row's; the row is called v.
	update(assign []string, where string, columns []column) shape
	// selected is a query of which {rows} stands for the rows, called v.
	selected(text string, columns []column) shape
	// bind writes the parameters of a statement, each a ?, as the server wants them.
	bind(text string) string
	// walk pages through messages that may be restored by an index that has them:
	// a condition for those that follow after, or all if that is nil, and the order.
	walk(after *Entry) (condition string, args []any, order string)
	// keep is what an INSERT ends with so that it leaves a row alone that is there.
	keep() string
}

// pools are connections to the journal: one for writing, some for reading, and
// what must be given back after them.
type pools struct {
	write, read *sql.DB
	release     func() error
}

func (p *pools) close() error {
	var errs []error
	if p.release != nil {
		errs = append(errs, p.release())
	}
	// The one for writing comes last: SQLite then writes the log back into the file.
	return errors.Join(append(errs, p.read.Close(), p.write.Close())...)
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

// shape is a statement about many rows.
type shape struct {
	text string // {rows} stands for the rows
	// rows gives that for n rows; nil: pack makes one set of parameters of any
	// number of rows, or of most at a time if that is not zero.
	rows func(n int) string
	// sizes are the numbers of rows that it is prepared for, the largest first.
	sizes []int
	pack  func(args []any) ([]any, error)
	most  int
}

func (s shape) textFor(n int) string {
	if s.rows == nil {
		return s.text
	}
	return strings.ReplaceAll(s.text, "{rows}", s.rows(n))
}

// placeholders is a list of n rows of cols parameters each.
func placeholders(n, cols int) string {
	row := "(?" + strings.Repeat(",?", cols-1) + ")"
	return row + strings.Repeat(","+row, n-1)
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

// CheckURL tells what is wrong with the URL of a journal, without its password.
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

// walkBySeq is dialect.walk for servers whose index of done_at has seq as well.
func walkBySeq(after *Entry) (condition string, args []any, order string) {
	if after == nil {
		return "", nil, "m.seq"
	}
	return " AND m.seq > ?", []any{after.Seq}, "m.seq"
}

// assignments sets all columns but the first, which is the key, to from.column.
func assignments(cols []column, form string) string {
	list := make([]string, len(cols)-1)
	for i, c := range cols[1:] {
		list[i] = strings.ReplaceAll(form, "{}", c.name)
	}
	return strings.Join(list, ", ")
}

// execer is a connection, or a pool of one.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}
