package ledger

import (
	"fmt"

	"github.com/duehook/duehook/job"
)

// flowRow is one row of flow.
type flowRow struct {
	of      *change
	fact    string // names it among the rows of its message, which have each fact once
	at      job.Instant
	from    any // an int64, or nil for a registration
	to      job.State
	attempt int
	actor   string
	reason  string
	log     []byte // nil: no attempt was made
}

func (f *flowRow) row(args []any, host string) []any {
	var log any
	if f.log != nil {
		log = f.log
	}
	return append(args, f.of.seq, f.fact, int64(f.at), f.from, int64(f.to), int64(f.attempt), f.actor, host, f.reason, log)
}

// logRows are the flow rows of the attempts of a job, and of its end: its node may have died before it wrote that.
func logRows(j *job.Job, log []job.Attempt) []flowRow {
	rows := make([]flowRow, len(log), len(log)+1)
	for i := range log {
		a := &log[i]
		rows[i] = flowRow{
			fact: attemptFact(a), at: a.StartedAt.Add(a.Duration), from: int64(job.Running), to: job.Retrying,
			attempt: a.Number, reason: a.Reason, log: encodeAttempt(a),
		}
	}
	switch n := len(rows); {
	case !j.State.Final():
	case n > 0 && ends(&log[n-1], j):
		rows[n-1].to = j.State
	default:
		rows = append(rows, flowRow{fact: versionFact(j.Version, j.State), at: j.EndedAt, from: int64(j.Pending()), to: j.State, reason: j.Reason})
	}
	return rows
}

// ends reports whether an attempt ended a job. A cancel that met it made a version, too.
func ends(a *job.Attempt, j *job.Job) bool {
	after := j.Version - a.Version
	return a.NextAt == 0 && (after == 1 || after == 2 && j.CancelRequested)
}

// attemptFact is the fact of an attempt. Its outcome may come from the worker and from the store's log, which
// differ in their times.
func attemptFact(a *job.Attempt) string {
	return fmt.Sprintf("attempt %d %d %d", a.Number, a.StartedAt, a.Version)
}

// versionFact is the fact of a change that made a version of a job. After the store went back in time, another change may
// make that version again: the end of a job must not be taken for its claim.
func versionFact(version uint64, to job.State) string {
	return fmt.Sprintf("version %d %v", version, to)
}
