package diskstore

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/duehook/duehook/internal/job"
)

// reserve is the space of the disk that new jobs leave for the delivery of those that are
// stored: an engine that cannot write stops.
const reserve = 512 << 20

// roomLook is how often the free space is looked at.
const roomLook = time.Second

// room watches the free space of the disk.
type room struct {
	fs   *patientFS
	dir  string
	next atomic.Int64 // when to look again, as an Instant
	none atomic.Bool
}

// Room returns the free space of the disk with a directory, and how much of it new jobs leave.
func Room(dir string) (free, left uint64, err error) {
	usage, err := vfs.Default.GetDiskUsage(dir)
	return usage.AvailBytes, reserve, err
}

// full reports whether the disk has no room for more jobs or larger ones.
func (s *Store) full() bool {
	now := job.InstantOf(s.clock.Now())
	r := &s.room
	if next := r.next.Load(); (int64(now) >= next || next > int64(now.Add(roomLook))) && r.next.CompareAndSwap(next, int64(now.Add(roomLook))) {
		usage, err := r.fs.GetDiskUsage(r.dir)
		r.none.Store(err == nil && usage.AvailBytes < reserve) // a file system in memory has no such figure
	}
	return r.none.Load() || r.fs.full.Load()
}
