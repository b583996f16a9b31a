package journal

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/duehook/duehook/store"
)

// Messages reads messages with their logs and passes them to work in parts, because
// bodies may be large.
func (r *Reader) Messages(ctx context.Context, seqs []int64, work func(messages []Stored, bad []Unreadable) error) error {
	for len(seqs) > 0 {
		page := seqs[:min(len(seqs), restorePage)]
		seqs = seqs[len(page):]
		sizes, err := r.sizes(ctx, page)
		if err != nil {
			return fmt.Errorf("read messages: %w", unavailable(err))
		}
		for len(page) > 0 {
			n := store.Batch(len(page), len(page), func(i int) int { return sizes[page[i]] })
			messages, bad, err := r.readMessages(ctx, page[:n])
			if err != nil {
				return fmt.Errorf("read messages: %w", unavailable(err))
			}
			if err := work(messages, bad); err != nil {
				return err
			}
			page = page[n:]
		}
	}
	return nil
}

// sizes are the sizes of messages with their bodies, by seq.
func (r *Reader) sizes(ctx context.Context, seqs []int64) (map[int64]int, error) {
	sizes := make(map[int64]int, len(seqs))
	return sizes, each(ctx, r.pools.read, sqlSizes+in(seqs), nil, func(rows *sql.Rows) error {
		var seq int64
		var size int
		err := rows.Scan(&seq, &size)
		sizes[seq] = size
		return err
	})
}

func (r *Reader) readMessages(ctx context.Context, seqs []int64) ([]Stored, []Unreadable, error) {
	var page []Stored
	err := each(ctx, r.pools.read, sqlStored+"WHERE m.seq"+in(seqs), nil, func(rows *sql.Rows) error {
		var m Stored
		err := m.scan(rows)
		page = append(page, m)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return r.decode(ctx, page)
}
