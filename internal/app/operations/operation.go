package operations

import (
	"fmt"
	"slices"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Action is the change of each job.
type Action string

// The actions.
const (
	Cancel     Action = "cancel"
	Run        Action = "run" // due now
	Replay     Action = "replay"
	Discard    Action = "discard"
	Reschedule Action = "reschedule"
)

// State is the state of an operation.
type State string

// The states of an operation.
const (
	Running State = "running" // a node works on it, or will
	Stopped State = "stopped" // by a client; can be resumed
	Done    State = "done"
	Failed  State = "failed" // it cannot go on
)

// Ended reports whether the operation changes no further job.
func (s State) Ended() bool { return s == Done || s == Failed }

// maxErrors bounds the failed jobs that an operation names.
const maxErrors = 10

// Operation is a change of many jobs. The store keeps its JSON.
type Operation struct {
	ID string `json:"-"` // a ULID: sorted by id is sorted by age
	// Version counts the writes, progress included.
	Version uint64 `json:"-"`
	Action  Action `json:"action"`
	// Filter selects the jobs. Order, Limit and Cursor are not used.
	Filter store.Query `json:"filter"`
	// To is the time to which jobs are rescheduled.
	To job.Instant `json:"to,omitempty"`
	// Set is what jobs are replayed with; nil: as they were.
	Set  *job.Draft `json:"set,omitempty"`
	Rate int        `json:"rate"`         // most jobs per second
	By   string     `json:"by,omitempty"` // the name of the API key that began it
	// Content is the fingerprint of the request if it had an Idempotency-Key.
	Content job.Fingerprint `json:"content,omitempty"`

	State State  `json:"state"`
	Why   string `json:"why,omitempty"` // it failed
	// Estimate is how many jobs there were to change when it began; nil is unknown.
	Estimate *int64     `json:"estimate,omitempty"`
	Matched  int64      `json:"matched"` // jobs handled: the sum of the next three
	Changed  int64      `json:"changed"`
	Skipped  int64      `json:"skipped"` // jobs that changed before
	Failed   int64      `json:"failed"`
	Errors   []JobError `json:"errors,omitempty"` // of the first that failed

	// By the store's clock. Only what happened to jobs until StartedAt counts.
	StartedAt job.Instant `json:"started_at"`
	UpdatedAt job.Instant `json:"updated_at"`
	EndedAt   job.Instant `json:"ended_at,omitempty"`

	Cursor string `json:"cursor,omitempty"` // of the page that is worked on
	Owner  string `json:"owner,omitempty"`  // the node that works on it
}

// JobError is a job that could not be changed.
type JobError struct {
	Job     string `json:"job"` // topic/id
	Message string `json:"message"`
}

// VersionOf is the version that answers show, for the number of writes from 1: that of an operation which
// takes the id of another is larger.
func (o *Operation) VersionOf(number uint64) uint64 {
	if number == 0 { // there is nothing
		return 0
	}
	return uint64(max(o.StartedAt, 1)) + number - 1
}

// Within reports whether the operation changes jobs of these topics only.
func (o *Operation) Within(topics job.TopicSet) bool {
	if o.Filter.Topic != "" {
		return topics.Has(o.Filter.Topic)
	}
	return topics.Covers(o.Filter.Only)
}

// listing is the query that lists candidates. Carriers and workers change the state and
// time of unfinished jobs meanwhile, so selects checks these.
func (o *Operation) listing() store.Query {
	q := o.Filter
	if o.ofEnded() {
		return q
	}
	q.States, q.DueFrom, q.DueTo = unfinished, 0, 0
	return q
}

// ofEnded reports whether the action is for ended jobs. These do not move in a listing, so
// one pass finds all of them.
func (o *Operation) ofEnded() bool { return o.Action == Replay || o.Action == Discard }

// selects reports whether the operation has to change the job: the filter selected it when
// the operation began, and nothing happened to it since. So a job that is dead again is not
// replayed again, and a job that was run and failed waits for its retry.
func (o *Operation) selects(j *job.Job, now job.Instant) bool {
	before, q := o.before(j), o.Filter
	if j.CreatedAt > o.StartedAt || !q.Matches(&before) {
		return false
	}
	switch o.Action {
	case Cancel:
		return !j.State.Final() && !j.CancelRequested
	case Replay, Discard:
		return j.EndedAt <= o.StartedAt
	}
	// A time that has passed is not set a second time: the job may have been
	// attempted because of the first.
	due := o.when(j).Due(j.Key, now)
	if j.State.Final() || j.State == job.Running || o.claimed(j) && due == now {
		return false
	}
	return max(j.NextAt, now) != due
}

// claimed reports whether a worker took the job after the operation began. A
// token is never less than the time of its claim.
func (o *Operation) claimed(j *job.Job) bool {
	return j.Token > uint64(o.StartedAt) || o.attempted(j)
}

// attempted reports whether the last attempt began after the operation did.
func (o *Operation) attempted(j *job.Job) bool {
	return j.LastAttempt != nil && j.LastAttempt.StartedAt > o.StartedAt
}

// before is the job with the state and time that it had when the operation began, as far
// as its record shows. If the job may have waited or been carried, the filter decides
// which of both counts.
func (o *Operation) before(j *job.Job) job.Job {
	was, last := *j, j.LastAttempt
	if j.State.Final() {
		return was
	}
	was.State = j.Pending()
	if last != nil && last.StartedAt.Add(last.Duration) > o.StartedAt { // it was due for this attempt then, or for one before
		was.NextAt = last.StartedAt
		if j.Attempts <= 1 || j.DueAt > o.StartedAt {
			was.State, was.NextAt = job.Waiting, j.DueAt
		}
		if !o.attempted(j) {
			was.State = job.Running
		}
		return was
	}
	switch {
	case j.State == job.Running && !o.claimed(j):
		was.State = job.Running
	case (j.State == job.Ready || j.State == job.Running) && slices.Contains(o.Filter.States, job.Ready):
		was.State = job.Ready
	}
	return was
}

// when is when Run and Reschedule make a job due. Only Reschedule spreads jobs.
func (o *Operation) when(j *job.Job) job.When {
	if o.Action == Run {
		return job.When{}
	}
	return job.When{At: o.To, Spread: j.Spec.When.Spread}
}

// change changes one job. The limits bound the fields to set.
func (o *Operation) change(j *job.Job, now job.Instant, l job.Bounds) error {
	if !o.selects(j, now) {
		return errPassedOver
	}
	switch o.Action {
	case Cancel:
		_, err := j.Cancel(now)
		return err
	case Discard:
		return j.Discard(now)
	case Replay:
		return o.replay(j, now, l)
	case Run:
		return j.Run(now)
	}
	return j.Reschedule(o.when(j), now)
}

// replay sends the job again, with the changes of Set.
func (o *Operation) replay(j *job.Job, now job.Instant, l job.Bounds) error {
	if o.Set == nil {
		return j.Replay(now)
	}
	spec, when, err := o.Set.Patch(j, l, now)
	if err != nil {
		return err
	}
	return j.ReplayAs(spec, when, now)
}

// documentKind is the kind of documents that are operations; their names are ids.
const documentKind = "operation"

// stored is an operation with its version.
type stored = documents.Document[Operation]

// collection returns the documents of operations. An unknown field makes an operation
// unreadable: without a part of its filter, it would change other jobs.
func collection(s store.Documents, clock job.Clock) *documents.Collection[Operation] {
	return documents.New(documents.Options[Operation]{
		Store: s, Kind: documentKind, Strict: true, Missing: ErrNotFound,
		Max: MaxKept, MaxBytes: MaxAllBytes, Full: ErrTooMany, Clock: clock,
		New:     func(id string) Operation { return Operation{ID: id} },
		Version: func(d *stored) uint64 { return d.Value.VersionOf(d.Version) },
		Check: func(o *Operation) error {
			if _, ok := states[o.Action]; !ok {
				return fmt.Errorf("unknown action %q", o.Action)
			}
			return nil
		},
	})
}
