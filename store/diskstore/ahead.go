package diskstore

import (
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// logCategory is what the engine calls its log when it opens one.
const logCategory vfs.DiskWriteCategory = "pebble-wal"

// aheadStep is how many bytes an aheadFile grows at a time.
const aheadStep = 256 << 10

var zeros [aheadStep]byte

// aheadFile is a log that grows by zeros, in steps, and is overwritten. Most syncs then change neither
// the file's size nor its blocks, and write only the records. The engine's reader takes the zeros for
// the end of the log.
type aheadFile struct {
	vfs.File
	at, size int64
}

func writeAhead(f vfs.File) (vfs.File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &aheadFile{File: f, size: info.Size()}, nil
}

func (f *aheadFile) Write(p []byte) (int, error) {
	for f.at+int64(len(p)) > f.size {
		n, err := f.WriteAt(zeros[:], f.size)
		if f.size += int64(n); err != nil {
			break // writing p reports it, or waits
		}
	}
	n, err := f.File.Write(p)
	f.at += int64(n)
	return n, err
}
