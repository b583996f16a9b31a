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
	// CountKeys are the keys that were counted.
	CountKeys []string
	// Over is the job that may hold the key and is replaced. Nil: the key must be free.
	Over *Standing
}

// Standing identifies the present form of a job: its registration and its version. The zero
// value means no job.
type Standing struct {
	UID       string
	State     job.State // Waiting or Retrying for a job that is ready
	Version   uint64
	Token     uint64
	CreatedAt job.Instant
}

// Exists reports whether the job exists.
func (s *Standing) Exists() bool { return s.UID != "" }

// Of reports whether it is the standing of j.
func (s *Standing) Of(j *job.Job) bool { return s.UID == j.UID && s.Version == j.Version }

// StandingOf returns the standing of j.
func StandingOf(j *job.Job) Standing {
	state := j.State
	if state == job.Ready {
		state = j.Pending()
	}
	return Standing{UID: j.UID, State: state, Version: j.Version, Token: j.Token, CreatedAt: j.CreatedAt}
}

// Restorable is a Store that can be restored from a ledger and reconciled with it. A
// store that wraps another one need not be restorable.
type Restorable interface {
	Store
	// Restore stores jobs in any state as they are. Running and ready jobs become
	// Pending. A key that exists is left alone unless its job is RestoredJob.Over. Restore
	// returns how many jobs it stored. A store without room for a new key returns ErrFull.
	Restore(ctx context.Context, jobs []RestoredJob) (int, error)
	// Standings returns the standing of each key's job, in the order of keys.
	Standings(ctx context.Context, keys []job.Key) ([]Standing, error)
	// CountKeys returns the keys that were counted of a job, in any order.
	CountKeys(ctx context.Context, j *job.Job) ([]string, error)
	// SwapEpoch stores the epoch of the data in every shard, and returns the stored
	// ones. Empty means that the shard has none, or one from before its server was
	// restarted or replaced. A shard whose epoch is not the last one stored may have
	// lost data or gone back in time.
	//
	// whole, unless empty, is the epoch of a store that lacks no job. A shard that returns
	// it is whole from now on, until its server is restarted or replaced, or loses its data.
	// Any other shard is not.
	SwapEpoch(ctx context.Context, epoch, whole string) (before []string, err error)
}

// ErrNotWhole means that a shard may lack jobs or have old ones; see ClaimOptions.OnlyWhole.
var ErrNotWhole = errors.New("the shard may lack jobs")

// ErrRestoring means that a requested run is in progress.
var ErrRestoring = errors.New("jobs are being restored")

// Restoring reconciles a store with its ledger on request.
type Restoring interface {
	// StartRestore requests a run, which one of the nodes that share the ledger makes.
	// ErrRestoring: a run is in progress.
	StartRestore(ctx context.Context, o RestoreOptions) (RestoreRun, error)
	// RestoreStatus reports the last requested run and the last comparison that nobody
	// requested.
	RestoreStatus(ctx context.Context) (RestoreStatus, error)
	// RestoreJob restores one job if the store lacks it, and returns the store's job.
	// ErrNotFound: the ledger does not have it. job.ErrFinished: it has ended; a dead
	// letter is restored.
	RestoreJob(ctx context.Context, key job.Key) (j job.Job, restored bool, err error)
}

// RestoreOptions select the jobs of a run.
type RestoreOptions struct {
	Topic string `json:"topic"` // empty: all
	// NotOverdue leaves out overdue jobs.
	NotOverdue bool `json:"not_overdue"`
}

// RestoreState is the state of a run.
type RestoreState string

// The states of a run.
const (
	RestoreNone    RestoreState = "none"    // none was requested yet
	RestoreWaiting RestoreState = "waiting" // the leader has not started it
	RestoreRunning RestoreState = "running"
	RestoreDone    RestoreState = "done"
	RestoreFailed  RestoreState = "failed" // the store or the ledger failed; request another
)

// Ended reports whether no run is waiting or in progress.
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

// RestoreReport counts the findings and repairs of a run.
type RestoreReport struct {
	Checked  int64 `json:"checked"`  // compared jobs of the ledger and the store
	Restored int64 `json:"restored"` // missing jobs that the store has again
	Skipped  int64 `json:"skipped"`  // missing jobs left out because they are overdue
	// NoRoom counts missing jobs for which the store has no room. They stay in the
	// ledger, and the next run tries again.
	NoRoom int64 `json:"no_room"`
	// Conflicts counts jobs that differed between store and ledger, and Repaired those
	// made equal.
	Conflicts int64 `json:"conflicts"`
	Repaired  int64 `json:"repaired"`
	// Unreadable counts unreadable jobs of the ledger, which were skipped;
	// UnreadableJobs names the first MaxUnreadableNamed of them, as topic/id.
	Unreadable     int64    `json:"unreadable"`
	UnreadableJobs []string `json:"unreadable_jobs,omitempty"`
}

// MaxUnreadableNamed bounds RestoreReport.UnreadableJobs.
const MaxUnreadableNamed = 20

// RestoreStatus has the last runs.
type RestoreStatus struct {
	Requested RestoreRun // State none: none was requested
	Reconcile RestoreRun // the last complete comparison that nobody requested; State none: none yet
	// Lost: the store may have lost jobs that are not all restored.
	Lost bool
}
