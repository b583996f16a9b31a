package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	neturl "net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// mariadb keeps the ledger on a server of MySQL's kind: MariaDB 10.6 or later,
// MySQL 8.0 or later.
type mariadb struct{ config *mysql.Config }

const mysqlForm = "mysql://user:password@host:port/database"

func openMariaDB(url string) (open func(ctx context.Context) (*pools, error), err error) {
	u, err := neturl.Parse(url)
	if err != nil {
		// The parser's error may contain the password.
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
			return nil, fmt.Errorf("it has an unknown parameter %q; the only one is tls=true, skip-verify, preferred or false", name+"="+values[0])
		}
		config.TLSConfig = values[0]
	}
	config.Collation = "utf8mb4_bin"   // that of the columns
	config.MaxAllowedPacket = 0        // ask the server
	config.Logger = &mysql.NopLogger{} // errors are returned as well
	return (&mariadb{config}).open, nil
}

// mysqlMigrating names the lock of who migrates, by the database: names of locks are the server's.
const mysqlMigrating = "CONCAT('duehook.migrating.', LEFT(MD5(DATABASE()), 20))"

func (d *mariadb) open(ctx context.Context) (*pools, error) {
	// A node that freezes within a transaction must not block the others for long, so the
	// server ends its idle connection.
	s := &silence{}
	write, err := d.pool(s, map[string]string{"wait_timeout": "10", "innodb_lock_wait_timeout": "3"})
	if err != nil {
		return nil, err
	}
	read, err := d.pool(s, map[string]string{"wait_timeout": "31536000"})
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	p := servers(mariadbWords, write, read, s)
	write.SetConnMaxIdleTime(5 * time.Second)
	var packet int64
	err = read.QueryRowContext(ctx, "SELECT @@max_allowed_packet").Scan(&packet)
	switch {
	case err != nil:
		err = fmt.Errorf("connect to the ledger: %w", s.why(err))
	case packet < minPacket:
		err = fmt.Errorf("the ledger's server accepts packets of at most %d bytes: set max_allowed_packet to %d or more", packet, minPacket)
	default:
		return p, nil
	}
	return nil, errors.Join(err, p.close())
}

// minPacket is the most that a statement of many rows needs without bodies. A body has
// a packet of its own.
const minPacket = 1 << 20

// pool opens connections whose session has these variables. Settings of the server's
// administrator must not change the meaning of statements.
func (d *mariadb) pool(s *silence, variables map[string]string) (*sql.DB, error) {
	config := d.config.Clone()
	config.DialFunc = s.dial
	variables["sql_mode"] = "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
	config.Params = variables
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return sql.OpenDB(connector), nil
}
