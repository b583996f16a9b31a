package diskstore

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/duehook/duehook/store"
)

// Sizes of the engine, in bytes.
const (
	defaultCache = 128 << 20
	memTable     = 32 << 20
	blockSize    = 16 << 10
	bloomBits    = 10
)

// openEngine opens the engine, and makes its directory if necessary. Before the engine may change anything, its files are compared
// with the inventory.
func (s *Store) openEngine(o *Options) error {
	dir := engineDir(o)
	if o.Dir != "" {
		if err := s.lockFiles(dir); err != nil {
			return err
		}
	}
	cache := pebble.NewCache(cmp.Or(o.Cache, defaultCache))
	defer cache.Unref() // the engine holds it
	p := engineOptions(o, cache, s)
	p.Lock, p.ReadOnly = s.dirLock, s.readOnly
	var err error
	s.db, err = pebble.Open(dir, p)
	return err
}

// lockFiles makes the directory, locks it and checks what is there.
func (s *Store) lockFiles(dir string) error {
	files := s.files
	inv, err := readInventory(files.patientFS, files.PathJoin(files.data, inventoryFile))
	if err != nil {
		return err
	}
	_, err = files.Stat(dir)
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case missing && inv != nil && inv.form != "":
		return &DamageError{dir, "is missing"}
	case missing && s.readOnly:
		return ErrNothing
	}
	if err := makeDir(files.patientFS, dir); err != nil {
		return err
	}
	if s.dirLock, err = pebble.LockDirectory(dir, files.patientFS); err != nil {
		return fmt.Errorf("%w: %w", ErrInUse, err)
	}
	if err := files.check(); err != nil {
		return err
	}
	if s.readOnly {
		if len(files.inv.files) == 0 {
			return ErrNothing
		}
		return nil
	}
	_ = files.perms.close(files.PathJoin(dir, "LOCK")) // it is empty, and may be another user's
	return files.begin()
}

// makeDir makes a directory and those above it, so that they survive a loss of power.
func makeDir(disk vfs.FS, dir string) error {
	var parents []string
	for at := dir; ; at = disk.PathDir(at) {
		if _, err := disk.Stat(at); err == nil || disk.PathDir(at) == at {
			break
		}
		parents = append(parents, disk.PathDir(at))
	}
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the data directory: %w", err)
	}
	for _, parent := range parents {
		if err := syncDir(disk, parent); err != nil {
			return fmt.Errorf("create the data directory: %w", err)
		}
	}
	return nil
}

func syncDir(disk vfs.FS, dir string) error {
	d, err := disk.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// engineDir is the directory of the engine's files.
func engineDir(o *Options) string { return o.FS.PathJoin(o.Dir, "jobs") }

func engineOptions(o *Options, cache *pebble.Cache, s *Store) *pebble.Options {
	p := &pebble.Options{
		FS: o.FS, Cache: cache, Logger: logger{o.Logger, s.engineFailed},
		FormatMajorVersion: pebble.FormatValueSeparation,
		MemTableSize:       memTable, MemTableStopWritesThreshold: 4,
		L0CompactionThreshold: 4, L0StopWritesThreshold: 24,
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },
		EventListener:              &pebble.EventListener{DataCorruption: s.damaged}, // the default one logs
	}
	if o.Dir == "" {
		// In memory, and in virtual time, a tick every 100 ms costs more than it helps.
		p.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	}
	for i := range p.Levels {
		p.Levels[i].BlockSize = blockSize
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBits)
	}
	return p
}

// ErrInUse means that another process has the directory open.
var ErrInUse = errors.New("another duehook uses the directory")

// explain says what to do about an error of opening.
func explain(dir string, err error) error {
	if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
		err = &DamageError{info.Path, fmt.Sprintf("is damaged: %v", info.Details)}
	}
	switch {
	case errors.As(err, new(*DamageError)), errors.Is(err, errLost), pebble.IsCorruptionError(err), errors.Is(err, fs.ErrNotExist), errors.Is(err, pebble.ErrDBNotPristine):
		return fmt.Errorf("the data in %s is damaged, and was left as it is: restore a backup, or start with another directory: %w", dir, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s must be writable by this user: %w", dir, err)
	case errors.Is(err, errNewer), errors.Is(err, ErrNothing):
		return err
	case errors.Is(err, ErrInUse):
		return fmt.Errorf("open the data in %s: %w; give this one another directory (--data-dir)", dir, err)
	}
	return fmt.Errorf("open the data in %s: %w", dir, err)
}

// logger passes the engine's messages on.
type logger struct {
	*slog.Logger
	fatal func(error)
}

func (l logger) Infof(format string, args ...any) {
	l.Debug("storage engine", "message", fmt.Sprintf(format, args...))
}

func (l logger) Errorf(format string, args ...any) {
	l.Error("storage engine failed", "error", fmt.Sprintf(format, args...))
}

// Fatalf is called when the engine can write no more.
func (l logger) Fatalf(format string, args ...any) {
	l.fatal(fmt.Errorf(format, args...))
}

// unavailable is an error of the engine for callers, nil for none.
func unavailable(err error) error {
	if err == nil || errors.Is(err, store.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// Memory returns a file system in memory, for tests and short-lived nodes.
func Memory() vfs.FS { return vfs.NewMem() }
