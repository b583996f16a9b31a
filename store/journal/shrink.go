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
	// shrinkStep is how many pages one step moves and frees: this takes a few milliseconds,
	// which may delay a registration.
	shrinkStep = 32
	// shrinkPause is how long the journal must be idle before the next step.
	shrinkPause = 5 * time.Millisecond
	// A file keeps this many free pages (of 4 KiB), and a quarter of all, because it would
	// only grow again.
	freePages = 2048
	freeShare = 4
)

// shrinker is a dialect whose journal shrinks only on request.
type shrinker interface {
	// shrink makes a step, and reports whether there are more to make.
	shrink(ctx context.Context, write *sql.DB) (more bool, err error)
}

func (d *sqlite) shrink(ctx context.Context, write *sql.DB) (more bool, err error) {
	var all, free int64
	const pages = "SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count"
	if err := write.QueryRowContext(ctx, pages).Scan(&all, &free); err != nil {
		return false, fmt.Errorf("read the number of pages: %w", err)
	}
	if free <= max(freePages, all/freeShare) {
		return false, nil
	}
	// Each row is a moved page. SQLite moves a page only when its row is read.
	text := fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrinkStep)
	if err := each(ctx, write, text, nil, func(*sql.Rows) error { return nil }); err != nil {
		return false, fmt.Errorf("give pages back: %w", err)
	}
	return true, nil
}
