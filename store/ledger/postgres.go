package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	neturl "net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// postgres keeps the ledger on a PostgreSQL server, version 12 or later, in
// the schema that the search_path names first.
type postgres struct{ config *pgx.ConnConfig }

const postgresForm = "postgres://user:password@host:port/database"

func openPostgres(url string) (open func(ctx context.Context) (*pools, error), err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		// The error of pgx may quote the password.
		return nil, errors.New("it cannot be read: write " + postgresForm + ", with %40 for an @ in the password, and so on")
	}
	if u, err := neturl.Parse(url); err != nil || u.Query().Has("password") { // it would be shown there
		return nil, errors.New("write the password before the host: " + postgresForm)
	}
	if config.Database == "" {
		return nil, errors.New("the database is missing: write " + postgresForm)
	}
	return (&postgres{config}).open, nil
}

// postgresMigrating is the lock of who migrates, by the schema.
const postgresMigrating = "(1685414241, hashtext(current_schema()))"

// Timeouts of the server, in milliseconds; zero is none.
var postgresLimits = []struct{ name, value string }{
	// A node that freezes within a transaction must not keep the others from
	// writing for long.
	{"lock_timeout", "3000"},
	{"idle_in_transaction_session_timeout", "5000"},
	// The user may have timeouts that do not fit: a pass reads long answers, and connections
	// may be idle. PostgreSQL 12 lacks the last one.
	{"statement_timeout", "0"},
	{"idle_session_timeout", "0"},
}

// limit sets the limits that the URL does not set. They are no parameters of the
// connection, because poolers refuse those.
func (d *postgres) limit(ctx context.Context, conn *pgx.Conn) error {
	for _, l := range postgresLimits {
		if _, set := d.config.RuntimeParams[l.name]; set {
			continue
		}
		const text = "SELECT set_config($1, $2, false) WHERE current_setting($1, true) IS NOT NULL"
		if _, err := conn.Exec(ctx, text, pgx.QueryExecModeExec, l.name, l.value); err != nil {
			return fmt.Errorf("set %s: %w", l.name, err)
		}
	}
	return nil
}

func (d *postgres) open(ctx context.Context) (*pools, error) {
	config := d.config
	if _, set := config.RuntimeParams["application_name"]; !set {
		config.RuntimeParams["application_name"] = "duehook"
	}
	s := &silence{}
	config.DialFunc = s.dial
	limited := stdlib.OptionAfterConnect(d.limit)
	p := servers(postgresWords, stdlib.OpenDB(*config, limited), stdlib.OpenDB(*config, limited), s)
	if err := checkEncoding(ctx, p.read); err != nil {
		return nil, errors.Join(s.why(err), p.close())
	}
	return p, nil
}

// checkEncoding connects, and refuses a database that cannot keep all characters: one
// name would fail the commit of many jobs.
func checkEncoding(ctx context.Context, db *sql.DB) error {
	var encoding string
	if err := db.QueryRowContext(ctx, "SELECT current_setting('server_encoding')").Scan(&encoding); err != nil {
		return fmt.Errorf("connect to the ledger: %w", err)
	}
	if encoding != "UTF8" && encoding != "SQL_ASCII" { // which keeps bytes as they are
		return fmt.Errorf("the encoding of the ledger's database is %s, which cannot store all names: create a database with ENCODING 'UTF8'", encoding)
	}
	return nil
}

// unnest is a table v of rows whose columns arrive as arrays. The planner expects few rows,
// and so uses the index for each.
func unnest(cols []column) string {
	types := map[kind]string{number: "bigint", nullable: "bigint", text: "text", binary: "bytea"}
	arrays := make([]string, len(cols))
	for i, c := range cols {
		arrays[i] = fmt.Sprintf("$%d::%s[]", i+1, types[c.kind])
	}
	return "unnest(" + strings.Join(arrays, ", ") + ") AS v (" + strings.Join(names(cols), ", ") + ")"
}

// arraysOf turns rows into columns.
func arraysOf(cols []column, args []any) []any {
	arrays := make([]any, len(cols))
	for i, c := range cols {
		switch c.kind {
		case number:
			arrays[i] = pick[int64](args, i, len(cols))
		case text:
			arrays[i] = pick[string](args, i, len(cols))
		case binary:
			arrays[i] = pick[[]byte](args, i, len(cols))
		case nullable:
			list := make([]*int64, len(args)/len(cols))
			for r := range list {
				if v, ok := args[r*len(cols)+i].(int64); ok {
					list[r] = &v
				}
			}
			arrays[i] = list
		}
	}
	return arrays
}

// pick is a column of rows; nil is the zero value.
func pick[T any](args []any, column, columns int) []T {
	list := make([]T, len(args)/columns)
	for r := range list {
		list[r], _ = args[r*columns+column].(T)
	}
	return list
}
