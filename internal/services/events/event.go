// Package events tells whoever watches what happens to jobs, on all nodes of a
// store.
//
// Nothing is kept, and nobody waits: events are a view for people and programs
// that watch, not a journal. While nobody watches, they cost nothing.
package events

import (
	"github.com/duehook/duehook/job"
)

// Type says what happened.
type Type string

// The types.
const (
	Registered    Type = "registered"
	Changed       Type = "changed" // by a client: its time, content, or that no attempt is to follow
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
	TopicDraining Type = "topic_draining" // it takes no jobs in
	TopicResumed  Type = "topic_resumed"
	// Gap stands for events that were lost: what a watcher shows may be stale.
	Gap Type = "gap"
)

// Types are all of them.
var Types = []Type{
	Registered, Changed, Delivered, Failed, Snoozed, Dead, Cancelled, Expired, Replayed,
	CircuitOpened, CircuitClosed, TopicPaused, TopicDraining, TopicResumed, Gap,
}

// routine events are left out first when there are more than can be told.
func (t Type) routine() bool { return t == Registered || t == Delivered || t == Changed }

// Event is one thing that happened. What does not belong to its type is empty.
type Event struct {
	ID       string      `json:"i"` // unique among all nodes
	Type     Type        `json:"t"`
	At       job.Instant `json:"a"`
	Topic    string      `json:"o,omitempty"`
	JobID    string      `json:"j,omitempty"`
	UID      string      `json:"u,omitempty"`
	Endpoint string      `json:"e,omitempty"`
	Attempts int         `json:"n,omitempty"` // charged so far
	Status   int         `json:"s,omitempty"` // of the receiver's answer
	Error    string      `json:"r,omitempty"` // class of what went wrong with an attempt
	Reason   string      `json:"w,omitempty"` // why a job ended
	NextAt   job.Instant `json:"x,omitempty"`
}

// MaxID is the most characters of an event's ID.
const MaxID = 64
