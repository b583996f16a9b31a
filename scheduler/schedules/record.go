package schedules

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/schedule"
	"github.com/duehook/duehook/store"
)

// Definition is the client's definition of a schedule, with the defaults of misfires and
// overlaps filled in.
type Definition struct {
	schedule.Spec
	schedule.Misfire
	Overlap schedule.Overlap
	Max     int64         `json:",omitzero"` // occurrences; 0: no bound
	Jitter  time.Duration `json:",omitzero"`
	Job     job.Draft
}

func seconds(at int64) time.Time { return time.Unix(at, 0).UTC() }

// rules compiles a definition.
func (d *Definition) rules(name string) (*schedule.Rules, error) {
	table, err := schedule.New(d.Spec)
	if err != nil {
		return nil, err
	}
	return &schedule.Rules{Name: name, Table: table, Jitter: d.spread(), Overlap: d.Overlap, Max: d.Max, Misfire: d.Misfire}, nil
}

// equal reports whether two definitions do the same. A default that is written out is
// still the default.
func (d *Definition) equal(o *Definition) bool {
	return bytes.Equal(d.filled(), o.filled())
}

// filled is the definition with the defaults of its timetable.
func (d *Definition) filled() []byte {
	whole := *d
	if table, err := schedule.New(d.Spec); err == nil {
		whole.Spec = table.Spec
	}
	return whole.text()
}

// size is how many bytes the document of a schedule takes for its definition.
func (d *Definition) size() int { return len(d.text()) }

// text is the definition as it is stored.
func (d *Definition) text() []byte {
	text, _ := json.Marshal(d) // it always has a form
	return text
}

// spread is how much later than its occurrence a job may be due: by the jitter of the
// schedule, and by the spread of its job.
func (d *Definition) spread() time.Duration {
	if d.Job.Spread == nil {
		return d.Jitter
	}
	return d.Jitter + *d.Job.Spread
}

// Topic is the topic of the schedule's jobs.
func (d *Definition) Topic() string { return topicOf(&d.Job) }

func topicOf(d *job.Draft) string {
	if d.Topic == nil {
		return job.DefaultTopic
	}
	return *d.Topic
}

// Counters count the outcomes of occurrences.
type Counters struct {
	Fired      int64 `json:"fired,omitempty"`
	Missed     int64 `json:"missed,omitempty"`
	Skipped    int64 `json:"skipped,omitempty"`
	Failed     int64 `json:"failed,omitempty"`
	Manual     int64 `json:"manual,omitempty"`
	Backfilled int64 `json:"backfilled,omitempty"`
}

// Last is the last decision on an occurrence, or the last manual run.
type Last struct {
	Time    job.Instant      `json:"time"`
	DueAt   job.Instant      `json:"due_at"`
	Outcome schedule.Outcome `json:"outcome"`
	Reason  string           `json:"reason,omitempty"`
	Key     job.Key          `json:"key"` // of the job; empty: there is none
	UID     string           `json:"uid,omitempty"`
}

// LastError is why occurrences stay undecided.
type LastError struct {
	At      job.Instant `json:"at"`
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
}

// The reasons of a LastError, and of a failed or skipped occurrence.
const (
	ReasonTopicFull     = "topic_full"
	ReasonTopicDraining = "topic_draining"
	ReasonClock         = "clock_went_back"
	ReasonTemplate      = "invalid_job"
	ReasonIDTaken       = "id_taken"
	ReasonOverlap       = "overlap"
	ReasonPaused        = "paused"
)

// queued is an occurrence that waits for the end of a job.
type queued struct {
	Time int64       `json:"time"`
	Late bool        `json:"late,omitempty"`
	Def  *Definition `json:"definition,omitempty"` // its form, if that has changed since
	Form uint64      `json:"form"`                 // version of its form
}

// record is a schedule as its document keeps it. T of occurrences are in seconds.
type record struct {
	UID       string      `json:"uid"`
	Version   uint64      `json:"version"`
	CreatedAt job.Instant `json:"created_at"`
	UpdatedAt job.Instant `json:"updated_at"`
	Def       Definition  `json:"definition"`
	// Since: the form decides T > Since.
	Since int64 `json:"since"`
	// Cursor: all T <= Cursor are decided.
	Cursor   int64 `json:"cursor"`
	Counters `json:"counters"`
	// Backfills are counted by operation, so that a count that is noted twice counts once.
	Backfills map[string]backfillCount `json:"backfills,omitempty"`
	Queued    *queued                  `json:"held,omitempty"` // its name in stored documents
	// Former are earlier forms whose jobs may still wait for their jitter.
	Former []form `json:"former,omitempty"`
	// Stayed are times after the cursor that are decided: an earlier form registered their
	// jobs, and a client ran or cancelled them.
	Stayed []int64 `json:"stayed,omitempty"`
	// Open are jobs that may not have ended. Overlap Allow needs none.
	Open      []job.Key   `json:"open,omitempty"`
	Intent    *intent     `json:"intent,omitempty"`
	Last      *Last       `json:"last,omitempty"`
	LastError *LastError  `json:"last_error,omitempty"`
	PausedAt  job.Instant `json:"paused_at,omitempty"`
	Note      *string     `json:"note,omitempty"`
	// DeletedAt: the document is a tombstone, so that a node that still knows the schedule
	// cannot overwrite a new one.
	DeletedAt job.Instant `json:"deleted_at,omitempty"`
}

// intent is a decision that is not executed yet.
type intent struct {
	At      job.Instant `json:"at"`
	Release bool        `json:"release,omitempty"`
	Steps   []step      `json:"steps,omitempty"`
	// Final: what its topic refuses is failed, for a change follows.
	Final  bool    `json:"final,omitempty"`
	Change *change `json:"change,omitempty"` // after the steps
}

// step is a schedule.Step.
type step struct {
	Time    int64            `json:"t"`
	Outcome schedule.Outcome `json:"o"`
	Late    bool             `json:"l,omitempty"`
	Count   int64            `json:"n,omitempty"`
}

// change is a change of the schedule itself.
type change struct {
	Kind changeKind  `json:"kind"`
	At   job.Instant `json:"at"`
	Def  *Definition `json:"definition,omitempty"` // of put
	Note *string     `json:"note,omitempty"`       // of pause and resume
	Run  string      `json:"run,omitempty"`        // names the run
	Call string      `json:"call,omitempty"`       // of run: two calls never write the same

	// Of the call that made it, and not stored:
	intended bool          // it is written
	ended    func(w *work) // may be nil
}

type changeKind string

const (
	changePut    changeKind = "put"
	changePause  changeKind = "pause"
	changeResume changeKind = "resume"
	changeDelete changeKind = "delete"
	changeRun    changeKind = "run"
)

// documentKind is the kind of documents that are schedules; their names are those of
// the schedules.
const documentKind = "schedule"

type document = documents.Document[record]

// collection returns the documents of schedules. A schedule with a field that this
// version does not know could fire otherwise, so it is left to newer versions.
func collection(s store.Documents, clock job.Clock) *documents.Collection[record] {
	return documents.New(documents.Options[record]{
		Store: s, Kind: documentKind, Strict: true, Clock: clock,
		Max: MaxSchedules, MaxBytes: MaxAllBytes, Full: ErrTooMany, Counts: (*record).exists,
	})
}

// after is the last whole second up to an instant: T > at exactly if T > after(at).
func after(at job.Instant) int64 { return floorSecond(int64(at)) }

func floorSecond(ms int64) int64 {
	s := ms / 1000
	if ms%1000 < 0 {
		s--
	}
	return s
}

// state is the input of package schedule from a record.
func (r *record) state() schedule.State {
	s := schedule.State{Cursor: time.Unix(r.Cursor, 0).UTC(), Fired: r.Fired, Queued: r.Queued != nil}
	if s.Queued {
		s.Fired++ // it will
	}
	return s
}
