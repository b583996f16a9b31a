package schedules

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/jobjson"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/store"
)

// Definition is the client's definition of a schedule, with the defaults of misfires and
// overlaps filled in.
type Definition struct {
	schedule.Spec
	schedule.Misfire
	Overlap schedule.Overlap
	Max     int64            `json:",omitzero"` // occurrences; 0: no bound
	Jitter  time.Duration    `json:",omitzero"`
	Except  []schedule.Dates `json:",omitempty"`
	Job     job.Draft
}

// rules compiles a definition.
func (d *Definition) rules(name string) (*schedule.Rules, error) {
	table, err := schedule.New(d.Spec)
	if err != nil {
		return nil, err
	}
	if len(d.Except) > 0 {
		table = table.Except(d.Except)
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

// sameTimes reports whether two definitions have the same occurrences, due at the same times.
func (d *Definition) sameTimes(o *Definition) bool {
	mine, its := Definition{Spec: d.Spec, Jitter: d.spread(), Except: d.Except}, Definition{Spec: o.Spec, Jitter: o.spread(), Except: o.Except}
	return mine.equal(&its)
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
	Fired   int64 `json:"fired,omitempty"`
	Missed  int64 `json:"missed,omitempty"`
	Skipped int64 `json:"skipped,omitempty"`
	Failed  int64 `json:"failed,omitempty"`
	Manual  int64 `json:"manual,omitempty"`
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

// unreadable is the error of a schedule that waits because something of it cannot be read.
func unreadable(now job.Instant, err error) *LastError {
	return &LastError{At: now, Reason: ReasonUnreadable, Message: "The schedule waits: " + err.Error()}
}

// The reasons of a LastError, and of a failed or skipped occurrence.
const (
	ReasonTopicFull     = "topic_full"
	ReasonTopicDraining = "topic_draining"
	ReasonClock         = "clock_went_back"
	ReasonUnreadable    = "unreadable"
	ReasonTemplate      = "invalid_job"
	ReasonIDTaken       = "id_taken"
	ReasonNoMembers     = "no_members"
	ReasonOverlap       = "overlap"
	ReasonPaused        = "paused"
	ReasonChanged       = "changed"
	ReasonByHand        = "by_hand"
)

// tick is a schedule.Tick.
type tick struct {
	At   job.Instant `json:"at"`
	Time job.Instant `json:"time"`
}

func tickOf(t schedule.Tick) tick { return tick{job.InstantOf(t.At), job.InstantOf(t.Time)} }

func upTo(at job.Instant) tick { return tick{at, at} }

func (t tick) tick() schedule.Tick { return schedule.Tick{At: t.At.Time(), Time: t.Time.Time()} }

// maxLeft bounds the topics that a schedule remembers; the latest stay.
const maxLeft = 10

// left is a topic, or a group, with which a node may have registered occurrences that are due until a time, before the schedule
// left it.
type left struct {
	Topic string      `json:"topic"`
	Until job.Instant `json:"until"`
	Group string      `json:"group,omitempty"` // of its jobs
}

// record is a schedule as its document keeps it.
type record struct {
	UID       string      `json:"uid"`
	Version   uint64      `json:"version"`
	CreatedAt job.Instant `json:"created_at"`
	UpdatedAt job.Instant `json:"updated_at"`
	Def       Definition  `json:"definition"`
	// Since: the schedule has the occurrences T > Since.
	Since job.Instant `json:"since"`
	// Done: the occurrences up to this tick are decided.
	Done     tick `json:"done"`
	Counters `json:"counters"`
	// Open are jobs that may not have ended, maxOpen at most. Overlap Allow needs none.
	Open []job.Key `json:"open,omitempty"`
	// Left are topics that the schedule had when an occurrence was due, maxLeft at most.
	Left []left `json:"left,omitempty"`
	// Skips are the occurrences that clients asked to skip, and that are to come.
	Skips     []job.Instant `json:"skips,omitempty"`
	Last      *Last         `json:"last,omitempty"`
	LastError *LastError    `json:"last_error,omitempty"`
	Pause     *job.Pause    `json:"pause,omitempty"`
	// DeletedAt: the document is a tombstone, so that a node that still knows the schedule
	// cannot overwrite a new one.
	DeletedAt job.Instant `json:"deleted_at,omitempty"`
}

// key is the key of the job of an occurrence, or of its fan-out.
func (r *record) key(name string, at time.Time) job.Key {
	return job.Key{Topic: r.Def.Topic(), ID: schedule.ID(name, at)}
}

// opened is how Open has the job of a key: for a fan-out, as a member without a name.
func (r *record) opened(key job.Key) job.Key {
	if r.Def.Job.Group != nil {
		key.ID = job.MemberID(key.ID, "")
	}
	return key
}

// group is the group of the jobs, or empty.
func (d *Definition) group() string { return orZero(d.Job.Group) }

// rules are those of the definition, with the occurrences to skip. The error is store.ErrNewer: another version of duehook
// accepted the definition.
func (r *record) rules(name string) (*schedule.Rules, error) {
	rules, err := r.Def.rules(name)
	if err != nil {
		return nil, fmt.Errorf("%w: the schedule %s: %w", store.ErrNewer, name, err)
	}
	for _, at := range r.Skips {
		rules.Skips = append(rules.Skips, at.Time())
	}
	return rules, nil
}

func (r *record) exists() bool { return r.UID != "" && r.DeletedAt == 0 }

// wake resumes a schedule whose pause is over. It may be made to any copy of the document.
func (r *record) wake(now job.Instant) bool {
	if r.Pause == nil || !r.Pause.Over(now) {
		return false
	}
	r.resume(r.Pause.Until)
	return true
}

// resume makes the occurrences after an instant those of the schedule.
func (r *record) resume(at job.Instant) {
	r.Version++
	r.UpdatedAt, r.LastError, r.Pause = at, nil, nil
	r.Since, r.Done = at, upTo(at)
}

// documentKind is the kind of documents that are schedules; their names are those of
// the schedules.
const documentKind = "schedule"

type document = documents.Document[record]

// collection returns the documents of schedules. A schedule with a field that this
// version does not know could fire otherwise, so it is left to newer versions.
func collection(s store.Documents, clock job.Clock) *documents.Collection[record] {
	return documents.New(documents.Options[record]{
		Store: s, Kind: documentKind, Strict: true, Clock: clock,
		Max: MaxSchedules, MaxBytes: MaxAllBytes, Full: ErrTooMany, Missing: ErrNotFound,
		Exists: (*record).exists, Tombstone: `"deleted_at":`, Size: func(r *record) int { return r.Def.size() },
		Version: func(d *document) uint64 { return jobjson.VersionOf(d.Value.UID, d.Value.Version) },
	})
}

// Any reports whether a store has a schedule.
func Any(ctx context.Context, s store.Documents) (bool, error) {
	docs := collection(s, job.SystemClock())
	for raw, err := range docs.From(ctx, "", listAtOnce) {
		if err != nil {
			return false, err
		}
		if d := docs.Decode(raw); d.Err != nil || d.Value.exists() {
			return true, nil
		}
	}
	return false, nil
}

// progress is the input of package schedule from a record.
func (r *record) progress() schedule.Progress {
	return schedule.Progress{Since: r.Since.Time(), Done: r.Done.tick(), Fired: r.Fired}
}
