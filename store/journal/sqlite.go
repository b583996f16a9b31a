package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// sqlite keeps the journal in a file, which one process has open at a time.
type sqlite struct {
	path string
	lock *flock.Flock
	// unsynced: no commit waits for the disk.
	unsynced bool
}

func (d *sqlite) dir() (string, goose.Dialect) { return "migrations/sqlite", goose.DialectSQLite3 }

func (d *sqlite) open(ctx context.Context) (*pools, error) {
	if err := os.MkdirAll(filepath.Dir(d.path), 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	var err error
	if d.lock, err = lockFile(d.path); err != nil {
		return nil, err
	}
	p, err := d.openPools(ctx)
	if err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	p.release = d.lock.Close
	return p, nil
}

func (d *sqlite) migrating(_ context.Context, _ *pools, up func() error) error { return up() }

func (d *sqlite) claim(context.Context, *pools, bool) error { return nil } // open has locked the file

// openPools opens the file, or creates it, for one writer and several readers.
func (d *sqlite) openPools(ctx context.Context) (*pools, error) {
	path, full := d.path, "synchronous(FULL)"
	if d.unsynced {
		full = "synchronous(OFF)"
	}
	// Created here for its permissions, which SQLite's other files inherit.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	name, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	// busy_timeout is for people who look into the file with other tools. The
	// journal is written back into the file every wal_autocheckpoint pages, by
	// the commit that fills it. temp_store is where statements keep pages as they
	// were before, which otherwise were written to files. auto_vacuum counts only
	// before anything is written, and journal_mode writes.
	write, err := openPool(name, 1, "busy_timeout(5000)", "auto_vacuum(INCREMENTAL)", "journal_mode(WAL)", full,
		"cache_size(-32768)", "temp_store(MEMORY)", "wal_autocheckpoint(4000)", "journal_size_limit(67108864)")
	if err != nil {
		return nil, err
	}
	read, err := openPool(name, 4, "busy_timeout(5000)", "query_only(1)")
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	var mode string
	err = write.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode)
	if err == nil && mode != "wal" {
		err = fmt.Errorf("SQLite cannot keep a write-ahead log here (journal_mode is %s); use a local disk", mode)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the journal %s: %w", path, err), read.Close(), write.Close())
	}
	return &pools{write: write, read: read}, nil
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

// setDurable sets whether the next commits must survive a power failure. Other commits
// reach the disk with the next durable one.
func (d *sqlite) setDurable(ctx context.Context, write execer, durable bool) error {
	text := "PRAGMA synchronous = NORMAL"
	switch {
	case d.unsynced:
		text = "PRAGMA synchronous = OFF"
	case durable:
		text = "PRAGMA synchronous = FULL"
	}
	if _, err := write.ExecContext(ctx, text); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}

func (d *sqlite) begin(context.Context, *sql.Tx, bool) (int64, error) { return 0, nil }

func (d *sqlite) words() *words { return sqliteWords }
