package journal

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gofrs/flock"
)

// ErrInUse means that another process has the journal open.
var ErrInUse = errors.New("another duehook uses this data directory")

// lockFile keeps other processes from opening the journal at path. The operating system
// releases the lock at the end of the process, also after a crash.
func lockFile(path string) (*flock.Flock, error) {
	l := flock.New(path + ".lock")
	ok, err := l.TryLock()
	switch {
	case err != nil:
		return nil, fmt.Errorf("lock the journal: %w", err)
	case !ok:
		return nil, fmt.Errorf("%w: %s; stop that one, or give this one a directory of its own (--data-dir)",
			ErrInUse, filepath.Dir(path))
	}
	return l, nil
}
