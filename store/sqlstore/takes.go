package sqlstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// errTried undoes a write that was only tried.
var errTried = errors.New("the write was only tried")

// Takes returns why a registration would not be stored: the server is read-only, the disk is full, or the role has no right to
// write. It writes a row and takes it back.
func (s *Store) Takes(ctx context.Context) error {
	err := s.change(ctx, func(ctx context.Context, t *txn) error {
		var b pgx.Batch
		b.Queue(s.sql(`INSERT INTO duehook.message (channel, payload, at) VALUES ('', '', 0)`))
		if err := t.send(ctx, &b); err != nil {
			return err
		}
		return errTried
	})
	if errors.Is(err, errTried) {
		return nil
	}
	return err
}
