package diskstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Contents are what a data directory has.
type Contents struct{ Unfinished, Dead int64 }

// Reader is a store that is open for reading only.
type Reader interface {
	store.Documents
	Contents() Contents
	// ReadAll reads each block of each table, each row and each record, and compares the numbers of records and of names. It returns
	// how many rows there are.
	ReadAll(ctx context.Context) (rows int64, err error)
	Close() error
}

// OpenReader opens the store in a directory with the checks of Open, and changes nothing that is kept.
// ErrNothing means that there are no jobs, ErrInUse that a node has the directory open.
func OpenReader(o Options) (Reader, error) {
	s, err := open(o, true)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Contents counts the jobs.
func (s *Store) Contents() Contents {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Contents{s.counts.unfinished(), s.counts[job.Dead]}
}

// ReadAll reads everything: see Reader.
func (s *Store) ReadAll(ctx context.Context) (rows int64, err error) {
	if rows, err = s.readAll(ctx); err == nil {
		err = s.Failure()
	}
	if err != nil {
		return rows, explain(s.files.dir, err)
	}
	return rows, nil
}

func (s *Store) readAll(ctx context.Context) (rows int64, err error) {
	names, err := s.files.List(s.files.dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if kindOf(name) != tableFile {
			continue
		}
		if err := errors.Join(ctx.Err(), validateTable(ctx, s.files, s.files.PathJoin(s.files.dir, name))); err != nil {
			return 0, err
		}
	}
	var records, entries int64
	var broken error
	err = scan(s.db, nil, nil, func(key, value []byte) bool {
		rows++
		switch key[0] {
		case famJob, famEnded, famKept, famDead:
			records++
			if _, err := decodeRecord(value); err != nil {
				broken = fmt.Errorf("the record at %x: %w", key, err)
			}
		case famKey:
			entries++
		}
		if rows%4096 == 0 {
			broken = errors.Join(broken, ctx.Err())
		}
		return broken == nil
	})
	if err = errors.Join(err, broken); err == nil && records != entries {
		err = fmt.Errorf("%w: %d records, and %d names of jobs", errLost, records, entries)
	}
	return rows, err
}

// validateTable compares the blocks of a table with their checksums.
func validateTable(ctx context.Context, disk vfs.FS, path string) error {
	f, err := disk.Open(path)
	if err != nil {
		return err
	}
	in, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	p := pebble.Options{}
	p.EnsureDefaults()
	r, err := sstable.NewReader(ctx, in, p.MakeReaderOptions())
	if err != nil {
		return errors.Join(&DamageError{path, "is damaged"}, err, in.Close())
	}
	if err = r.ValidateBlockChecksums(); err != nil {
		err = errors.Join(&DamageError{path, "is damaged"}, err)
	}
	return errors.Join(err, r.Close())
}
