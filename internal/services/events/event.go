// Package events reports changes of jobs on all nodes to watchers.
//
// Events are a live view, not a record: they are not stored, and nothing waits for a
// watcher. Without watchers they cost nothing.
package events

import (
	"github.com/duehook/duehook/job"
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
}

// MaxID is the longest ID of an event, in characters.
const MaxID = 64
