package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	wire "encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	neturl "net/url"
	"strings"
	"time"

	"github.com/lib/pq"
)

// postgres keeps the ledger on a PostgreSQL server, version 14 or later as the driver asks, in
// the schema that the search_path names first.
type postgres struct {
	*pq.Connector
	given map[string]string // settings of the server, by the URL
}

const postgresForm = "postgres://user:password@host:port/database"

func openPostgres(url string) (open func(ctx context.Context) (*pools, error), err error) {
	config, err := pq.NewConfig(url)
	if err != nil {
		// The error of the driver may quote the password.
		return nil, errors.New("it cannot be read: write " + postgresForm + ", with %40 for an @ in the password, and so on")
	}
	if u, err := neturl.Parse(url); err != nil || u.Query().Has("password") { // it would be shown there
		return nil, errors.New("write the password before the host: " + postgresForm)
	}
	if config.Database == "" {
		return nil, errors.New("the database is missing: write " + postgresForm)
	}
	if config.ApplicationName == "" {
		config.ApplicationName = "duehook"
	}
	if config.SSLMode == "" {
		config.SSLMode = pq.SSLModePrefer
	}
	config.BinaryParameters = true // one round trip for a statement, not two
	return func(ctx context.Context) (*pools, error) { return connectPostgres(ctx, config) }, nil
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
	// may be idle. What speaks the protocol of PostgreSQL may lack one.
	{"statement_timeout", "0"},
	{"idle_session_timeout", "0"},
}

func connectPostgres(ctx context.Context, config pq.Config) (*pools, error) {
	connector, err := pq.NewConnectorConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the ledger: %w", err)
	}
	s := &silence{}
	connector.Dialer(boundedDialer{s})
	d := &postgres{connector, config.Runtime}
	p := servers(postgresWords, sql.OpenDB(d), sql.OpenDB(d), s)
	if err := checkEncoding(ctx, p.read); err != nil {
		return nil, errors.Join(s.why(err), p.close())
	}
	return p, nil
}

// Connect connects, and sets the limits that the URL does not set. They are no parameters of the
// connection, because poolers refuse those.
func (d *postgres) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := d.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range postgresLimits {
		if _, set := d.given[l.name]; set {
			continue
		}
		const text = "SELECT set_config($1, $2, false) WHERE current_setting($1, true) IS NOT NULL"
		args := []driver.NamedValue{{Ordinal: 1, Value: l.name}, {Ordinal: 2, Value: l.value}}
		if _, err := conn.(session).ExecContext(ctx, text, args); err != nil { //nolint:forcetypeassert // pq's connections are
			return nil, errors.Join(fmt.Errorf("set %s: %w", l.name, err), conn.Close())
		}
	}
	return postgresConn{conn.(session)}, nil //nolint:forcetypeassert // pq's connections are
}

// postgresConn begins transactions as the database's defaults say. pq's BeginTx asks for READ WRITE, which overrides a
// default of READ ONLY.
type postgresConn struct{ session }

// session is a connection of pq without BeginTx.
type session interface {
	driver.Conn
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.SessionResetter
	driver.Validator
}

// boundedDialer connects for pq, which passes a context.
type boundedDialer struct{ silence *silence }

func (d boundedDialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return d.silence.dial(ctx, network, addr)
}

func (d boundedDialer) Dial(network, addr string) (net.Conn, error) {
	return d.silence.dial(context.Background(), network, addr)
}

func (d boundedDialer) DialTimeout(network, addr string, _ time.Duration) (net.Conn, error) {
	return d.Dial(network, addr)
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

// arrayTypes are the types of the columns that arrive as arrays, with their elements' object identifiers.
var arrayTypes = map[kind]struct {
	name string
	oid  uint32
}{number: {"bigint", 20}, nullable: {"bigint", 20}, text: {"text", 25}, binary: {"bytea", 17}}

// unnest is a table v of rows whose columns arrive as arrays. The planner expects few rows,
// and so uses the index for each.
func unnest(cols []column) string {
	arrays := make([]string, len(cols))
	for i, c := range cols {
		arrays[i] = fmt.Sprintf("$%d::%s[]", i+1, arrayTypes[c.kind].name)
	}
	return "unnest(" + strings.Join(arrays, ", ") + ") AS v (" + strings.Join(names(cols), ", ") + ")"
}

// array is an array in the binary format of PostgreSQL: pq would write it as text, with bytes as hexadecimal digits.
type array []byte

func (a array) BinaryValue() ([]byte, error) { return a, nil }

// arraysOf turns rows into columns.
func arraysOf(cols []column, args []any) []any {
	rows := len(args) / len(cols)
	arrays := make([]any, len(cols))
	for i, c := range cols {
		var a array
		for _, n := range []uint32{1, 1, arrayTypes[c.kind].oid, uint32(rows), 1} { // dimensions, may have nulls, type, length, first index
			a = wire.BigEndian.AppendUint32(a, n)
		}
		for r := range rows {
			a = a.element(c.kind, args[r*len(cols)+i])
		}
		arrays[i] = a
	}
	return arrays
}

// element adds a value. Of a column without nulls, nil is the zero value.
func (a array) element(k kind, v any) array {
	switch v := v.(type) {
	case int64:
		return wire.BigEndian.AppendUint64(wire.BigEndian.AppendUint32(a, 8), uint64(v))
	case string:
		return append(wire.BigEndian.AppendUint32(a, uint32(len(v))), v...)
	case []byte:
		if v != nil {
			return append(wire.BigEndian.AppendUint32(a, uint32(len(v))), v...)
		}
	}
	switch k {
	case number:
		return a.element(k, int64(0))
	case text:
		return a.element(k, "")
	}
	return wire.BigEndian.AppendUint32(a, math.MaxUint32) // null
}
