package store

import (
	"context"
	"errors"

	"github.com/duehook/duehook/job"
)

// RestoredJob is a job with the log of its attempts, oldest first.
type RestoredJob struct {
	Job job.Job
	Log []job.Attempt
	// Over is what may stand under the job's key and is replaced then; nil:
	// nothing may.
	Over *Standing
}

// Standing is what tells how far a job has come: the registration, and the
// version of it. The zero value means that there is no job.
type Standing struct {
	UID       string
	State     job.State // Waiting or Retrying for a job that is ready
	Version   uint64
	Token     uint64
	CreatedAt job.Instant
}

// Exists reports whether there is a job.
func (s *Standing) Exists() bool { return s.UID != "" }

// Of reports whether j stands so.
func (s *Standing) Of(j *job.Job) bool { return s.UID == j.UID && s.Version == j.Version }

// StandingOf is how j stands.
func StandingOf(j *job.Job) Standing {
	state := j.State
	if state == job.Ready {
		state = j.Pending()
	}
	return Standing{UID: j.UID, State: state, Version: j.Version, Token: j.Token, CreatedAt: j.CreatedAt}
}

// Comparing is what is needed to hold a journal against a store, and to notice
// that the store has lost something.
type Comparing interface {
	// Standings tells how the jobs of keys stand, in the order of keys.
	Standings(ctx context.Context, keys []job.Key) ([]Standing, error)
	// SwapMarks leaves a text in every shard and gives those that were there;
	// empty: none, or one that the shard's server had before it was restarted or
	// replaced. A shard that does not give the last one may have lost something,
	// or gone back in time.
	SwapMarks(ctx context.Context, mark string) (before []string, err error)
}

// ErrRestoring says that a run which was asked for is under way.
var ErrRestoring = errors.New("jobs are being restored")

// Restoring compares a store with its journal on request.
type Restoring interface {
	// StartRestore asks for a run, which some node of those that share the
	// journal makes; ErrRestoring when one is under way.
	StartRestore(ctx context.Context, o RestoreOptions) (RestoreRun, error)
	// RestoreStatus tells of the last run that was asked for, and of the last
	// sweep, which nobody asks for.
	RestoreStatus(ctx context.Context) (RestoreStatus, error)
	// RestoreJob puts one job back if the store lacks it, and gives it as it
	// stands in the store then. ErrNotFound: the journal does not know it.
	// job.ErrFinished: it has ended; a dead letter, which is kept, is put back.
	RestoreJob(ctx context.Context, key job.Key) (j job.Job, restored bool, err error)
}

// RestoreOptions say what a run is about.
type RestoreOptions struct {
	Topic string `json:"topic"` // empty: all
	// NotOverdue leaves out what should have been delivered already.
	NotOverdue bool `json:"not_overdue"`
}

// RestoreState says how far a run has come.
type RestoreState string

// The states of a run.
const (
	RestoreNone    RestoreState = "none"    // none was asked for yet
	RestoreWaiting RestoreState = "waiting" // the node that sweeps has not taken it up
	RestoreRunning RestoreState = "running"
	RestoreDone    RestoreState = "done"
	RestoreFailed  RestoreState = "failed" // the store or the journal failed; ask again
)

// Ended reports whether nothing more comes of a run.
func (s RestoreState) Ended() bool {
	return s == RestoreNone || s == RestoreDone || s == RestoreFailed
}

// RestoreRun is one comparison of all jobs, or of those of a topic.
type RestoreRun struct {
	State     RestoreState   `json:"state"`
	Options   RestoreOptions `json:"options"`
	StartedAt job.Instant    `json:"started_at"` // by the clock of a node
	EndedAt   job.Instant    `json:"ended_at"`
	RestoreReport
}

// RestoreReport counts what a run found and did.
type RestoreReport struct {
	Checked  int64 `json:"checked"`  // jobs of the journal and of the store that were compared
	Restored int64 `json:"restored"` // the store lacked them, and has them again
	Skipped  int64 `json:"skipped"`  // the store lacks them; they were left out because they are overdue
	// NoRoom are jobs that the store lacks and is too full for. They stay in the
	// journal, and the next run tries again.
	NoRoom int64 `json:"no_room"`
	// Conflicts are jobs that the store and the journal had differently, and
	// Repaired those of them that were made equal.
	Conflicts int64 `json:"conflicts"`
	Repaired  int64 `json:"repaired"`
	// Unreadable are jobs of the journal that cannot be read, and were passed over;
	// UnreadableJobs names the first MaxUnreadableNamed of them, as topic/id.
	Unreadable     int64    `json:"unreadable"`
	UnreadableJobs []string `json:"unreadable_jobs,omitempty"`
}

// MaxUnreadableNamed bounds RestoreReport.UnreadableJobs.
const MaxUnreadableNamed = 20

// RestoreStatus tells of the last runs.
type RestoreStatus struct {
	Requested RestoreRun // State none: none was asked for
	Sweep     RestoreRun // the last complete one; State none: none yet
	// Lost: the store may have lost jobs that are not all back.
	Lost bool
}
