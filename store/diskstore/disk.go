package diskstore

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/duehook/duehook/internal/job"
)

// While the disk is full, a write is tried again every diskPause, for diskPatience at most.
// The engine would stop at the first failure.
const (
	diskPause    = 100 * time.Millisecond
	diskPatience = 30 * time.Second
)

// patientFS is a file system whose writes wait while the disk is full.
type patientFS struct {
	vfs.FS
	full atomic.Bool // a write waits
}

// isFull reports whether an error says that the disk, or what the process may use of it, is
// full.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EFBIG) || errors.Is(err, syscall.EDQUOT)
}

// try repeats a write while the disk is full.
func (fs *patientFS) try(write func() error) error {
	for waited := time.Duration(0); ; waited += diskPause {
		err := write()
		if !isFull(err) || waited >= diskPatience {
			if err == nil && fs.full.Load() {
				fs.full.Store(false)
			}
			return err
		}
		fs.full.Store(true)
		if err := job.Sleep(context.Background(), job.SystemClock(), diskPause); err != nil {
			return err
		}
	}
}

// file makes a file whose writes wait.
func (fs *patientFS) file(c vfs.DiskWriteCategory, open func() (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	err := fs.try(func() (err error) { f, err = open(); return err })
	if err != nil {
		return nil, err
	}
	f = &patientFile{f, fs}
	if c == logCategory {
		return writeAhead(f)
	}
	return f, nil
}

func (fs *patientFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.file(c, func() (vfs.File, error) { return fs.FS.Create(name, c) })
}

func (fs *patientFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return fs.file(c, func() (vfs.File, error) { return fs.FS.OpenReadWrite(name, c, o...) })
}

func (fs *patientFS) ReuseForWrite(before, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.file(c, func() (vfs.File, error) { return fs.FS.ReuseForWrite(before, name, c) })
}

// Unwrap is for the engine, which looks for the file system of the machine.
func (fs *patientFS) Unwrap() vfs.FS { return fs.FS }

type patientFile struct {
	vfs.File
	fs *patientFS
}

func (f *patientFile) Write(p []byte) (n int, err error) {
	err = f.fs.try(func() error {
		m, err := f.File.Write(p[n:])
		n += m
		return err
	})
	return n, err
}

// WriteAt also fails where bytes are replaced: a limit on the size of files counts them, too.
func (f *patientFile) WriteAt(p []byte, at int64) (n int, err error) {
	err = f.fs.try(func() error {
		n, err = f.File.WriteAt(p, at)
		return err
	})
	return n, err
}

// Preallocate only saves time: writes tell whether there is room.
func (f *patientFile) Preallocate(offset, length int64) error {
	if err := f.File.Preallocate(offset, length); !isFull(err) {
		return err
	}
	return nil
}

func (f *patientFile) Sync() error { return f.fs.try(f.File.Sync) }

func (f *patientFile) SyncData() error { return f.fs.try(f.File.SyncData) }
