package diskstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Bits of modes.
const (
	groupWrites fs.FileMode = 0o020
	others      fs.FileMode = 0o007
)

// perms are the modes of files and directories with jobs: for their owner alone, and for the group if it may write to the data
// directory, as on volumes of containers. The zero value leaves all as it is: the file system is in memory.
type perms struct{ file, dir fs.FileMode }

func permsOf(disk vfs.FS, data string) perms {
	if vfs.Root(disk) != vfs.Default || runtime.GOOS == "windows" {
		return perms{}
	}
	if info, err := os.Stat(data); err == nil && info.Mode()&groupWrites != 0 {
		return perms{0o660, 0o770}
	}
	return perms{0o600, 0o700}
}

// close sets the mode of a file.
func (p perms) close(path string) error {
	if p.file == 0 {
		return nil
	}
	if err := os.Chmod(path, p.file); err != nil {
		return fmt.Errorf("close %s to other users: %w", path, err)
	}
	return nil
}

// Restrict closes files of a data directory to other users, and the directory with all that is in it if it has nothing else.
func Restrict(data string, names ...string) error {
	entries, err := os.ReadDir(data)
	if err != nil {
		return err
	}
	names = append(names, "jobs", inventoryFile, syncedFile)
	var there []string
	for _, e := range entries {
		if slices.Contains(names, e.Name()) {
			there = append(there, e.Name())
		}
	}
	if len(there) == len(entries) {
		there = []string{"."}
	}
	return permsOf(vfs.Default, data).walk(data, there, func(mode fs.FileMode) bool { return mode&others != 0 })
}

// restrict sets the modes of a directory and of all that is in it.
func (p perms) restrict(dir string) error {
	return p.walk(dir, []string{"."}, func(fs.FileMode) bool { return true })
}

// walk sets modes that are wrong, of names in a directory and of all that is in them. It goes on after an error: a file may be another user's.
func (p perms) walk(dir string, names []string, wrong func(fs.FileMode) bool) error {
	if p.file == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, fs.WalkDir(root.FS(), name, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil || info.Mode()&fs.ModeSymlink != 0 || !wrong(info.Mode()) {
				return err
			}
			mode := p.file
			if d.IsDir() {
				mode = p.dir
			}
			if err := root.Chmod(path, mode); err != nil {
				errs = append(errs, fmt.Errorf("close %s of %s to other users: %w", path, dir, err))
			}
			return nil
		}))
	}
	return errors.Join(append(errs, root.Close())...)
}
