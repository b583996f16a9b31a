package ledger

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Everything that another SQL server would say or do differently stands in
// this file; statements.go builds the rest from it.

//go:embed migrations/sqlite/*.sql
var migrations embed.FS

const (
	migrationsDir = "migrations/sqlite"
	gooseDialect  = goose.DialectSQLite3
)

// Phrases of SQLite's SQL.
const (
	phraseGreatest = "max"
	// phraseInList takes one parameter, made by listParam.
	phraseInList = "IN (SELECT value FROM json_each(?))"
	// phraseUpsert begins the list of assignments when a message's seq is taken.
	phraseUpsert = "ON CONFLICT (seq) DO UPDATE SET "
)

// placeholders is a list of n rows of cols parameters each. As a table its
// columns are called column1, column2 and so on.
func placeholders(n, cols int) string {
	row := "(?" + strings.Repeat(",?", cols-1) + ")"
	return row + strings.Repeat(","+row, n-1)
}

// listParam is the parameter of phraseInList.
func listParam(seqs []int64) string {
	text := make([]byte, 0, 8*len(seqs)+2)
	text = append(text, '[')
	for i, seq := range seqs {
		if i > 0 {
			text = append(text, ',')
		}
		text = fmt.Append(text, seq)
	}
	return string(append(text, ']'))
}

// openSQLite opens the file at path, creating it if need be, for one writer
// and several readers.
func openSQLite(ctx context.Context, path string) (write, read *sql.DB, err error) {
	// Created here for its permissions; the files beside it get the same.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open the journal: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, nil, fmt.Errorf("open the journal: %w", err)
	}
	name, err := filepath.Abs(path)
	if err != nil {
		return nil, nil, fmt.Errorf("open the journal: %w", err)
	}
	// busy_timeout is for people who look into the file with other tools. The
	// journal is written back into the file every wal_autocheckpoint pages, by
	// the commit that fills it.
	write, err = openPool(name, 1, "busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)",
		"cache_size(-32768)", "wal_autocheckpoint(4000)", "journal_size_limit(67108864)")
	if err != nil {
		return nil, nil, err
	}
	read, err = openPool(name, 4, "busy_timeout(5000)", "query_only(1)")
	if err != nil {
		return nil, nil, errors.Join(err, write.Close())
	}
	var mode string
	err = write.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode)
	if err == nil && mode != "wal" {
		err = fmt.Errorf("SQLite's write-ahead log is not to be had here (journal_mode is %s); use a local disk", mode)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open the journal %s: %w", path, err), read.Close(), write.Close())
	}
	return write, read, nil
}

func openPool(path string, conns int, pragmas ...string) (*sql.DB, error) {
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"_pragma": pragmas,
		"_txlock": {"immediate"},
	}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// sqlDurable makes the commits of a connection survive a power failure.
const sqlDurable = "PRAGMA synchronous = FULL"

// setDurable says whether the next commits must survive a power failure. A
// commit that need not is on disk with the next one that must.
func setDurable(ctx context.Context, write *sql.DB, durable bool) error {
	text := "PRAGMA synchronous = NORMAL"
	if durable {
		text = sqlDurable
	}
	if _, err := write.ExecContext(ctx, text); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}

// probe writes something of no meaning, to see whether writing works.
func probe(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "PRAGMA user_version = 1"); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
