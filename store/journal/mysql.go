package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	neturl "net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
)

// mariadb keeps the journal on a server of MySQL's kind: MariaDB 10.6 or later,
// MySQL 8.0 or later.
type mariadb struct {
	config *mysql.Config
	ownership
}

const mysqlForm = "mysql://user:password@host:port/database"

func newMariaDB(url string) (*mariadb, error) {
	u, err := neturl.Parse(url)
	if err != nil {
		// What the parser says may quote a password that makes the URL unreadable.
		return nil, errors.New("it cannot be read: write " + mysqlForm + ", with %40 for an @ in the password, and so on")
	}
	config := mysql.NewConfig()
	config.DBName = strings.TrimPrefix(u.Path, "/")
	if config.DBName == "" {
		return nil, errors.New("the database is missing: write " + mysqlForm)
	}
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.Net, config.Addr = "tcp", u.Host
	if u.Port() == "" {
		config.Addr += ":3306"
	}
	for name, values := range u.Query() {
		if name != "tls" || len(values) > 1 || !slices.Contains([]string{"true", "skip-verify", "preferred", "false"}, values[0]) {
			return nil, fmt.Errorf("it has an unknown parameter %q; there is only tls=true, skip-verify, preferred or false", name+"="+values[0])
		}
		config.TLSConfig = values[0]
	}
	config.Collation = "utf8mb4_bin" // that of the columns
	config.Timeout = commitLimit
	config.MaxAllowedPacket = 0        // the server tells
	config.Logger = &mysql.NopLogger{} // errors are returned as well
	return &mariadb{config: config}, nil
}

func (d *mariadb) dir() (string, goose.Dialect) { return "migrations/mysql", goose.DialectMySQL }

func (d *mariadb) open(ctx context.Context) (*pools, error) {
	// A node that freezes within a transaction must not keep the others from
	// writing for long, and the server knows only idle connections. The lock's
	// connection is idle, too, but must last.
	write, err := d.pool(map[string]string{"wait_timeout": "10", "innodb_lock_wait_timeout": "8"})
	if err != nil {
		return nil, err
	}
	read, err := d.pool(map[string]string{"wait_timeout": "31536000"})
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	p := servers(write, read)
	write.SetConnMaxIdleTime(5 * time.Second)
	var packet int64
	err = read.QueryRowContext(ctx, "SELECT @@max_allowed_packet").Scan(&packet)
	switch {
	case err != nil:
		err = fmt.Errorf("connect to the journal: %w", err)
	case packet < minPacket:
		err = fmt.Errorf("the journal's server takes packets of %d bytes only: set max_allowed_packet to %d or more", packet, minPacket)
	default:
		return p, nil
	}
	return nil, errors.Join(err, p.close())
}

// minPacket is what a statement of many rows without bodies may need. A body is
// sent in a packet of its own.
const minPacket = 1 << 20

// pool opens connections whose session has these variables. What the server's
// administrator has set must change neither statements nor silently their values.
func (d *mariadb) pool(variables map[string]string) (*sql.DB, error) {
	config := d.config.Clone()
	variables["sql_mode"] = "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
	config.Params = variables
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	return sql.OpenDB(connector), nil
}

// Names of locks, with the database: they are the server's.
const (
	mariadbMigrating = "CONCAT('duehook.migrating.', LEFT(MD5(DATABASE()), 20))"
	mariadbInUse     = "CONCAT('duehook.in_use.', LEFT(MD5(DATABASE()), 20))"
)

func (d *mariadb) migrating(ctx context.Context, p *pools, up func() error) error {
	conn, err := p.read.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it only goes back to the pool
	const hour = 3600  // a long migration by another node is waited for
	if err := getLock(ctx, conn, mariadbMigrating, hour); err != nil {
		return err
	}
	err = up()
	return errors.Join(err, releaseLock(context.WithoutCancel(ctx), conn, mariadbMigrating))
}

// mariadbPatience is how long the server may take to notice that the process
// before this one was killed, in seconds.
const mariadbPatience = 2

// claim holds a lock as long as a connection of its own lives. Locks cannot be
// shared here, so nodes that share a store only see that there is none.
func (d *mariadb) claim(ctx context.Context, p *pools, shared bool) error {
	conn, err := p.read.Conn(ctx)
	if err != nil {
		return err
	}
	p.release = conn.Close
	if err := getLock(ctx, conn, mariadbInUse, mariadbPatience); err != nil {
		return err
	}
	if shared {
		err = releaseLock(ctx, conn, mariadbInUse)
	} else {
		err = unusedByNodes(ctx, conn)
	}
	if err != nil {
		return err
	}
	return d.set(ctx, p.write, d, shared)
}

// sweepWait is how long nodes that share a store, and of which one writes every
// 2 seconds how far it has compared, are waited for, in seconds.
const sweepWait = 6

// unusedByNodes refuses a journal that nodes on Redis use, which hold no lock.
// They would go on delivering what this process puts back.
func unusedByNodes(ctx context.Context, conn *sql.Conn) error {
	var owner string
	if err := conn.QueryRowContext(ctx, "SELECT owner FROM writer").Scan(&owner); err != nil || owner != "" {
		return err
	}
	swept := func() (version uint64, err error) {
		var data []byte
		err = conn.QueryRowContext(ctx, sqlDocument, NodesKind, NodesName).Scan(&version, &data)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, nil
		}
		return version, err
	}
	before, err := swept()
	if err != nil || before == 0 {
		return err
	}
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("DO SLEEP(%d)", sweepWait)); err != nil {
		return err
	}
	if now, err := swept(); err != nil || now == before {
		return err
	}
	return errJournalInUse
}

func getLock(ctx context.Context, conn *sql.Conn, name string, seconds int) error {
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, fmt.Sprintf("SELECT GET_LOCK(%s, %d)", name, seconds)).Scan(&got); err != nil {
		return err
	}
	if got.Int64 != 1 {
		return errJournalInUse
	}
	return nil
}

func releaseLock(ctx context.Context, conn *sql.Conn, name string) error {
	_, err := conn.ExecContext(ctx, "DO RELEASE_LOCK("+name+")")
	return err
}

// setDurable: how a commit is kept is the server's, for all its databases.
func (d *mariadb) setDurable(context.Context, execer, bool) error { return nil }

func (d *mariadb) turn(ctx context.Context, tx *sql.Tx, _ bool) (int64, error) {
	return d.ownership.turn(ctx, tx, "")
}

func (d *mariadb) probe(ctx context.Context, tx *sql.Tx) error { return probeWriter(ctx, tx) }

var mariadbSizes = []int{64, 8, 1}

// mariadbRows in JSON are far less than minPacket.
const mariadbRows = 500

func (d *mariadb) insert(table string, cols []column, upsert bool) shape {
	s := "INSERT INTO " + table + " (" + strings.Join(names(cols), ", ") + ") VALUES {rows}"
	if upsert {
		s += " ON DUPLICATE KEY UPDATE " + assignments(cols, "{} = VALUES({})")
	}
	return shape{text: s, sizes: mariadbSizes, rows: func(n int) string { return placeholders(n, len(cols)) }}
}

func (d *mariadb) update(assign []string, where string, cols []column) shape {
	return shape{
		text: "UPDATE message JOIN " + jsonTable(cols) + " ON message.seq = v.seq SET message." +
			strings.Join(assign, ", message.") + " WHERE " + where,
		pack: packJSON(cols), most: mariadbRows,
	}
}

func (d *mariadb) selected(text string, cols []column) shape {
	return shape{text: strings.ReplaceAll(text, "{rows}", jsonTable(cols)), pack: packJSON(cols), most: mariadbRows}
}

func (d *mariadb) bind(text string) string { return text }

func (d *mariadb) walk(after *Entry) (condition string, args []any, order string) {
	return walkBySeq(after)
}

func (d *mariadb) keep() string { return "ON DUPLICATE KEY UPDATE version = version" }

// jsonTable is a table v of rows that come as one text in JSON.
func jsonTable(cols []column) string {
	list := make([]string, len(cols))
	for i, c := range cols {
		kind := "BIGINT"
		if c.kind == text {
			kind = "VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
		}
		list[i] = fmt.Sprintf("%s %s PATH '$[%d]'", c.name, kind, i)
	}
	return "JSON_TABLE(?, '$[*]' COLUMNS (" + strings.Join(list, ", ") + ")) AS v"
}

// packJSON makes that text.
func packJSON(cols []column) func(args []any) ([]any, error) {
	return func(args []any) ([]any, error) {
		rows := make([][]any, 0, len(args)/len(cols))
		for ; len(args) > 0; args = args[len(cols):] {
			rows = append(rows, args[:len(cols)])
		}
		text, err := json.Marshal(rows)
		return []any{string(text)}, err
	}
}
