package ledger

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
)

// words are the SQL that differs between kinds of servers. In statements, {rows} is a
// table v of rows that come as parameters, and {values} a list of them.
type words struct {
	numbered bool   // parameters are $1, $2
	insert   string // adds rows
	upsert   string // ends an insert that overwrites rows; {} is a column
	update   string // changes the messages whose seq is that of a row
	assigned string // precedes the columns that it sets
	keep     string // ends an insert that leaves rows that exist; {} is a column
	byKey    bool   // the index of open messages is by topic and id, not by seq
	relaxed  string // an expression that makes a commit return before it is durable; empty: there is none

	migrations      string // their folder
	goose           goose.Dialect
	tryLock, unlock string // of the lock of who migrates

	// rows is the table v, of any number of rows; pack makes its parameters.
	rows func(cols []column) string
	pack func(cols []column) func(args []any) ([]any, error)
	most int // rows of a packed statement; zero: any number
}

var postgresWords = &words{
	numbered: true,
	insert:   "INSERT INTO {table} ({columns}) SELECT * FROM {rows}",
	upsert:   " ON CONFLICT (seq) DO UPDATE SET {} = excluded.{}",
	update:   "UPDATE message SET {set} FROM {rows} WHERE message.seq = v.seq AND {where}",
	keep:     " ON CONFLICT DO NOTHING",
	byKey:    true,
	relaxed:  "set_config('synchronous_commit', 'off', true)",
	rows:     unnest,
	pack:     packArrays,

	migrations: "migrations/postgres",
	goose:      goose.DialectPostgres,
	tryLock:    "pg_try_advisory_lock" + postgresMigrating,
	unlock:     "SELECT pg_advisory_unlock" + postgresMigrating,
}

var mariadbWords = &words{
	insert:   "INSERT INTO {table} ({columns}) VALUES {values}",
	upsert:   " ON DUPLICATE KEY UPDATE {} = VALUES({})",
	update:   "UPDATE message JOIN {rows} ON message.seq = v.seq SET {set} WHERE {where}",
	assigned: "message.",
	keep:     " ON DUPLICATE KEY UPDATE {} = {}",
	rows:     jsonTable,
	pack:     packJSON,
	most:     500, // in JSON far below minPacket

	migrations: "migrations/mysql",
	goose:      goose.DialectMySQL,
	tryLock:    "coalesce(GET_LOCK(" + mysqlMigrating + ", 0), 0)",
	unlock:     "DO RELEASE_LOCK(" + mysqlMigrating + ")",
}

// adding adds rows to a table; with upsert it overwrites those whose seq is taken.
func (w *words) adding(table string, cols []column, upsert bool) shape {
	text := w.inserting(table, cols)
	if upsert {
		start, form, _ := strings.Cut(w.upsert, "{}")
		list := make([]string, len(cols)-1)
		for i, c := range cols[1:] { // the first is the key
			list[i] = strings.ReplaceAll("{}"+form, "{}", c.name)
		}
		text += start + strings.Join(list, ", ")
	}
	return w.about(text, cols)
}

// raising adds rows to a table, or raises the numbers of those whose seq is taken.
func (w *words) raising(table string, cols []column) shape {
	start, form, _ := strings.Cut(w.upsert, "{}")
	value := strings.TrimPrefix(form, " = ")
	list := make([]string, len(cols)-1)
	for i, c := range cols[1:] { // the first is the key
		new := strings.ReplaceAll(value, "{}", c.name)
		list[i] = fmt.Sprintf("%[1]s = CASE WHEN %[2]s > %[3]s.%[1]s THEN %[2]s ELSE %[3]s.%[1]s END", c.name, new, table)
	}
	return w.about(w.inserting(table, cols)+start+strings.Join(list, ", "), cols)
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

// updating changes the messages whose seq is that of a row, called v.
func (w *words) updating(assign []string, where string, cols []column) shape {
	set := w.assigned + strings.Join(assign, ", "+w.assigned)
	return w.about(strings.NewReplacer("{set}", set, "{where}", where).Replace(w.update), cols)
}

// listSizes are the numbers of rows of statements with {values}, the largest first.
var listSizes = []int{64, 8, 1}

// about is a statement about rows.
func (w *words) about(text string, cols []column) shape {
	if strings.Contains(text, "{values}") {
		return shape{cols: len(cols), sizes: listSizes, text: func(n int) string {
			return strings.ReplaceAll(text, "{values}", placeholders(n, len(cols)))
		}}
	}
	return shape{cols: len(cols), sizes: []int{0}, pack: w.pack(cols), most: w.most, text: func(int) string {
		return strings.ReplaceAll(text, "{rows}", w.rows(cols))
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
	cols int                // of a row
	text func(n int) string // for n rows; if packed, for any number
	// sizes are the numbers of rows for which it is prepared, the largest first.
	sizes []int
	// pack makes the parameters of rows; of at most most rows, unless that is zero.
	pack func(args []any) ([]any, error)
	most int
}

// placeholders is a list of n rows of cols parameters each.
func placeholders(n, cols int) string {
	row := "(?" + strings.Repeat(",?", cols-1) + ")"
	return row + strings.Repeat(","+row, n-1)
}
