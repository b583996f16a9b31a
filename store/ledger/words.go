package ledger

import (
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
)

// words are the SQL that differs between kinds of servers. In statements, {rows} is a
// table v of rows that come as parameters, and {values} a list of them.
type words struct {
	numbered bool   // parameters are $1, $2, and may be arrays
	insert   string // adds rows
	upsert   string // ends an insert that changes rows whose seq is taken; assignments follow
	added    string // what the row to be added has in the column {}
	keep     string // ends an insert that leaves rows that exist; {} is a column
	messages string // joins the messages m by their keys
	byKey    bool   // the index of open messages is by topic and id, not by seq
	relaxed  string // an expression that makes a commit return before it is durable; empty: there is none

	migrations      string // their folder
	goose           goose.Dialect
	tryLock, unlock string // of the lock of who migrates
}

var postgresWords = &words{
	numbered: true,
	insert:   "INSERT INTO {table} ({columns}) SELECT * FROM {rows}",
	upsert:   " ON CONFLICT (seq) DO UPDATE SET ",
	added:    "excluded.{}",
	keep:     " ON CONFLICT DO NOTHING",
	messages: "JOIN message m",
	byKey:    true,
	relaxed:  "set_config('synchronous_commit', 'off', true)",

	migrations: "migrations/postgres",
	goose:      goose.DialectPostgres,
	tryLock:    "pg_try_advisory_lock" + postgresMigrating,
	unlock:     "SELECT pg_advisory_unlock" + postgresMigrating,
}

var mariadbWords = &words{
	insert: "INSERT INTO {table} ({columns}) VALUES {values}",
	upsert: " ON DUPLICATE KEY UPDATE ",
	added:  "VALUES({})",
	keep:   " ON DUPLICATE KEY UPDATE {} = {}",
	// While its statistics are old, the server would rather read all messages.
	messages: "STRAIGHT_JOIN message m FORCE INDEX (message_key)",

	migrations: "migrations/mysql",
	goose:      goose.DialectMySQL,
	tryLock:    "coalesce(GET_LOCK(" + mysqlMigrating + ", 0), 0)",
	unlock:     "DO RELEASE_LOCK(" + mysqlMigrating + ")",
}

// putting adds rows to a table, or sets some columns of those whose seq is taken.
func (w *words) putting(table string, cols, set []column) shape {
	list := make([]string, len(set))
	for i, c := range set {
		value := w.added
		if c.grows {
			value = "GREATEST(" + table + ".{}, " + value + ")"
		}
		list[i] = strings.ReplaceAll("{} = "+value, "{}", c.name)
	}
	return w.about(w.inserting(table, cols)+w.upsert+strings.Join(list, ", "), cols)
}

// keeping adds rows to a table, without existing ones.
func (w *words) keeping(table string, cols []column) shape {
	return w.about(w.inserting(table, cols)+w.keepOf(cols[0].name), cols)
}

// keepOf ends an insert into a table with a column that leaves rows that exist.
func (w *words) keepOf(column string) string { return strings.ReplaceAll(w.keep, "{}", column) }

func (w *words) inserting(table string, cols []column) string {
	return strings.NewReplacer("{table}", table, "{columns}", strings.Join(names(cols), ", ")).Replace(w.insert)
}

// listSizes are the numbers of rows of statements with lists, the largest first.
var listSizes = []int{64, 8, 1}

// about is a statement about rows.
func (w *words) about(text string, cols []column) shape {
	if w.numbered {
		return shape{cols: cols, arrays: true, sizes: []int{0}, text: func(int) string {
			return strings.ReplaceAll(text, "{rows}", unnest(cols))
		}}
	}
	values := "(?" + strings.Repeat(", ?", len(cols)-1) + ")"
	first := "(SELECT ? AS " + strings.Join(names(cols), ", ? AS ")
	row := " UNION ALL SELECT " + strings.Trim(values, "()")
	return shape{cols: cols, sizes: listSizes, text: func(n int) string {
		return strings.NewReplacer(
			"{values}", values+strings.Repeat(", "+values, n-1),
			"{rows}", first+strings.Repeat(row, n-1)+") AS v").Replace(text)
	}}
}

// bind replaces each ? of a statement by the server's form of parameters.
func (w *words) bind(text string) string {
	if !w.numbered {
		return text
	}
	parts := strings.Split(text, "?")
	for i := range parts[1:] {
		parts[i] += "$" + strconv.Itoa(i+1)
	}
	return strings.Join(parts, "")
}

// walk returns the condition and the order of the page of open messages behind after; nil:
// the first page. The order has an index.
func (w *words) walk(after *entry) (condition string, args []any, order string) {
	switch {
	case w.byKey && after != nil:
		return " AND (m.topic, m.id) > (?, ?)", []any{after.key.Topic, after.key.ID}, "m.topic, m.id"
	case w.byKey:
		return "", nil, "m.topic, m.id"
	case after != nil:
		return " AND m.seq > ?", []any{after.seq}, "m.seq"
	}
	return "", nil, "m.seq"
}

// shape is a statement about many rows.
type shape struct {
	cols   []column           // of a row
	arrays bool               // the parameters are the columns of any number of rows
	text   func(n int) string // for n rows
	sizes  []int              // the numbers of rows for which it is prepared, the largest first
}
