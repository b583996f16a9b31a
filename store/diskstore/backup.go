package diskstore

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Backup copies the store as it is into a data directory, which must hold no jobs. A store
// opens on the copy. Acknowledged changes are in it, and calls go on meanwhile.
func (s *Store) Backup(ctx context.Context, dir string) error {
	if _, err := s.enter(ctx); err != nil {
		return err
	}
	s.leave()
	defer s.active.Done()
	to := Options{Dir: dir, FS: s.room.fs}
	if err := to.FS.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the directory of the backup: %w", err)
	}
	if err := s.db.Checkpoint(engineDir(&to), pebble.WithFlushedWAL()); err != nil {
		return fmt.Errorf("back up the jobs: %w", err)
	}
	return nil
}
