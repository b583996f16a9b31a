package journal

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// A file of SQLite keeps free pages for later use. If there are many, the idle journal
// returns them to the disk, a few at a time.
const (
	// shrinkStep is how many pages one step moves and gives back: a few
	// milliseconds, which a registration may have to wait.
	shrinkStep = 32
	// shrinkPause is how long nothing must be wanted before the next step.
	shrinkPause = 5 * time.Millisecond
	// A file may have so many free pages (of 4 KiB), and a quarter of all: it would only
	// grow again.
	freePages = 2048
	freeShare = 4
)

// shrinker is a dialect whose journal shrinks only on request.
type shrinker interface {
	// shrink makes a step, and reports whether there are more to make.
	shrink(ctx context.Context, write *sql.DB) (more bool, err error)
}

func (d *sqlite) shrink(ctx context.Context, write *sql.DB) (more bool, err error) {
	p, err := pagesOf(ctx, write)
	if err != nil || p.free <= max(freePages, p.all/freeShare) {
		return false, err
	}
	// A row is a page, and only who reads them all has them moved.
	rows, err := write.QueryContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrinkStep))
	if err != nil {
		return false, fmt.Errorf("give pages back: %w", err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	for rows.Next() {
		continue
	}
	return true, rows.Err()
}

// pages is the layout of a file.
type pages struct{ all, free int64 }

func pagesOf(ctx context.Context, db *sql.DB) (p pages, err error) {
	for name, into := range map[string]*int64{"page_count": &p.all, "freelist_count": &p.free} {
		if err := db.QueryRowContext(ctx, "PRAGMA "+name).Scan(into); err != nil {
			return p, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return p, nil
}
