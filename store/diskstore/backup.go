package diskstore

import (
	"context"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
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
	if err := makeDir(to.FS, dir); err != nil {
		return fmt.Errorf("create the directory of the backup: %w", err)
	}
	if err := s.db.LogData(nil, pebble.Sync); err != nil { // then the copies of the logs have all that was written
		return unavailable(err)
	}
	inv, p := newInventory(), permsOf(to.FS, dir)
	inv.form = form
	if s.files != nil {
		inv.files = s.files.now()
	}
	if err := s.db.Checkpoint(engineDir(&to)); err != nil {
		return fmt.Errorf("back up the jobs: %w", err)
	}
	err := inv.list(to.FS, engineDir(&to))
	if err == nil {
		err = writeInventory(s.room.fs, dir, inv, p)
	}
	if err == nil {
		err = p.restrict(dir)
	}
	if err != nil {
		return fmt.Errorf("back up the jobs: %w", err)
	}
	return nil
}

// list makes an inventory of the files of a copy, with what is known of the files that were copied.
func (inv *inventory) list(disk vfs.FS, dir string) error {
	names, err := disk.List(dir)
	if err != nil {
		return err
	}
	known := inv.files
	inv.files = map[string]trace{}
	for _, name := range names {
		kind := kindOf(name)
		e, found := known[name]
		switch {
		case kind == otherFile:
			continue
		case kind == manifestFile: // the copy has one of its own
			e, err = measure(disk, disk.PathJoin(dir, name), math.MaxInt64)
		case kind == tableFile && !found:
			e, err = measure(disk, disk.PathJoin(dir, name), 0)
		}
		if err != nil {
			return err
		}
		inv.files[name] = e
	}
	return nil
}
