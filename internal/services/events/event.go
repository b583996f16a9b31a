// Package events reports changes of jobs on all nodes to watchers.
//
// Events are a live view, not a record: they are not stored, and nothing waits for a
// watcher. Without watchers they cost nothing.
package events

import (
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// Type is the type of an event.
type Type string

// The types.
const (
	Registered    Type = "registered"
	Changed       Type = "changed" // by a client: its time, content, or a cancellation to come
	Delivered     Type = "delivered"
	Failed        Type = "failed"  // an attempt; another one follows
	Snoozed       Type = "snoozed" // put off by the receiver
	Dead          Type = "dead"
	Cancelled     Type = "cancelled"
	Expired       Type = "expired"
	Replayed      Type = "replayed"
	CircuitOpened Type = "circuit_opened" // until NextAt
	CircuitClosed Type = "circuit_closed"
	TopicPaused   Type = "topic_paused"
	TopicDraining Type = "topic_draining" // it accepts no jobs
	TopicResumed  Type = "topic_resumed"
	// Of recurring schedules; the occurrence is NextAt.
	ScheduleChanged   Type = "schedule_changed"
	SchedulePaused    Type = "schedule_paused"
	ScheduleResumed   Type = "schedule_resumed"
	ScheduleDeleted   Type = "schedule_deleted"
	OccurrenceMissed  Type = "occurrence_missed"
	OccurrenceSkipped Type = "occurrence_skipped"
	OccurrenceFailed  Type = "occurrence_failed"
	// Gap reports lost events: the view of a watcher may be stale.
	Gap Type = "gap"
)

// Types are all types.
var Types = []Type{
	Registered, Changed, Delivered, Failed, Snoozed, Dead, Cancelled, Expired, Replayed,
	CircuitOpened, CircuitClosed, TopicPaused, TopicDraining, TopicResumed,
	ScheduleChanged, SchedulePaused, ScheduleResumed, ScheduleDeleted, OccurrenceMissed, OccurrenceSkipped, OccurrenceFailed, Gap,
}

// routine events are dropped first when there are too many.
func (t Type) routine() bool { return t == Registered || t == Delivered || t == Changed }

// Event is one change. Fields that its type does not use are empty.
type Event struct {
	ID       string      `json:"i"` // unique among all nodes
	Type     Type        `json:"t"`
	At       job.Instant `json:"a"`
	Topic    string      `json:"o,omitempty"`
	Schedule string      `json:"c,omitempty"`
	JobID    string      `json:"j,omitempty"`
	UID      string      `json:"u,omitempty"`
	Endpoint string      `json:"e,omitempty"`
	Attempts int         `json:"n,omitempty"` // charged so far
	Status   int         `json:"s,omitempty"` // of the receiver's answer
	Error    string      `json:"r,omitempty"` // class of an attempt's error
	Reason   string      `json:"w,omitempty"` // why a job ended
	NextAt   job.Instant `json:"x,omitempty"`

	Facts
}

// Facts are what filters ask of the job of an event, and clients are not shown.
type Facts struct {
	BizKey    string       `json:"b,omitempty"`
	OrderKey  string       `json:"k,omitempty"`
	Group     string       `json:"g,omitempty"`
	Dialect   string       `json:"y,omitempty"`
	Labels    []job.Label  `json:"l,omitempty"`
	Priority  job.Priority `json:"p,omitempty"`
	CreatedAt job.Instant  `json:"d,omitempty"`
}

// of sets the facts, and the schedule that made the job.
func (e *Event) of(j *job.Job) {
	s := &j.Spec
	e.Facts = Facts{
		BizKey: s.BizKey, OrderKey: s.OrderKey, Dialect: s.DialectName(), Labels: s.Labels, Priority: s.Priority, CreatedAt: j.CreatedAt,
	}
	if s.Group != nil {
		e.Group = s.Group.Group
	}
	if s.Occurrence != nil {
		e.Schedule = s.Occurrence.Schedule
	}
}

// Matches reports whether a filter selects the job of the event, or what else it is about. Filters
// of states and of due times select every event.
func (e *Event) Matches(q store.Query) bool {
	if e.JobID == "" && (q.Priority != 0 || q.CreatedFrom != 0 || q.CreatedTo != 0) {
		return false
	}
	q.States, q.DueFrom, q.DueTo = nil, 0, 0
	j := job.Job{Key: job.Key{Topic: e.Topic, ID: e.JobID}, UID: e.UID, Reason: e.Reason, CreatedAt: e.CreatedAt}
	j.Spec = job.Spec{
		Destination: job.Destination(e.Endpoint), BizKey: e.BizKey, OrderKey: e.OrderKey, Labels: e.Labels, Priority: e.Priority,
		Occurrence: &job.Occurrence{Schedule: e.Schedule},
	}
	if e.Dialect != "" {
		j.Spec.Dialect = &job.Dialect{Name: e.Dialect}
	}
	if e.Group != "" {
		j.Spec.Group = &job.Membership{Group: e.Group}
	}
	return q.Matches(&j)
}

// MaxID is the longest ID of an event, in characters.
const MaxID = 64
