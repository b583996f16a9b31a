package journal

import (
	"context"
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
	rows, err := r.pools.read.QueryContext(ctx, sqlSizes+in(seqs))
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports it
	sizes := make(map[int64]int, len(seqs))
	for rows.Next() {
		var seq int64
		var size int
		if err := rows.Scan(&seq, &size); err != nil {
			return nil, err
		}
		sizes[seq] = size
	}
	return sizes, rows.Err()
}

func (r *Reader) readMessages(ctx context.Context, seqs []int64) ([]Stored, []Unreadable, error) {
	rows, err := r.pools.read.QueryContext(ctx, sqlStored+"WHERE m.seq"+in(seqs))
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports it
	var page []row
	for rows.Next() {
		var m row
		if err := m.scan(rows); err != nil {
			return nil, nil, err
		}
		page = append(page, m)
	}
	if err := rows.Err(); err != nil {
		return nil, nil, err
	}
	return r.decode(ctx, page)
}
