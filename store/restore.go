package store

import (
	"context"
	"fmt"

	"github.com/duehook/duehook/internal/job"
)

// Restoring is the part of a store by which its content walks to another store, see package walk. No node may run on the
// store meanwhile.
type Restoring interface {
	// Kinds returns the kinds of the documents that are stored, sorted.
	Kinds(ctx context.Context) ([]string, error)
	// Aside returns what the store keeps of a job outside its record and its log. The errors are those of Get.
	Aside(ctx context.Context, j *job.Job) (Aside, error)
	// Restore stores jobs of different keys as they are, about BatchBytes of them. Unfinished ones are waiting or retrying. It asks
	// no limits of topics, and registers no callbacks. A job that an earlier call stored stays as it is. Another job that has the
	// key stays, too: the error is ErrConflict then.
	Restore(ctx context.Context, jobs []Restored) error
}

// Aside is what a store keeps of a job outside its record and its log.
type Aside struct {
	CountKeys []string // that were counted
	// Stops: the job is a dead letter that stops its order key.
	Stops bool
}

// Restored is a job with all that a store keeps of it.
type Restored struct {
	Job job.Job
	Log []job.Attempt // the oldest first
	Aside
}

// Same reports whether the job is the one that a store has with this uid and version.
func (r *Restored) Same(uid string, version uint64) error {
	if r.Job.UID == uid && r.Job.Version == version {
		return nil
	}
	return fmt.Errorf("%s: %w: the store has the job %s in version %d, not %s in version %d", r.Job.Key, ErrConflict, uid, version, r.Job.UID, r.Job.Version)
}
