package store

import "github.com/duehook/duehook/internal/job"

// Backlog is the due jobs of one topic that wait: for a carrier, for a place under a
// limit, or for the circuit of their endpoint.
type Backlog struct {
	Topic string
	Jobs  int64
	// Oldest is when the first one was due.
	Oldest job.Instant
}

// Backlogs are the backlogs of all topics that have one, by name, at Now.
type Backlogs struct {
	Topics []Backlog
	Now    job.Instant
	// Partial: not all lanes were counted, so the figures are lower bounds.
	Partial bool
}
